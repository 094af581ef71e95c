"""The command `warpsmith-evaluator serve`."""

import importlib.util
import os
import sys
from typing import Annotated, Final, Literal

import typer

from warpsmith.evaluator.config import (
    LAST_GPU,
    MAX_TIMEOUT_S,
    MOST_TIMED,
    PRECISION_HELP,
    RECORDING_HELP,
    Precision,
    RecordingWay,
    configured,
    timing_of,
)
from warpsmith.evaluator.devices.kinds import DeviceKind
from warpsmith.evaluator.devices.registry import device_kind
from warpsmith.evaluator.server.settings import (
    DEFAULT_PORT,
    DEFAULT_TOKEN_ENV,
    MOST_CACHED,
    MOST_DRAIN_S,
    MOST_QUEUED,
    ServerSettings,
)
from warpsmith.records.errors import UsageError

NICE: Final = 10
"""Niceness of evaluations, so that the server itself answers /health however busy the processors are."""

NEEDED: Final = ("fastapi", "uvicorn", "prometheus_client")

NO_ISOLATION: Final = (
    "warning: --isolation none runs clients' code with your own rights. Use it for code that you wrote yourself.\n"
)


def serve(
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; a non-loopback address needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = DEFAULT_PORT,
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the token that clients must send; optional on loopback.")
    ] = DEFAULT_TOKEN_ENV,
    device: Annotated[
        str, typer.Option(metavar="[cpu|cuda]", help="Interpret kernels on the cpu, or run and time them on GPUs.")
    ] = "cpu",
    gpu: Annotated[
        list[int] | None,
        typer.Option(min=0, max=LAST_GPU, help="A GPU to serve, with --device cuda; repeat it for each."),
    ] = None,
    judges: Annotated[
        int, typer.Option(min=1, max=64, help="Judges on the cpu, each served as a separate device.")
    ] = 1,
    slots: Annotated[
        int,
        typer.Option(
            min=0, max=256, help="Concurrent evaluations per device; 0: three on a GPU, one per core on the cpu."
        ),
    ] = 0,
    queue: Annotated[
        int,
        typer.Option(min=0, max=MOST_QUEUED, help="Evaluations that can wait; more are refused with a time to retry."),
    ] = 64,
    trials: Annotated[int, typer.Option(min=1, max=1000, help="Correctness trials if a client names none.")] = 5,
    timed_trials: Annotated[
        int, typer.Option(min=0, max=MOST_TIMED, help="Timed calls on a GPU, 10 or more; 0 times nothing.")
    ] = 100,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1, max=MAX_TIMEOUT_S, help="Deadline of a candidate's run in seconds, if a client names none."
        ),
    ] = 30.0,
    isolation: Annotated[
        Literal["namespaces", "landlock", "none"], typer.Option(help="Weakest accepted containment.")
    ] = "landlock",
    recording: Annotated[RecordingWay, typer.Option(help=RECORDING_HELP)] = "detached",
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "ieee",
    drain: Annotated[
        float, typer.Option(min=0, max=MOST_DRAIN_S, help="Seconds that running evaluations get after SIGTERM.")
    ] = 30.0,
    max_failures: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Consecutive failures before a device is probed and, if it fails, quarantined."
        ),
    ] = 10,
    cache: Annotated[bool, typer.Option(help="Answer from cached verdicts, unless a request says otherwise.")] = False,
    cache_entries: Annotated[
        int, typer.Option(min=0, max=MOST_CACHED, help="Most cached verdicts; 0 caches none.")
    ] = 4096,
    legacy_errors: Annotated[
        bool, typer.Option(help="Answer failing kernels on /eval with HTTP 400, 500 and 504, as TritonForge does.")
    ] = False,
) -> None:
    """Serve evaluations over HTTP: TritonForge's routes and /v1. Needs the extra `serve`.

    Example: `warpsmith-evaluator serve --slots 8`, then `curl http://127.0.0.1:18188/health`. Two GPUs:
    `warpsmith-evaluator serve --device cuda --gpu 0 --gpu 1`.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The server needs {', '.join(missing)}, which is not installed.",
            "Install it with: pip install 'warpsmith-evaluator[serve]'.",
        )
    if isolation == "none":
        sys.stderr.write(NO_ISOLATION)
    from warpsmith.evaluator.server import serving

    settings = ServerSettings(
        token=os.environ.get(token_env, "").strip() or None,
        queue=queue,
        drain_s=drain,
        max_timeout_s=max(timeout, ServerSettings().max_timeout_s),
        max_failures=max_failures,
        cache=cache,
        cache_entries=cache_entries,
        legacy_errors=legacy_errors,
    )
    kind = device_kind(device)
    numbers = _device_numbers(kind, gpu or [], judges)
    common = configured(
        device=device,
        nice=NICE,
        trials=trials,
        **timing_of(timed_trials),
        timeout_s=timeout,
        minimum_isolation=isolation,
        strongest_isolation="none" if isolation == "none" else "namespaces",
        recording=recording,
        precision=precision,
        slots=slots or kind.default_slots(len(numbers)),
    )
    configs = [common.model_copy(update={"gpu": number} if kind.is_numbered else {}) for number in numbers]
    serving.serve(configs, settings, host, port)


def _device_numbers(device: DeviceKind, gpus: list[int], judges: int) -> list[int]:
    """Return the numbers of the devices to serve; UsageError where the options contradict one another."""
    if not device.is_numbered:
        if gpus:
            raise UsageError(
                f"--gpu names a GPU, and --device is {device.name}.", "Add --device cuda, or leave --gpu out."
            )
        return list(range(judges))
    if judges > 1:
        raise UsageError(
            f"--judges puts several judges on the cpu, and --device is {device.name}.",
            "Give --gpu once for each GPU: each has one judge.",
        )
    if len(set(gpus)) < len(gpus):
        raise UsageError(
            f"--gpu names a GPU twice: {', '.join(map(str, gpus))}.", "Two judges on one GPU would disturb its times."
        )
    return gpus or [0]
