"""A collector that takes the spans of other processes by OTLP over HTTP."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


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
