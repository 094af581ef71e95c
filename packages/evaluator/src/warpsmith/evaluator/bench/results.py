"""Result files of a run besides its log: a Parquet table, KernelBench's own JSON, and a summary."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.evaluator.bench.scoring import Answer, LevelScore
from warpsmith.evaluator.exec_result import result_of
from warpsmith.records.folders import write_file

if TYPE_CHECKING:
    import pyarrow as pa

TABLE: Final = "results.parquet"
SUMMARY: Final = "summary.json"
EVAL_RESULTS: Final = "eval_results.json"
SCHEMA_VERSION: Final = 4
"""Version 1 had no `verdict.recording`, version 2 called it `host_code`, version 3 had no `verdict.figures`."""


def schema() -> "pa.Schema":
    """Return the columns of `results.parquet`, one row per answer; docs/bench.md describes them."""
    import pyarrow as pa

    from warpsmith.records.schema import UTC_US, VERDICT

    return pa.schema(
        [
            pa.field("run", pa.string(), nullable=False),
            pa.field("level", pa.int32(), nullable=False),
            pa.field("problem", pa.int32(), nullable=False),
            pa.field("name", pa.string(), nullable=False),
            pa.field("sample", pa.int32(), nullable=False),
            pa.field("state", pa.string(), nullable=False),
            pa.field("problem_sha256", pa.string(), nullable=False),
            pa.field("candidate_sha256", pa.string()),
            pa.field("candidate", pa.string()),
            pa.field("verdict", VERDICT),
            pa.field("refusal", pa.string()),
            pa.field("baseline_ms", pa.float64()),
            pa.field("baseline_speedup", pa.float64()),
            pa.field("finished_at", UTC_US),
        ],
        metadata={b"warpsmith.table": b"bench", b"warpsmith.schema_version": str(SCHEMA_VERSION).encode()},
    )


def write_table(out: Path, run: str, answers: Sequence[Answer]) -> Path:
    """Write `results.parquet`, replacing an older one atomically; return its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([_row(run, answer) for answer in answers], schema=schema())
    unfinished = out / f".{TABLE}.unfinished"
    pq.write_table(table, unfinished, compression="zstd")
    return unfinished.replace(out / TABLE)


def _row(run: str, answer: Answer) -> dict[str, Any]:
    outcome, generation = answer.outcome, answer.generation
    refusal = outcome.refusal if outcome else None
    return {
        "run": run,
        "level": answer.problem.level,
        "problem": answer.problem.number,
        "name": answer.problem.name,
        "sample": answer.sample,
        "state": answer.state,
        "problem_sha256": answer.problem.key,
        "candidate_sha256": generation.digest if generation else None,
        "candidate": generation.source if generation else None,
        "verdict": answer.verdict.to_row() if answer.verdict else None,
        "refusal": f"{refusal.message} {refusal.remedy}".strip() if refusal else None,
        "baseline_ms": answer.baseline_ms,
        "baseline_speedup": answer.baseline_speedup,
        "finished_at": datetime.fromisoformat(outcome.finished_at) if outcome else None,
    }


def write_eval_results(out: Path, answers: Sequence[Answer]) -> list[Path]:
    """Write `level_{L}/eval_results.json` for KernelBench's scripts; return the paths.

    Answers that were not judged are left out: the format cannot express them, and they must not count as a score.
    """
    levels: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for answer in answers:
        problems = levels.setdefault(answer.problem.level or 0, {})
        if answer.state == "judged" and answer.verdict is not None:
            entry = {"sample_id": answer.sample, **result_of(answer.verdict)}
            problems.setdefault(str(answer.problem.number), []).append(entry)
    return [_write_json(out / f"level_{level}" / EVAL_RESULTS, found) for level, found in sorted(levels.items())]


def write_summary(out: Path, report: dict[str, Any], scores: Sequence[LevelScore]) -> Path:
    """Write `summary.json`: what was run and the scores by level; return its path."""
    return _write_json(out / SUMMARY, summary(report, scores))


def summary(report: dict[str, Any], scores: Sequence[LevelScore]) -> dict[str, Any]:
    """Return what was run and the scores by level, as plain values."""
    return {**report, "scores": [score.to_json() for score in scores]}


def _write_json(path: Path, found: Any) -> Path:
    write_file(path, json.dumps(found, indent=2) + "\n")
    return path
