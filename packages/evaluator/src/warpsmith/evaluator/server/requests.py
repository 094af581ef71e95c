"""Request handling shared by the routes: the service, error responses, and clients that disconnect."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from warpsmith.evaluator.client.interface import CLIENT_HEADER
from warpsmith.evaluator.server.errors import RefusalError, body_of, headers_of, refusal_of
from warpsmith.evaluator.server.responses import WellFormedJSON
from warpsmith.evaluator.server.service import Job, Service
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import WarpsmithError

T = TypeVar("T")


def service_of(request: Request) -> Service:
    """Return the application's service: a FastAPI dependency."""
    service: Service = request.app.state.service
    return service


def add_log_fields(request: Request, **fields: Any) -> None:
    """Add fields to the request's log line."""
    request.scope["state"].setdefault("log_fields", {}).update(fields)


def client_of(request: Request) -> str:
    """Return the client for fair sharing: its address, and the name that it gave, which was checked."""
    host = request.client.host if request.client else ""
    return f"{host} {request.headers.get(CLIENT_HEADER, '')}".strip()


class ClientGoneError(Exception):
    """The client disconnected before its response."""


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel it as soon as the client disconnects.

    Raises:
        ClientGoneError: the client disconnected.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def disconnected(request: Request) -> None:
    """Return once the client has disconnected. The request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def judged(request: Request, service: Service, job: Job) -> Verdict:
    """Return the verdict on one candidate to a waiting client; a cached one bypasses the queue."""
    verdict = service.cached(job)
    if verdict is None:
        (place,) = service.admit(client=client_of(request))
        verdict = await while_connected(request, service.judge(job, place))
    add_log_fields(request, status=verdict.status)
    return verdict


async def on_refusal(_request: Request, error: Exception) -> WellFormedJSON:
    """Answer a WarpsmithError."""
    assert isinstance(error, WarpsmithError)
    refusal = refusal_of(error)
    return WellFormedJSON(body_of(refusal), refusal.status, headers_of(refusal))


async def on_bad_fields(request: Request, error: Exception) -> WellFormedJSON:
    """Answer a malformed body: names each field and its error, never its content."""
    assert isinstance(error, RequestValidationError)
    remedy = "See /openapi.json for the fields of each route."
    of_body = any(cause["loc"][0] == "body" for cause in error.errors())
    if of_body and "json" not in request.headers.get("content-type", ""):
        remedy = "Send it as JSON, with the header `Content-Type: application/json`."
    message = "; ".join(map(_field_error, error.errors()[:10]))
    return await on_refusal(request, RefusalError(422, "bad_request", f"{message}.", remedy))


def _field_error(cause: Mapping[str, Any]) -> str:
    place = ".".join(map(str, cause["loc"]))
    if cause["type"] == "json_invalid":
        return f"The body is not JSON: {cause['ctx']['error']} at character {place.rpartition('.')[2]}"
    return f"{place}: {cause['msg']}"


async def on_http_error(_request: Request, error: Exception) -> WellFormedJSON:
    """Answer an unknown path or method, or a body that is too large."""
    assert isinstance(error, HTTPException)
    if isinstance(error.detail, dict):  # the middleware's own
        return WellFormedJSON(error.detail, error.status_code)
    if error.status_code == 400 and "parsing the body" in error.detail:
        # FastAPI reports this for JSON that is valid by its grammar but that its parser rejects.
        message = "The body cannot be read: bytes that are not UTF-8, nesting too deep, or a number too long."
        return await on_refusal(_request, RefusalError(422, "bad_request", message, "Send JSON in UTF-8."))
    kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    refusal = RefusalError(error.status_code, kind, f"{error.detail}.", "See /openapi.json for the routes.")
    return WellFormedJSON(body_of(refusal), refusal.status, dict(error.headers or {}))


async def on_client_gone(request: Request, _error: Exception) -> WellFormedJSON:
    """Count it; the response is not read."""
    service_of(request).metrics.abandoned.inc()
    return WellFormedJSON({"detail": "The client went away."}, 499)


async def on_fault(_request: Request, _error: Exception) -> WellFormedJSON:
    """Answer an internal error of the server; the middleware logs it."""
    refusal = RefusalError(500, "internal", "The server failed.", "Its log has the cause, under the request's id.")
    return WellFormedJSON(body_of(refusal), refusal.status)
