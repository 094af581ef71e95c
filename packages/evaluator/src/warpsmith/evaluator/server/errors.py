"""Error responses of the server: each refusal has a status, a type, a message and a remedy."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from warpsmith.evaluator.errors import (
    BadProblemError,
    DeviceQuarantinedError,
    EvaluatorError,
    IsolationUnavailableError,
    JudgeUnavailableError,
)
from warpsmith.records.errors import WarpsmithError

_OF_EVALUATOR: Final[tuple[tuple[type[WarpsmithError], int, str], ...]] = (
    (BadProblemError, 422, "bad_problem"),
    (IsolationUnavailableError, 503, "isolation_unavailable"),
    (DeviceQuarantinedError, 503, "device_quarantined"),
    (JudgeUnavailableError, 503, "judge_unavailable"),
    (EvaluatorError, 422, "bad_request"),
)


class ErrorBody(BaseModel):
    """What went wrong: a machine-readable type, and a readable message and remedy."""

    type: str
    message: str
    remedy: str


class RefusalBody(BaseModel):
    """The body of every response without a verdict."""

    model_config = ConfigDict(extra="allow")

    detail: str
    error: ErrorBody


DOCUMENTED: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": RefusalBody, "description": description}
    for status, description in {
        400: "An unknown backend or device, a bad client's name or, on /eval, a problem that cannot be judged.",
        401: "The token is missing or wrong.",
        403: "Requests of web pages are refused.",
        404: "There is no such route.",
        405: "The route has no such method.",
        413: "The body, a source or the batch is too large.",
        422: "The body is malformed, or the problem cannot be judged.",
        429: "The queue is full; Retry-After says when to retry.",
        500: "The server failed; its log has the cause.",
        503: "No device is in service, the evaluator failed, or the server shuts down.",
    }.items()
}
"""The refusals that every route can return, for /openapi.json."""


class RefusalError(EvaluatorError):
    """A request that gets no verdict.

    Args:
        status: HTTP status.
        kind: the type in the body, in snake_case.
        message, remedy: as for every WarpsmithError.
        retry_after_s: seconds until a retry may succeed; None if it cannot.
        extra: further fields of the body.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        remedy: str,
        *,
        retry_after_s: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, remedy)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.extra = extra or {}


def refusal_of(error: WarpsmithError) -> RefusalError:
    """Convert an error of the evaluator to a refusal."""
    if isinstance(error, RefusalError):
        return error
    status, kind = next((status, kind) for known, status, kind in _OF_EVALUATOR if isinstance(error, known))
    return RefusalError(status, kind, error.message, error.remedy, retry_after_s=5 if status == 503 else None)


def body_of(refusal: RefusalError) -> dict[str, Any]:
    """Return the JSON body of a refusal; clients of TritonForge's server read `detail`."""
    error = {"type": refusal.kind, "message": refusal.message, "remedy": refusal.remedy}
    return {"detail": str(refusal), "error": error, **refusal.extra}


def headers_of(refusal: RefusalError) -> dict[str, str]:
    """Return the headers of a refusal."""
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    return headers | ({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {})
