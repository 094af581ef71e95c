"""The command `warpsmith-evaluator serve`."""

import importlib.util
import os
import sys
from typing import Annotated, Final, Literal

import typer

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.server.settings import DEFAULT_PORT, DEFAULT_TOKEN_ENV, ServerSettings
from warpsmith.records.errors import UsageError

NEEDED: Final = ("fastapi", "uvicorn", "prometheus_client")

NO_ISOLATION: Final = (
    "warning: --isolation none runs what clients send with your own rights. Use it for code that you wrote yourself.\n"
)


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; one that others reach needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = DEFAULT_PORT,
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the token that clients must show; may be unset on loopback.")
    ] = DEFAULT_TOKEN_ENV,
    slots: Annotated[int, typer.Option(min=0, max=256, help="Evaluations at once; 0 takes the machine's cores.")] = 0,
    queue: Annotated[int, typer.Option(min=0, help="Evaluations that may wait; more are told to come again.")] = 64,
    trials: Annotated[int, typer.Option(min=1, max=1000, help="Correctness trials where a client names none.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of a candidate's run where none are named.")] = 30.0,
    isolation: Annotated[
        Literal["namespaces", "landlock", "none"], typer.Option(help="The weakest containment that is accepted.")
    ] = "landlock",
    drain: Annotated[float, typer.Option(min=0, help="Seconds that evaluations under way get after SIGTERM.")] = 30.0,
    legacy_errors: Annotated[
        bool, typer.Option(help="Answer kernels that fail on /eval with HTTP 400, 500 and 504, as TritonForge's does.")
    ] = False,
) -> None:
    """Serve evaluations over HTTP: TritonForge's routes and /v1. Needs the extra `serve`.

    Example: `warpsmith-evaluator serve --slots 8`, then `curl http://127.0.0.1:18188/health`
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The server needs {', '.join(missing)}, which this environment lacks.",
            "Install it with: pip install 'warpsmith-evaluator[serve]'.",
        )
    if isolation == "none":
        sys.stderr.write(NO_ISOLATION)
    from warpsmith.evaluator.server import serving

    settings = ServerSettings(
        token=os.environ.get(token_env) or None, queue=queue, drain_s=drain, legacy_errors=legacy_errors
    )
    config = EvaluatorConfig(
        trials=trials,
        timeout_s=timeout,
        minimum_isolation=isolation,
        strongest_isolation="none" if isolation == "none" else "namespaces",
        **({"slots": slots} if slots else {}),
    )
    serving.serve(config, settings, host, port)
