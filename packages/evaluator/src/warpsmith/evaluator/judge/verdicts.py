"""From evidence to the verdict."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from warpsmith.evaluator.baselines import EAGER, BaselineName, BaselineNote
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.judge.compiled_baselines import BaselineTime
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.verdict import Seconds, Status, Verdict

SETTLED: Final = frozenset({"rejected", "timeout"})
"""Statuses that take precedence over a failed compilation."""


def _times(evidence: Evidence, status: str, baselines: Sequence[BaselineName]) -> dict[str, Any]:
    """Return the timing fields of a verdict; empty unless the candidate is correct."""
    found = evidence.timing
    if found is None or status != "correct":
        return {}
    known = {name: one for name, one in evidence.baselines.items() if name in baselines}
    ratios = {EAGER: 1.0} | {name: one.ratio for name, one in known.items() if isinstance(one, BaselineTime)}
    references = {name: found.reference_ms * ratios[name] for name in baselines if name in ratios}
    speedups = {name: reference_ms / found.runtime_ms for name, reference_ms in references.items()}
    return {
        "speedup": speedups.get(baselines[0]),
        "speedups": speedups,
        "runtime_ms": found.runtime_ms,
        "reference_ms": references.get(baselines[0]),
        "references_ms": references,
        "baseline_notes": tuple(one for one in known.values() if isinstance(one, BaselineNote)),
        "timing_tier": found.tier,
        "kernel_share": evidence.kernel_share,
        "clock": evidence.clock,
    }


def _bytes_moved(evidence: Evidence) -> int | None:
    """Return the traffic of one call: what the interpreter counts plus what spills add on the chip.

    The interpreter's blocks can have any size. On a chip, what exceeds the registers spills to memory: each spilled
    byte is written and read at least once.
    """
    if evidence.bytes_moved is None:
        return None
    spilled = sum(one.launches * math.prod(one.grid) * one.threads * one.spill_bytes for one in evidence.kernels)
    return evidence.bytes_moved + 2 * spilled


def verdict_of(
    evidence: Evidence, seconds: Seconds, device: str = "cpu", config: EvaluatorConfig | None = None
) -> Verdict:
    """Return the verdict: a rejection or timeout takes precedence, then a compile error, then a wrong output."""
    config = config or EvaluatorConfig()
    compilation = evidence.compilation or Compilation(ok=False)
    failure = evidence.failure
    status: Status = failure.status if failure else "correct"  # type: ignore[assignment]
    category = failure.category if failure else None
    message = failure.message if failure else None
    if (evidence.compilation is not None or not failure) and not compilation.ok and status not in SETTLED:
        status, category, message = "compile_error", compilation.category or "unknown", compilation.message
    if status == "correct" and not evidence.replayed and "not_replayed" not in evidence.flags:
        status, category, message = "rejected", None, "The launches of forward were not replayed."
    flags = evidence.flags | ({"tf32_dot"} if compilation.tf32 and config.precision == "ieee" else set())
    if status == "incorrect" and evidence.passes_kernelbench:
        flags = flags | {"kernelbench_passes"}
    if status == "incorrect" and "tf32_dot" in flags:
        message = f'{message} Note: a float32 tl.dot runs in TF32 on the target chip; pass input_precision="ieee".'
    return Verdict(
        status=status,
        compiled=compilation.ok,
        correct=status == "correct",
        isolation_tier=evidence.tier or "none",
        recording=evidence.recording,
        flags=tuple(sorted(flags)),
        policy=config.operators,
        baseline=config.baseline[0],
        bound=evidence.bound if status == "correct" else None,
        kernels=evidence.kernels if status == "correct" else (),
        bytes_moved=_bytes_moved(evidence) if status == "correct" else None,
        operators=tuple(sorted({name.rpartition(".")[0] for name in evidence.operators})),
        error_category=category,
        error_message=message,
        max_abs_error=evidence.max_abs_error,
        mismatched_fraction=evidence.mismatched_fraction,
        trials=evidence.trials,
        compile_cached=compilation.cached,
        device=device,
        **_times(evidence, status, config.baseline),
        seconds=replace(seconds, compile=compilation.seconds),
    )
