"""The outermost layer: request ids, the token, the limit on bodies, one log line and the metrics of each request."""

import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpsmith.evaluator.client.interface import CLIENT_HEADER, LONGEST_CLIENT_NAME
from warpsmith.evaluator.server.errors import RefusalError, body_of, headers_of
from warpsmith.evaluator.server.logs import log
from warpsmith.evaluator.server.metrics import Metrics
from warpsmith.evaluator.server.responses import WellFormedJSON
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.records import tracing

OPEN_PATHS: Final = frozenset({"/health"})
"""Paths that load balancers poll without a token."""

POLLED_PATHS: Final = frozenset({"/health", "/metrics"})
"""Paths that are polled, and create no spans."""

_MOST_PATH: Final = 200
"""Longest logged path: the client may not have sent a valid token."""

_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestMiddleware:
    """ASGI middleware around the whole application; `headers` are added to every response."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, headers: Mapping[str, str]) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send, self._headers)
        try:
            self._check(scope["path"], scope["method"], Headers(scope=scope))
            # Only now: a request without a token creates no spans, and joins no one's.
            with visit.traced():
                await self._app(scope, _bounded(receive, self._settings.max_body_bytes), visit.send)
        except RefusalError as refusal:
            await WellFormedJSON(body_of(refusal), refusal.status, headers_of(refusal))(scope, receive, visit.send)
        except _NoLengthError:
            # The rest of the body is not parsed: chunks of one byte cost a thousand times the usual time.
            head = {**headers_of(NO_LENGTH), "Connection": "close"}
            await WellFormedJSON(body_of(NO_LENGTH), NO_LENGTH.status, head)(scope, receive, visit.send)
        except Exception as error:  # noqa: BLE001  (the application has answered 500; it is logged here)
            log("error", level=logging.ERROR, error=error, request_id=visit.id)
        finally:
            visit.end(self._metrics)

    def _check(self, path: str, method: str, headers: Headers) -> None:
        if method != "GET" and "origin" in headers:
            raise RefusalError(
                403, "browser", "Requests of web pages are refused.", "Call the server from a program, without Origin."
            )
        if "transfer-encoding" in headers:
            raise _NoLengthError
        if path not in OPEN_PATHS:
            self._check_token(headers.get("authorization", ""))
            _check_client_name(headers.get(CLIENT_HEADER, ""))
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._settings.max_body_bytes:
            raise too_large(self._settings.max_body_bytes)

    def _check_token(self, header: str) -> None:
        expected = self._settings.token
        if expected is None:
            return
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(token.strip().encode(), expected.encode()):
            raise RefusalError(
                401,
                "no_token" if not header else "wrong_token",
                "This server requires a token, and the request has none."
                if not header
                else "The token is not the server's.",
                "Send `Authorization: Bearer TOKEN` with the server's token.",
            )


def _check_client_name(name: str) -> None:
    """Refuse a name that a log or a metric should not hold: names are chosen by clients."""
    if len(name) > LONGEST_CLIENT_NAME or not name.isascii() or not name.isprintable():
        raise RefusalError(
            400,
            "bad_client_name",
            f"The header {CLIENT_HEADER} has {len(name)} characters, or some that are not printable ASCII; at most "
            f"{LONGEST_CLIENT_NAME} printable ASCII characters were expected.",
            "Send a shorter name, such as the run's, or none.",
        )


class _Visit:
    """One request from its first byte to its last."""

    def __init__(self, scope: Scope, send: Send, headers: Mapping[str, str]) -> None:
        self._sent = Headers(scope=scope)
        sent = self._sent.get("x-request-id", "")
        self.id = sent if _VALID_ID.fullmatch(sent) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.id
        self._scope = scope
        self._send = send
        self._headers = headers
        self._began = time.monotonic()
        self._code = 0

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the request's id and the common headers in its head."""
        if message["type"] == "http.response.start":
            self._code = message["status"]
            MutableHeaders(scope=message).update({**self._headers, "X-Request-ID": self.id})
        await self._send(message)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Trace the request as a span that joins the caller's, unless its path is polled."""
        if self._scope["path"] in POLLED_PATHS:
            yield
            return
        method = self._method()
        attributes = {"http.request.method": method, "warpsmith.request_id": self.id}
        parent = tracing.sent(self._sent)
        with tracing.span(method, attributes, kind="server", parent=parent) as span:
            try:
                yield
            finally:
                span.rename(f"{method} {self._route()}")
                status = self._scope["state"].get("log_fields", {}).get("status")
                span.note(
                    {"http.route": self._route(), "http.response.status_code": self._code, "warpsmith.status": status}
                )
                if self._code >= 500:
                    span.fail(str(self._code))

    def end(self, metrics: Metrics) -> None:
        seconds = time.monotonic() - self._began
        route = self._route()
        metrics.requests.labels(self._method(), route, str(self._code)).inc()
        metrics.request_seconds.labels(route).observe(seconds)
        name = self._sent.get(CLIENT_HEADER, "")[:LONGEST_CLIENT_NAME]
        log(
            "request",
            request_id=self.id,
            method=self._scope["method"],
            path=self._scope["path"][:_MOST_PATH],
            code=self._code,
            seconds=round(seconds, 4),
            client=(self._scope.get("client") or ("",))[0],
            client_name=name,
            **self._scope["state"].get("log_fields", {}),
        )

    def _route(self) -> str:
        """Return the route's template, so that paths chosen by clients do not create metrics."""
        route: Any = self._scope.get("route")
        return str(route.path) if route is not None else "other"

    def _method(self) -> str:
        method = str(self._scope["method"])
        return method if method in ("GET", "POST") else "other"


NO_LENGTH: Final = RefusalError(
    411,
    "no_length",
    "The request's body is chunked, and its length is unknown.",
    "Send the whole body with a Content-Length, as clients do with a body of bytes.",
)


class _NoLengthError(Exception):
    """The body is chunked."""


def too_large(limit: int) -> RefusalError:
    """Return the refusal of a body that is too large."""
    return RefusalError(
        413, "body_too_large", f"The request's body has more than {limit} bytes.", "Send less, or a smaller batch."
    )


class _TooLargeError(HTTPException):
    """Raised while the body is read; FastAPI passes HTTP errors through unchanged."""

    def __init__(self, limit: int) -> None:
        refusal = too_large(limit)
        super().__init__(refusal.status, body_of(refusal))


def _bounded(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that ends a request whose body exceeds `limit`, whatever its head says."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _TooLargeError(limit)
        return message

    return counted
