"""Spans for OpenTelemetry, where a program has set a tracer provider; elsewhere each call costs a look-up.

Nothing of OpenTelemetry is imported unless the program did so itself, or `exported` was entered. Spans carry names,
states and figures; never sources, prompts, or the messages of errors, which may quote either.
"""

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Literal

from warpsmith.records.errors import UsageError
from warpsmith.records.wording import installing

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.context import Context

Kind = Literal["internal", "server", "client"]
Value = str | bool | int | float
Attributes = Mapping[str, Value | None]
"""Attributes by key; those that are None are left out."""

SCOPE: Final = "warpsmith"
"""Name of the tracer that makes all spans."""
FLUSH_S: Final = 5.0
"""Longest wait at the end for spans to be sent: a collector that is down must not hold a program."""

_EXPORTERS: Final = "opentelemetry_traces_exporter"
_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.trace")


class TracingError(UsageError):
    """Spans cannot be exported: a package is missing, or a variable of OpenTelemetry has no meaning."""


@dataclass(frozen=True)
class Place:
    """A place among the spans, which new ones can be children of."""

    context: "Context"


class Span:
    """A span, or nothing where nothing is traced.

    Args:
        span: OpenTelemetry's own; None where nothing is traced.
        began_ns: its begin, in nanoseconds since 1970.
    """

    def __init__(self, span: "trace.Span | None", began_ns: int) -> None:
        self._span = span
        self.began_ns = began_ns

    @property
    def records(self) -> bool:
        """Whether it is kept, so that attributes are worth making."""
        return self._span is not None and self._span.is_recording()

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self._span is not None:
            self._span.set_attributes(_known(attributes))

    def rename(self, name: str) -> None:
        """Give it another name."""
        if self._span is not None:
            self._span.update_name(name)

    def fail(self, kind: str) -> None:
        """Mark it as failed; `kind` is the error's type, or a code."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR))

    def add(self, name: str, began_ns: int, ended_ns: int, attributes: Attributes | None = None) -> None:
        """Add a child that has ended.

        Args:
            name: its name.
            began_ns, ended_ns: when, in nanoseconds since 1970.
            attributes: its attributes.
        """
        tracer = _tracer()
        if self._span is None or tracer is None:
            return
        from opentelemetry.trace import set_span_in_context

        child = tracer.start_span(
            name, set_span_in_context(self._span), start_time=began_ns, attributes=_known(attributes or {})
        )
        child.end(max(began_ns, ended_ns))


@contextmanager
def span(
    name: str, attributes: Attributes | None = None, *, kind: Kind = "internal", parent: Place | None = None
) -> Iterator[Span]:
    """Trace a block as a span, the child of the span around it; in coroutines and threads that it starts it is theirs.

    Args:
        name: its name.
        attributes: its attributes.
        kind: `server` for a request that is answered, `client` for one that is sent.
        parent: what `here` or `sent` returned, instead of the span around the block.
    """
    tracer = _tracer()
    if tracer is None:
        yield Span(None, 0)
        return
    from opentelemetry.trace import SpanKind

    began_ns = time.time_ns()
    opened = tracer.start_as_current_span(
        name,
        None if parent is None else parent.context,
        SpanKind[kind.upper()],
        _known(attributes or {}),
        start_time=began_ns,
        # Messages of exceptions can quote sources, and of HTTP clients the request's token.
        record_exception=False,
        set_status_on_exception=False,
    )
    with opened as found:
        traced = Span(found, began_ns)
        try:
            yield traced
        except BaseException as error:
            traced.fail(type(error).__name__)
            raise


def current() -> Span:
    """Return the span around the caller; its begin is unknown (0)."""
    if _tracer() is None:
        return Span(None, 0)
    from opentelemetry.trace import get_current_span

    return Span(get_current_span(), 0)


def here() -> Place | None:
    """Return the place of the caller among the spans, for `span` or `at` elsewhere; None where nothing is traced."""
    if _tracer() is None:
        return None
    from opentelemetry.context import get_current

    return Place(get_current())


@contextmanager
def at(place: Place | None) -> Iterator[None]:
    """Run a block at a place that `here` returned: event loops keep the context in which they were made."""
    if place is None:
        yield
        return
    from opentelemetry.context import attach, detach

    token = attach(place.context)
    try:
        yield
    finally:
        detach(token)


def headers() -> dict[str, str]:
    """Return the HTTP headers that tell a server the caller's span: W3C `traceparent`, `tracestate`; maybe none."""
    found: dict[str, str] = {}
    if _tracer() is not None:
        _w3c().inject(found)
    return found


def sent(received: Mapping[str, str]) -> Place | None:
    """Return the place that a request's headers name, by lower-case name; None where nothing is traced.

    Without a valid `traceparent` it has no parent span.
    """
    if _tracer() is None:
        return None
    from opentelemetry.context import Context

    return Place(_w3c().extract(received, Context()))


def check(service: str) -> list[str]:
    """Return the names of the exporters that `exported` would start, without starting any; none if a provider is set.

    Raises:
        TracingError: the SDK or an exporter is missing, or a variable of OpenTelemetry names one that there is not.
    """
    if _tracer() is not None:
        return []
    if not all(map(_is_installed, _NEEDED)):
        raise TracingError("Spans are to be exported, and opentelemetry-sdk is not installed.", _install(service))
    names, there = _exporter_names(), {one.name for one in entry_points(group=_EXPORTERS)}
    for name in names:
        if name not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise TracingError(f"There is no exporter of spans {name!r}; those installed: {listed}.", _install(service))
    return names


@contextmanager
def exported(service: str) -> Iterator[None]:
    """Send the spans of a block where OpenTelemetry's environment variables say; by default to localhost by OTLP.

    A program that has set a tracer provider itself keeps it. At the block's end spans that are not sent yet get
    FLUSH_S seconds. A collector that is down costs its spans, nothing else.

    Args:
        service: the package that asks, which has the extra `otel`; also `service.name`, unless OTEL_SERVICE_NAME or
            OTEL_RESOURCE_ATTRIBUTES give one.

    Raises:
        TracingError: the SDK or an exporter is missing, or OTEL_TRACES_EXPORTER names one that there is not.
    """
    if _tracer() is None:
        _set_provider(service, check(service))
    try:
        yield
    finally:
        _flush()


def _install(service: str) -> str:
    return f"{installing(service.removeprefix('warpsmith-'), 'otel')} Or switch the export of spans off."


def _tracer() -> "trace.Tracer | None":
    """Return the tracer; None if no provider is set, as where nothing has imported OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    # Another thread may be importing it.
    if api is None or not hasattr(api, "get_tracer_provider"):
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    tracer: trace.Tracer = provider.get_tracer(SCOPE)
    return tracer


def _w3c() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _known(attributes: Attributes) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value is not None}


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# The exporters -------------------------------------------------------------------------------------------------------


def _set_provider(service: str, names: list[str]) -> None:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import set_tracer_provider

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    exporters = [_exporter(name) for name in names]
    # It would wait for a collector that is down, as long again as `_flush` did.
    provider = TracerProvider(
        resource=Resource.create({} if named else {"service.name": service}), shutdown_on_exit=False
    )
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)


def _exporter_names() -> list[str]:
    """Return the entry points of the exporters that OTEL_TRACES_EXPORTER names; `otlp` by its protocol's."""
    names = [name.strip() for name in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",") if name.strip()] or ["otlp"]
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    otlp = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}.get(protocol)
    if otlp is None:
        raise TracingError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; http/protobuf or grpc was expected.", "Use http/protobuf."
        )
    return [otlp if name == "otlp" else name for name in names if name != "none"]


def _exporter(name: str) -> Any:
    (found, *_) = entry_points(group=_EXPORTERS, name=name)
    try:
        return found.load()()
    except Exception as error:
        raise TracingError(
            f"The exporter of spans {name!r} cannot start: {type(error).__name__}: {error}.",
            "Check the variables OTEL_EXPORTER_...",
        ) from error


def _flush() -> None:
    """Send what is pending, for at most FLUSH_S seconds."""
    from opentelemetry.trace import get_tracer_provider

    flush = getattr(get_tracer_provider(), "force_flush", None)
    if flush is None:
        return
    # The SDK's own limit is not kept by its exporters.
    flushing = threading.Thread(target=flush, name="spans", daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
