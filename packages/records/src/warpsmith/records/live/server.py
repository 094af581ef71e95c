"""The server of the live page. It answers GET only, and no request contains a path."""

import importlib
import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.live.runs import LiveRuns, refusal
from warpsmith.records.reader import RunReader
from warpsmith.records.report import assets
from warpsmith.records.report.errors import ReportError
from warpsmith.records.wording import installing

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_SCRIPT: Final = '<script src="assets/app.js"></script>'
_HTML: Final = '<link rel="stylesheet" href="assets/app.css">'
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def serve(
    readers: Sequence[RunReader], host: str, port: int, *, announce: Callable[[str], None], by: str | None = None
) -> None:
    """Serve runs until interrupted.

    Args:
        readers: one per run; they should skip damage, since a page that shows the rest is more useful than none.
        host: address to listen on.
        port: port to listen on; 0 chooses a free one.
        announce: called with the page's address once the server listens.
        by: a column of `parts.GROUPINGS` by which the page shows the figures too.

    Raises:
        ReportError: starlette, uvicorn or plotly is not installed.
        UsageError: the address cannot be listened on, or `by` is not such a column.
    """
    uvicorn = _required("uvicorn")
    application = application_of(LiveRuns(readers, by=by), host)
    with _listening(host, port) as listener:
        place = f"http://{_written(host)}:{listener.getsockname()[1]}/"
        config = uvicorn.Config(application, log_level="warning", server_header=False, access_log=False)
        announce(f"{place} (Ctrl+C ends it)")
        if not _is_loopback(host):
            announce("note: anyone who reaches this address can read these runs.")
        uvicorn.Server(config).run(sockets=[listener])


def application_of(runs: LiveRuns, host: str = "127.0.0.1") -> "Starlette":
    """Return the ASGI application.

    Args:
        runs: what it shows.
        host: the address that it is served on. On a loopback address only requests to a loopback name are answered,
            so that no other site's name can be made to point here.

    Raises:
        ReportError: starlette or plotly is not installed.
    """
    applications, middleware = _required("starlette.applications"), _required("starlette.middleware")
    compression = _required("starlette.middleware.gzip")
    wrapped = [middleware.Middleware(compression.GZipMiddleware, minimum_size=1000, compresslevel=1)]
    application: Starlette = applications.Starlette(routes=_routes(runs, _Guard(host)), middleware=wrapped)
    return application


class _Guard:
    """Adds headers to each answer, and refuses other names and typed errors."""

    def __init__(self, host: str) -> None:
        self._names = frozenset((*_LOOPBACK_NAMES, host)) if _is_loopback(host) else None

    def __call__(self, answer: "Callable[[Request], Response]") -> "Callable[[Request], Response]":
        json_response = _required("starlette.responses").JSONResponse

        def guarded(request: "Request") -> "Response":
            if self._names is not None and request.url.hostname not in self._names:
                found = json_response({"error": "This server answers to loopback names only."}, status_code=421)
            else:
                try:
                    found = answer(request)
                except (IndexError, KeyError):
                    found = json_response({"error": "There is nothing of that name."}, status_code=404)
                except WarpsmithError as error:
                    found = json_response(refusal(error), status_code=500)
            found.headers.update(_HEADERS)
            return found  # type: ignore[no-any-return]

        return guarded


def _routes(runs: LiveRuns, guard: _Guard) -> list[Any]:
    routing, responses = _required("starlette.routing"), _required("starlette.responses")
    texts = {"app.js": assets.script(), "app.css": assets.style(), "plotly.js": assets.plotly()}
    kinds = {"js": "text/javascript", "css": "text/css"}
    html = assets.page(title="Warpsmith", policy="", head=_HTML, body=_SCRIPT, first="Reading the records ...")

    def asset(request: "Request") -> "Response":
        name = request.path_params["name"]
        return responses.Response(texts[name], media_type=kinds[name.rpartition(".")[2]])  # type: ignore[no-any-return]

    def chunk(request: "Request") -> "Response":
        wanted = request.path_params
        data = runs.chunk(wanted["run"], wanted["table"], wanted["number"])
        return responses.Response(data, media_type="application/octet-stream")  # type: ignore[no-any-return]

    def trajectory(request: "Request") -> "Response":
        found = runs.trajectory(request.path_params["run"], request.query_params["key"])
        if found is None:
            raise KeyError("trajectory")
        return responses.JSONResponse(found)  # type: ignore[no-any-return]

    answers: dict[str, Callable[[Request], Response]] = {
        "/": lambda _: responses.HTMLResponse(html),
        "/assets/{name}": asset,
        "/api/state": lambda _: responses.JSONResponse(runs.state()),
        "/api/compare": lambda _: responses.JSONResponse(runs.compare()),
        "/api/runs/{run:int}/overview": lambda request: responses.JSONResponse(
            runs.overview(request.path_params["run"])
        ),
        "/api/runs/{run:int}/trajectory": trajectory,
        "/api/runs/{run:int}/{table}/{number:int}": chunk,
    }
    return [routing.Route(path, guard(answer), methods=["GET"]) for path, answer in answers.items()]


def _required(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ReportError(
            f"The live page needs {name.partition('.')[0]}, which is not installed.",
            installing("records", "serve"),
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {_written(host)}:{port}: {error.strerror or error}.", "Choose another --port or --host."
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host
