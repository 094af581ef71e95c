"""The application: routes, error answers and the middleware around them."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.server import kernelbench, requests, routes_v1
from warpsmith.evaluator.server.errors import DOCUMENTED
from warpsmith.evaluator.server.metrics import CONTENT_TYPE
from warpsmith.evaluator.server.middleware import RequestMiddleware
from warpsmith.evaluator.server.responses import WellFormedJSON
from warpsmith.evaluator.server.routes_v1 import LINES
from warpsmith.evaluator.server.service import Service
from warpsmith.records.errors import WarpsmithError


def build_app(service: Service) -> ASGIApp:
    """Return the application around a service."""
    app = FastAPI(
        title="warpsmith-evaluator",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        default_response_class=WellFormedJSON,
    )
    app.state.service = service
    app.include_router(kernelbench.router, responses=DOCUMENTED)
    app.include_router(routes_v1.router, responses=DOCUMENTED)
    app.add_api_route("/metrics", metrics, methods=["GET"], response_class=PlainTextResponse, responses=DOCUMENTED)
    # FastAPI documents the lines of a stream as if they were one JSON value.
    content = app.openapi()["paths"]["/v1/evaluate/batch"]["post"]["responses"]["200"]["content"]
    content[LINES] = content.pop("application/json", content.get(LINES, {}))
    app.add_exception_handler(WarpsmithError, requests.on_refusal)
    app.add_exception_handler(RequestValidationError, requests.on_bad_fields)
    app.add_exception_handler(HTTPException, requests.on_http_error)
    app.add_exception_handler(requests.ClientGoneError, requests.on_client_gone)
    app.add_exception_handler(Exception, requests.on_fault)
    return RequestMiddleware(app, service.settings, service.metrics, service.headers)


async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return Response(requests.service_of(request).metrics.exposition(), media_type=CONTENT_TYPE)
