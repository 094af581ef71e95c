"""Verdicts as KernelBench's `KernelExecResult`. Importable without torch."""

from typing import Any, Final

from warpsmith.evaluator.verdict import Verdict


def result_of(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of KernelBench's KernelExecResult; times in milliseconds, -1 if nothing was timed."""
    return {
        "compiled": verdict.compiled,
        "correctness": verdict.correct,
        "metadata": _metadata(verdict),
        "runtime": -1.0 if verdict.runtime_ms is None else verdict.runtime_ms,
        "runtime_stats": {} if verdict.runtime_ms is None else {"mean": verdict.runtime_ms},
        "ref_runtime": -1.0 if verdict.reference_ms is None else verdict.reference_ms,
        "ref_runtime_stats": {} if verdict.reference_ms is None else {"mean": verdict.reference_ms},
    }


TRITONFORGE_CATEGORIES: Final = frozenset(
    {
        "shared_memory_exceeded",
        "illegal_memory_access",
        "memory_fault",
        "segmentation_fault",
        "unsupported_architecture",
        "triton_compilation_error",
        "triton_jit_error",
        "syntax_error",
        "timeout",
        "process_error",
        "parse_error",
        "unknown",
    }
)
"""The error categories of TritonForge's format; its clients accept no others."""
_NEAREST: Final = {"argument_error": "triton_jit_error", "unsupported_dtype": "unsupported_architecture"}
"""Our categories that are part of one of these; any other is `unknown` there."""


def tritonforge_category(category: str) -> str:
    """Return TritonForge's category for one of our categories."""
    found = _NEAREST.get(category, category)
    return found if found in TRITONFORGE_CATEGORIES else "unknown"


_MESSAGE_KEYS: Final = {
    "compile_error": "compilation_error",
    "runtime_error": "runtime_error",
    "timeout": "runtime_error",
    "incorrect": "correctness_issue",
    "rejected": "correctness_issue",
    "undecided": "correctness_issue",
}


def _metadata(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = {
        "hardware": verdict.device,
        "device": verdict.device,
        "status": verdict.status,
        "flags": list(verdict.flags),
        "correctness_trials": f"({verdict.trials if verdict.correct else 0} / {verdict.trials})",
        "isolation": verdict.isolation_tier,
        "recording": verdict.recording,
        "timing_tier": verdict.timing_tier,
        "cached": verdict.cached,
        "cached_age_s": verdict.seconds.age,
    }
    if verdict.error_category is not None:
        found["error_category"] = tritonforge_category(verdict.error_category)
        found["error_kind"] = verdict.error_category
    if verdict.status in _MESSAGE_KEYS:
        found[_MESSAGE_KEYS[verdict.status]] = verdict.error_message
    if verdict.max_abs_error is not None:
        found["max_difference"] = [f"{verdict.max_abs_error:.6f}"]
    return found
