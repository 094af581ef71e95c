"""Verdicts as traces, and where a data set keeps its traces and solutions."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.traces.problems import FormatName
from warpsmith.evaluator.traces.schema import (
    Correctness,
    Definition,
    Environment,
    Evaluation,
    Measure,
    Performance,
    Status,
    Trace,
    Workload,
)
from warpsmith.evaluator.verdict import Verdict, WorkloadResult
from warpsmith.records.folders import write_file

STATUSES: Final[dict[str, Status]] = {
    "correct": "PASSED",
    "incorrect": "INCORRECT_NUMERICAL",
    "compile_error": "COMPILE_ERROR",
    "runtime_error": "RUNTIME_ERROR",
    "timeout": "TIMEOUT",
    "rejected": "RUNTIME_ERROR",
}
"""The formats' statuses of ours; `undecided` and `invalid` have none, since nothing was found out."""
REJECTED: Final[dict[FormatName, Status]] = {"sol": "REWARD_HACK"}
LIBRARIES: Final = ("torch", "triton")
_FORMS: Final[dict[str, Status]] = {" has shape ": "INCORRECT_SHAPE", " has dtype ": "INCORRECT_DTYPE"}


def traces_of(
    definition: Definition,
    workloads: Mapping[str, Workload],
    solution: str,
    verdict: Verdict,
    *,
    timestamp: str,
    format: FormatName,
) -> list[Trace]:
    """Return one trace for each workload that was decided.

    Args:
        definition: what was solved.
        workloads: its input sets by UUID.
        solution: the solution's name.
        verdict: the verdict over workloads of these UUIDs.
        timestamp: when it was reached, in ISO 8601.
        format: whose statuses to use.
    """
    environment = Environment(hardware=verdict.device, libs=_versions())
    traces = []
    for result in verdict.workloads:
        status = _status(result, format)
        if status is None:
            continue
        evaluation = Evaluation(
            status=status,
            environment=environment,
            timestamp=timestamp,
            log=_log(result),
            correctness=_correctness(result) if status in ("PASSED", "INCORRECT_NUMERICAL") else None,
            performance=_performance(result) if status == "PASSED" else None,
        )
        workload = workloads[result.name]
        traces.append(Trace(definition=definition.name, workload=workload, solution=solution, evaluation=evaluation))
    return traces


def write_traces(out: Path, format: FormatName, definition: Definition, author: str, traces: Iterable[Trace]) -> Path:
    """Write the traces of an author's solutions of one definition, replacing the file; return its path."""
    path = out / "traces" / _part(author)
    if format == "flashinfer":
        path /= _part(definition.op_type or "none")
    path /= f"{_part(definition.name)}.jsonl"
    write_file(path, "".join(json.dumps(one.to_document(), allow_nan=False) + "\n" for one in traces))
    return path


def write_solution(out: Path, format: FormatName, definition: Definition, document: dict[str, Any]) -> Path:
    """Write the document of a solution, replacing the file; return its path."""
    path = out / "solutions" / _part(document["author"])
    if format == "flashinfer":
        path /= _part(definition.op_type or "none")
    path = path / _part(definition.name) / f"{_part(document['name'])}.json"
    write_file(path, json.dumps(document, indent=2) + "\n")
    return path


def _status(result: WorkloadResult, format: FormatName) -> Status | None:
    if result.status == "rejected":
        return REJECTED.get(format, STATUSES["rejected"])
    if result.status == "incorrect" and result.max_abs_error is None:
        # No output was compared: its form was wrong, and the message begins with how.
        message = result.error_message or ""
        return next((status for words, status in _FORMS.items() if words in message), "INCORRECT_NUMERICAL")
    return STATUSES.get(result.status)


def _log(result: WorkloadResult) -> str:
    line = f"{result.status}: {result.error_message}" if result.error_message else result.status
    return f"{line}\nflags: {', '.join(result.flags)}" if result.flags else line


def _correctness(result: WorkloadResult) -> Correctness:
    error: Measure = "NaN" if result.max_abs_error is None else result.max_abs_error
    extra = {
        "trials": result.trials,
        "mismatched_fraction": result.mismatched_fraction,
        "relative_error": "not measured",
    }
    return Correctness(max_relative_error="NaN", max_absolute_error=error, extra=extra)


def _performance(result: WorkloadResult) -> Performance | None:
    if result.runtime_ms is None or result.reference_ms is None or result.speedup is None:
        return None
    return Performance(
        latency_ms=result.runtime_ms, reference_latency_ms=result.reference_ms, speedup_factor=result.speedup
    )


def _versions() -> dict[str, str]:
    """Return the versions of what judged; a client of servers may have no torch of its own."""
    found = {"warpsmith-evaluator": __version__}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _part(name: str) -> str:
    """Return a name as a part of a path: foreign documents may have anything in it."""
    kept = re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII).lstrip(".")[:120]
    return kept if kept == name else f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
