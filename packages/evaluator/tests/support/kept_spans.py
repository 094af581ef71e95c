"""Spans kept in memory, and a collector that takes those of other processes by OTLP over HTTP."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def kept_spans():
    """Keep the spans of a block; without the SDK the test is skipped. Yields an in-memory exporter."""
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    import opentelemetry.trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with pytest.MonkeyPatch.context() as patch:
        # A process can set a provider only once, and other tests run in it without one.
        patch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
        yield kept


@contextmanager
def collector() -> Iterator[tuple[str, list]]:
    """Yield the address of a collector, and the spans that it has got, as protobuf."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    found: list = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = service.ExportTraceServiceRequest.FromString(body)
            found.extend(
                span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", found
        finally:
            server.shutdown()
            thread.join()
