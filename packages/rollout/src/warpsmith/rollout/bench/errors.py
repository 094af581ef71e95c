"""Typed errors of an endpoint and of a bench."""

from warpsmith.records.errors import UsageError
from warpsmith.rollout.errors import RolloutError


class EndpointError(RolloutError):
    """An endpoint did not give an answer."""


class FinalEndpointError(EndpointError, UsageError):
    """An endpoint failure that no retry can fix: the bench ends."""


class NoServerError(FinalEndpointError):
    """Nothing answers at the address."""


class KeyRefusedError(FinalEndpointError):
    """The API key is missing, wrong, or may not use the model."""


class UnknownModelError(FinalEndpointError):
    """The endpoint does not have the model."""


class RequestRefusedError(FinalEndpointError):
    """The endpoint does not take the request for another reason."""


class EndpointFailingError(FinalEndpointError):
    """Several requests failed in a row."""


class ContextTooLongError(EndpointError):
    """Prompt and answer do not fit the model's context."""


class RetryableError(EndpointError):
    """A failure that may be temporary: the endpoint is busy, failed, was cut off, or is too slow.

    Attributes:
        retry_after_s: how long the endpoint asks to wait; None if it does not say.
    """

    def __init__(self, message: str, remedy: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, remedy)
        self.retry_after_s = retry_after_s


class BusyError(RetryableError):
    """The endpoint has too many requests (429)."""


class ServerFailedError(RetryableError):
    """The endpoint failed (5xx), or closed the connection before it answered."""


class BrokenAnswerError(RetryableError):
    """An answer ended before it was complete, or is not what the API promises."""


class SlowAnswerError(RetryableError):
    """An answer did not come, or did not end, in time."""


class StrategyError(RolloutError):
    """A strategy raised, or planned attempts that cannot be made; the bench ends."""

    exit_code = 1


class ResultError(RolloutError, UsageError):
    """A result of a bench cannot be read, or two of them cannot be compared."""
