"""The routes of TritonForge's evaluation server, in its own format; see docs/serving.md for what each field means here.

A failed kernel is an answer (200, `compiled` or `correctness` false), unless the server runs with `legacy_errors`. A
failure of the evaluator is never an answer: 503, so that no client takes it for a score.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.execresult import result_of
from warpsmith.evaluator.server.devices import MAX_FAULTS, NEAR_LIMIT, Device
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.requests import judged, service_of
from warpsmith.evaluator.server.routes_v1 import within_bounds
from warpsmith.evaluator.server.service import Ask, Service
from warpsmith.evaluator.verdict import Verdict

BACKENDS: Final = ("triton",)
_CATEGORY_CODES: Final = {"timeout": 504, "syntax_error": 400, "parse_error": 400}

router = APIRouter()

Shared = Annotated[Service, Depends(service_of)]


class EvalBody(BaseModel):
    """TritonForge's request. Its server reads `seed_num`, its client sends `seed`: both are taken."""

    model_config = ConfigDict(extra="ignore")

    original_model_src: str = Field(min_length=1, description="The problem: `Model`, `get_inputs`.")
    custom_model_src: str = Field(description="The candidate: `ModelNew`.")
    seed_num: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 64, description="42 where neither is given.")
    seed: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 64, description="The same by its other name.")
    num_correct_trials: int = Field(default=5, ge=1, le=1000, description="Correctness trials.")
    num_perf_trials: int = Field(default=100, ge=0, description="Nothing is timed on a CPU.")
    verbose: bool = Field(default=False, description="Taken and not needed.")
    measure_performance: bool = Field(default=True, description="Nothing is timed on a CPU.")
    preferred_device: int | None = Field(default=None, description="There is one device.")
    backend: str = Field(default="triton", description="`triton`; others are refused.")

    @property
    def chosen_seed(self) -> int:
        """The seed that the client meant."""
        given = self.seed_num if self.seed_num is not None else self.seed
        return 42 if given is None else given


@router.post("/eval")
async def evaluate(body: EvalBody, request: Request, service: Shared) -> JSONResponse:
    """Return a KernelExecResult."""
    if body.backend not in BACKENDS:
        raise RefusalError(
            400,
            "unsupported_backend",
            f"There is no backend {body.backend!r} here.",
            f"The backends are: {', '.join(BACKENDS)}.",
            extra={"supported_backends": list(BACKENDS)},
        )
    within_bounds(service, body.original_model_src, body.custom_model_src)
    ask = Ask("problem", body.original_model_src, body.custom_model_src, body.num_correct_trials, body.chosen_seed)
    try:
        verdict = await judged(request, service, ask)
    except BadProblemError as error:
        raise RefusalError(400, "bad_problem", error.message, error.remedy) from error
    return answer_of(verdict, legacy_errors=service.settings.legacy_errors)


def answer_of(verdict: Verdict, *, legacy_errors: bool) -> JSONResponse:
    """Return a verdict as this format has it.

    Raises:
        RefusalError: the verdict is `invalid`, or errors are wanted as HTTP errors and the kernel failed with one.
    """
    message = verdict.error_message or verdict.status
    if verdict.status == "invalid":
        raise RefusalError(503, "invalid", message, "Ask again, or another server: no score.", retry_after_s=1)
    if legacy_errors and verdict.status in ("compile_error", "runtime_error", "timeout"):
        code = _CATEGORY_CODES.get(verdict.error_category or "", 500)
        return JSONResponse({"detail": message}, code)
    return JSONResponse(result_of(verdict))


@router.get("/")
async def root(service: Shared) -> dict[str, Any]:
    """Say what this is."""
    return {
        "service": f"warpsmith-evaluator {__version__}",
        "status": "shutting_down" if service.draining else "running",
        "gpu_platform": "CPU",
        "cuda_available": False,
        "num_gpus": len(service.devices),
        "backends": list(BACKENDS),
        "features": ["sandboxed workers", "secret seeds", "launches replayed on unseen inputs", "/v1/evaluate"],
    }


@router.get("/health")
async def health(service: Shared) -> dict[str, Any]:
    """Answer at once from what is known: nothing is asked of a device."""
    free = [device.number for device in service.devices if _is_free(service, device)]
    return {
        "status": _status(service),
        "gpu_platform": "CPU",
        "cuda_available": False,
        "supported_backends": list(BACKENDS),
        "total_gpu_devices": len(service.devices),
        "available_gpu_devices": len(free),
        "busy_gpu_devices": len(service.devices) - len(free),
        "available_device_ids": free,
        "gpu_arch": f"sm_{service.config.target_arch}",
        "devices": [
            {
                "device_id": device.number,
                "available": device.number in free,
                "status": device.status,
                "fault_count": device.faults,
            }
            for device in service.devices
        ],
        "isolation": service.tier,
        "total_memory_faults": _total_faults(service),
        "max_faults_per_device": MAX_FAULTS,
        "gpu_settings": {"rocm_home": None, "hip_platform": None, "cuda_dsa": None, "core_dumps": "disabled"},
    }


@router.get("/gpu_status")
async def gpu_status(service: Shared) -> dict[str, Any]:
    """Return each device and its load; a CPU's slots are the permits."""
    return {
        "total_devices": len(service.devices),
        "devices": [
            {
                "device_id": device.number,
                "name": "cpu",
                "available": _is_free(service, device),
                "status": device.status,
                "fault_count": device.faults,
                "running": service.admission.running,
                "waiting": service.admission.waiting,
                "slots": service.admission.size,
            }
            for device in service.devices
        ],
        "semaphore_permits": service.admission.size - service.admission.running,
        "total_faults": _total_faults(service),
    }


@router.get("/backend_info")
async def backend_info(service: Shared) -> dict[str, Any]:
    """Return what kernels may be written in."""
    return {
        "supported_backends": list(BACKENDS),
        "default_backend": BACKENDS[0],
        "gpu_platform": "CPU",
        "backend_descriptions": {
            "triton": "Triton kernels, run by Triton's interpreter and compiled for gpu_architecture"
        },
        "cuda_available": False,
        "triton_available": True,
        "process_isolation": service.tier,
        "memory_fault_handling": True,
        "gpu_architecture": f"sm_{service.config.target_arch}",
        "cuda_dsa_enabled": False,
    }


@router.get("/fault_statistics")
async def fault_statistics(service: Shared) -> dict[str, Any]:
    """Return the memory faults of candidates since the last reset."""
    return {
        "per_device_faults": _faults(service),
        "total_faults": _total_faults(service),
        "max_faults_threshold": MAX_FAULTS,
        "devices_near_limit": [device.number for device in service.devices if device.faults >= MAX_FAULTS * NEAR_LIMIT],
    }


@router.post("/reset_gpu/{device_id}")
async def reset_gpu(device_id: int, service: Shared) -> dict[str, Any]:
    """Replace a device's evaluator, with its judge and all workers, by a fresh one."""
    found = next((device for device in service.devices if device.number == device_id), None)
    if found is None:
        raise RefusalError(
            400, "no_such_device", f"Invalid device ID: {device_id}.", f"There are {len(service.devices)}, from 0."
        )
    before = await found.reset()
    return {
        "status": "evaluator replaced",
        "device_id": device_id,
        "old_fault_count": before,
        "new_fault_count": found.faults,
    }


@router.post("/cleanup")
async def cleanup(service: Shared) -> dict[str, Any]:
    """Set the fault counters back; workers leave nothing else behind."""
    before = _faults(service)
    for device in service.devices:
        device.faults = 0
    return {
        "status": "fault counters reset",
        "old_fault_counts": before,
        "message": "All fault counters have been reset",
    }


@router.post("/reset_devices")
async def reset_devices(service: Shared) -> dict[str, Any]:
    """Replace every device's evaluator by a fresh one."""
    for device in service.devices:
        await device.reset()
    return {
        "status": "evaluators replaced and fault counters reset",
        "available_devices": [device.number for device in service.devices if _is_free(service, device)],
        "fault_counts": _faults(service),
    }


def _status(service: Service) -> str:
    if service.draining:
        return "shutting_down"
    return "healthy" if any(device.status == "healthy" for device in service.devices) else "degraded"


def _is_free(service: Service, device: Device) -> bool:
    return device.status == "healthy" and service.admission.running < service.admission.size


def _faults(service: Service) -> dict[str, int]:
    return {str(device.number): device.faults for device in service.devices}


def _total_faults(service: Service) -> int:
    return sum(device.faults for device in service.devices)
