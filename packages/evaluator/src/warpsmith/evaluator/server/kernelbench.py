"""The routes of TritonForge's evaluation server, in its own format; see docs/serving.md for what each field means here.

A failed kernel is a normal response (200, `compiled` or `correctness` false), unless the server runs with
`legacy_errors`. A failure of the evaluator is 503, so that no client mistakes it for a score.
"""

import contextlib
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError
from warpsmith.evaluator.exec_result import result_of
from warpsmith.evaluator.languages.registry import BACKENDS, language_of
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.server.answers import OF_EXEC
from warpsmith.evaluator.server.devices import NEAR_LIMIT, Device
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.requests import judged, service_of
from warpsmith.evaluator.server.responses import WellFormedJSON
from warpsmith.evaluator.server.routes_v1 import within_bounds
from warpsmith.evaluator.server.service import Job, Service
from warpsmith.evaluator.server.settings import MOST_TRIALS
from warpsmith.evaluator.verdict import Verdict

_BACKENDS: Final = {language: backend for backend, language in BACKENDS.items()}
_CATEGORY_CODES: Final = {"timeout": 504, "syntax_error": 400, "parse_error": 400}

router = APIRouter()

Shared = Annotated[Service, Depends(service_of)]


class EvalBody(BaseModel):
    """TritonForge's request. Its server reads `seed_num`, its client sends `seed`: both are accepted."""

    model_config = ConfigDict(extra="ignore")

    original_model_src: str = Field(min_length=1, description="The problem: `Model`, `get_inputs`.")
    custom_model_src: str = Field(description="The candidate: `ModelNew`.")
    seed_num: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 64, description="42 if both are missing.")
    seed: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 64, description="The same by its other name.")
    num_correct_trials: int = Field(default=6, ge=1, le=MOST_TRIALS, description="Correctness trials.")
    num_perf_trials: int = Field(default=100, ge=0, description="Ignored; the server's --timed-trials applies.")
    verbose: bool = Field(default=False, description="Ignored.")
    measure_performance: bool = Field(default=True, description="Ignored; the server's --timed-trials applies.")
    preferred_device: int | None = Field(default=None, description="Wait for this device, unless it is out of service.")
    cache: bool | None = Field(default=None, description="Our extension: whether a cached verdict is accepted.")
    operators: OperatorPolicy | None = Field(
        default=None, description="Our extension: what forward may compute with torch; the server's policy by default."
    )
    backend: str | None = Field(
        default=None, description="The server's language: `triton`, `cuda`; others are refused."
    )

    @property
    def chosen_seed(self) -> int:
        """The seed that the client chose."""
        chosen = self.seed_num if self.seed_num is not None else self.seed
        return 42 if chosen is None else chosen


@router.post("/eval", responses=OF_EXEC)
async def evaluate(body: EvalBody, request: Request, service: Shared) -> WellFormedJSON:
    """Return a KernelExecResult."""
    backend = backend_of(service)
    if body.backend is not None and body.backend != backend:
        raise RefusalError(
            400,
            "unsupported_backend",
            f"The backend {body.backend!r} is not supported.",
            f"The backends are: {backend}. Another server, started with --backend, can have another one.",
            extra={"supported_backends": [backend]},
        )
    within_bounds(service, body.original_model_src, body.custom_model_src)
    if body.preferred_device is not None:
        service.device(body.preferred_device)
    job = Job(
        "problem",
        body.original_model_src,
        body.custom_model_src,
        body.num_correct_trials,
        body.chosen_seed,
        operators=body.operators,
        preferred_device=body.preferred_device,
        cache=body.cache,
    )
    try:
        verdict = await judged(request, service, job)
    except BadProblemError as error:
        raise RefusalError(400, "bad_problem", error.message, error.remedy) from error
    return answer_of(verdict, legacy_errors=service.settings.legacy_errors)


def answer_of(verdict: Verdict, *, legacy_errors: bool) -> WellFormedJSON:
    """Return the response for a verdict.

    Raises:
        RefusalError: the verdict is `invalid`, which is not a score.
    """
    message = verdict.error_message or verdict.status
    if verdict.status == "invalid":
        raise RefusalError(
            503, "invalid", message, "Try again, or use another server; this is not a score.", retry_after_s=1
        )
    if legacy_errors and verdict.status in ("compile_error", "runtime_error", "timeout"):
        code = _CATEGORY_CODES.get(verdict.error_category or "", 500)
        return WellFormedJSON({"detail": message}, code)
    return WellFormedJSON(result_of(verdict))


@router.get("/")
async def root(service: Shared) -> dict[str, Any]:
    """Return a description of the server."""
    return {
        "service": f"warpsmith-evaluator {__version__}",
        "status": "shutting_down" if service.draining else "running",
        "gpu_platform": _platform(service),
        "cuda_available": _on_gpus(service),
        "num_gpus": len(service.devices),
        "backends": [backend_of(service)],
        "features": ["sandboxed workers", "secret seeds", "launches replayed on unseen inputs", "/v1/evaluate"],
    }


@router.get("/health")
async def health(service: Shared) -> dict[str, Any]:
    """Return the known state at once, without a request to a device."""
    devices = service.devices.values()
    free = [device.number for device in devices if _is_free(device)]
    return {
        "status": _status(service),
        "gpu_platform": _platform(service),
        "cuda_available": _on_gpus(service),
        "supported_backends": [backend_of(service)],
        "total_gpu_devices": len(service.devices),
        "available_gpu_devices": len(free),
        "busy_gpu_devices": len(service.devices) - len(free),
        "available_device_ids": free,
        "gpu_arch": _arch(service),
        "devices": [
            {
                "device_id": device.number,
                "available": device.number in free,
                "status": device.status,
                "fault_count": device.faults,
            }
            for device in devices
        ],
        "isolation": service.tier,
        "conditions": service.conditions,
        "total_memory_faults": _total_faults(service),
        "max_faults_per_device": service.settings.max_failures,
        "gpu_settings": {"rocm_home": None, "hip_platform": None, "cuda_dsa": None, "core_dumps": "disabled"},
    }


@router.get("/gpu_status")
async def gpu_status(service: Shared) -> dict[str, Any]:
    """Return each device with its load and the cause of its quarantine, if any; free slots are the permits."""
    return {
        "total_devices": len(service.devices),
        "devices": [
            {
                "device_id": device.number,
                "name": device.facts.name,
                "available": _is_free(device),
                "status": device.status,
                "fault_count": device.faults,
                "failures_in_a_row": device.lane.troubles,
                "cause": device.cause,
                "running": device.lane.running,
                "slots": device.lane.slots,
            }
            for device in service.devices.values()
        ],
        "waiting": service.admission.waiting,
        "semaphore_permits": sum(lane.slots - lane.running for lane in service.admission.lanes if lane.state == "open"),
        "total_faults": _total_faults(service),
    }


@router.get("/backend_info")
async def backend_info(service: Shared) -> dict[str, Any]:
    """Return the languages that kernels can be written in."""
    return {
        "supported_backends": [backend_of(service)],
        "default_backend": backend_of(service),
        "gpu_platform": _platform(service),
        "backend_descriptions": {backend_of(service): _description(service)},
        "cuda_available": _on_gpus(service),
        "triton_available": True,
        "process_isolation": service.tier,
        "memory_fault_handling": True,
        "gpu_architecture": _arch(service),
        "cuda_dsa_enabled": False,
    }


@router.get("/fault_statistics")
async def fault_statistics(service: Shared) -> dict[str, Any]:
    """Return the memory faults of candidates since the last reset, and the devices close to quarantine."""
    limit = service.settings.max_failures
    return {
        "per_device_faults": _faults(service),
        "total_faults": _total_faults(service),
        "max_faults_threshold": limit,
        "devices_near_limit": [lane.number for lane in service.admission.lanes if lane.troubles >= limit * NEAR_LIMIT],
    }


@router.post("/reset_gpu/{device_id}")
async def reset_gpu(device_id: int, service: Shared) -> dict[str, Any]:
    """Replace a device's evaluator, including its judge and all workers, by a fresh one that must pass a probe."""
    found = service.device(device_id)
    before = await found.reset(service.settings.drain_s)
    return {
        "status": "evaluator replaced",
        "device_id": device_id,
        "old_fault_count": before,
        "new_fault_count": found.faults,
    }


@router.post("/cleanup")
async def cleanup(service: Shared) -> dict[str, Any]:
    """Reset the fault counters; workers leave nothing else behind. Quarantined devices stay quarantined."""
    before = _faults(service)
    for device in service.devices.values():
        device.faults = 0
    return {
        "status": "fault counters reset",
        "old_fault_counts": before,
        "message": "All fault counters have been reset",
    }


@router.post("/reset_devices")
async def reset_devices(service: Shared) -> dict[str, Any]:
    """Replace every device's evaluator by a fresh one, one at a time; the others serve meanwhile.

    A device that fails its probe is quarantined and missing in `available_devices`.
    """
    for device in service.devices.values():
        with contextlib.suppress(EvaluatorError):  # /gpu_status has its cause
            await device.reset(service.settings.drain_s)
    return {
        "status": "evaluators replaced and fault counters reset",
        "available_devices": [device.number for device in service.devices.values() if _is_free(device)],
        "fault_counts": _faults(service),
    }


def backend_of(service: Service) -> str:
    """Return the server's kernel language by the name that KernelBench gives it."""
    return _BACKENDS.get(service.config.language, service.config.language)


def _description(service: Service) -> str:
    language = language_of(service.config.language)
    if _on_gpus(service):
        return f"{language.title} kernels, run on the GPU and timed"
    how = "run by an interpreter and compiled" if language.interprets else "recorded and compiled"
    return f"{language.title} kernels, {how} for gpu_architecture"


def _status(service: Service) -> str:
    """Return `healthy` if all devices are, `unhealthy` if none is in service, else `degraded`."""
    if service.draining:
        return "shutting_down"
    found = [device.status for device in service.devices.values()]
    if all(status == "healthy" for status in found):
        return "healthy"
    return "unhealthy" if all(status == "quarantined" for status in found) else "degraded"


def _is_free(device: Device) -> bool:
    return device.status == "healthy" and device.lane.free


def _on_gpus(service: Service) -> bool:
    return service.config.device_kind.is_numbered


def _platform(service: Service) -> str:
    return service.config.device_kind.platform


def _arch(service: Service) -> str:
    """Return the distinct chips of the devices: `sm_90`."""
    return ", ".join(sorted({f"sm_{device.facts.arch}" for device in service.devices.values()}))


def _faults(service: Service) -> dict[str, int]:
    return {str(device.number): device.faults for device in service.devices.values()}


def _total_faults(service: Service) -> int:
    return sum(device.faults for device in service.devices.values())
