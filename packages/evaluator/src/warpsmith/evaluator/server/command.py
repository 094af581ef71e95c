"""The command `warpsmith-evaluator serve`."""

import importlib.util
import os
import sys
from contextlib import nullcontext
from typing import Final

from warpsmith.evaluator.config import configured, tiers_of, timing_of
from warpsmith.evaluator.devices.kinds import DeviceKind
from warpsmith.evaluator.devices.registry import device_kind
from warpsmith.evaluator.languages.registry import BACKENDS
from warpsmith.evaluator.server import options
from warpsmith.evaluator.server.settings import DEFAULT_PORT, DEFAULT_TOKEN_ENV, ServerSettings
from warpsmith.records import tracing
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import installing

NICE: Final = 10
"""Niceness of evaluations, so that the server itself answers /health however busy the processors are."""

SERVICE: Final = "warpsmith-evaluator"
"""Name of the service in spans, unless OTEL_SERVICE_NAME gives another."""

NEEDED: Final = ("fastapi", "uvicorn", "prometheus_client")

NO_ISOLATION: Final = (
    "warning: --isolation none runs clients' code with your own rights. Use it for code that you wrote yourself.\n"
)


def serve(
    *,
    host: options.Host = "127.0.0.1",
    port: options.Port = DEFAULT_PORT,
    token_env: options.TokenEnv = DEFAULT_TOKEN_ENV,
    device: options.Device = "cpu",
    backend: options.Backend = "triton",
    gpu: options.Gpu = None,
    judges: options.Judges = 1,
    slots: options.Slots = 0,
    queue: options.Queue = 64,
    trials: options.Trials = 6,
    timed_trials: options.TimedTrials = 100,
    timeout: options.Timeout = 30.0,
    isolation: options.Isolation = "landlock",
    recording: options.Recording = "detached",
    precision: options.Precision = "ieee",
    operators: options.Operators = "none",
    baseline: options.Baseline = None,
    max_tensor_bytes: options.MaxTensorBytes = None,
    drain: options.Drain = 30.0,
    max_failures: options.MaxFailures = 10,
    cache: options.Cache = False,
    cache_entries: options.CacheEntries = 4096,
    legacy_errors: options.LegacyErrors = False,
    otel: options.Otel = False,
) -> None:
    """Serve evaluations over HTTP: TritonForge's routes and /v1. Needs the extra `serve`.

    Example: `warpsmith-evaluator serve --slots 8`, then `curl http://127.0.0.1:18188/health`. Two GPUs:
    `warpsmith-evaluator serve --device cuda --gpu 0 --gpu 1`.
    """
    _check_installed()
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
        language=BACKENDS[backend],
        nice=NICE,
        trials=trials,
        **timing_of(timed_trials),
        timeout_s=timeout,
        **tiers_of(isolation),
        recording=recording,
        precision=precision,
        operators=operators,
        baseline=baseline or None,
        max_tensor_bytes=max_tensor_bytes,
        slots=slots or kind.default_slots(len(numbers)),
    )
    configs = [common.model_copy(update={"gpu": number} if kind.is_numbered else {}) for number in numbers]
    with tracing.exported(SERVICE) if otel else nullcontext():
        serving.serve(configs, settings, host, port)


def _check_installed() -> None:
    """Raise UsageError where the extra `serve` is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The server needs {', '.join(missing)}, which this environment lacks.",
            installing("evaluator", "serve"),
        )


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
