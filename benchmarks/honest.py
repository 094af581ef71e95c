"""How many of 500 honest evaluations on a GPU pass, and whether their times agree with `do_bench`.

The kernels are the honest ones of tests/attacks/controls and, for times of 20 microseconds and more, those of
gpu_timing.py. Each evaluation has its own source, so that nothing of it is cached. Evaluations in the file are kept and
the missing ones added: after an interruption the same command continues.

    python benchmarks/honest.py
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _machine import check_same, describe, need_gpu, write_result
from attacks import cases as corpus
from gpu_timing import cases as long_kernels
from gpu_timing import peers

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, Verdict
from warpsmith.evaluator.config import RECORDING_WAYS

HERE = Path(__file__).parent
WITHIN = 0.02
LEAST_MS = 0.02


def kernels() -> list[tuple[str, Problem, str]]:
    """Yield name, problem and source of each honest kernel."""
    controls = [
        (case.path.stem, Problem.from_file(case.problem), case.path.read_text(encoding="utf-8"))
        for case in corpus()
        if case.kind == "control"
    ]
    return controls + [(name, Problem(name, source), candidate) for name, source, candidate in long_kernels()]


def row_of(number: int, name: str, verdict: Verdict, seconds: float) -> dict[str, Any]:
    return {
        "number": number,
        "kernel": name,
        "status": verdict.status,
        "runtime_ms": verdict.runtime_ms,
        "reference_ms": verdict.reference_ms,
        "timing_tier": verdict.timing_tier,
        "recording": verdict.recording,
        "flags": list(verdict.flags),
        "message": verdict.error_message,
        "seconds": round(seconds, 3),
    }


def do_bench_of(rows: list[dict[str, Any]], known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the `do_bench` times of the kernels of gpu_timing.py that are long enough."""
    long = {row["kernel"] for row in rows if (row["runtime_ms"] or 0.0) >= LEAST_MS} - set(known)
    with tempfile.TemporaryDirectory() as folder:
        return known | {
            name: peers(source, candidate, Path(folder)) for name, source, candidate in long_kernels() if name in long
        }


def summary(rows: list[dict[str, Any]], peer: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The reported figures; times are compared where the driver did not slow down the device for its power limit."""
    steady = {name: found["do_bench_ms"] for name, found in peer.items() if not found["power_capped"]}
    ratios = [
        row["runtime_ms"] / steady[row["kernel"]] for row in rows if row["runtime_ms"] and row["kernel"] in steady
    ]
    return {
        "evaluations": len(rows),
        "correct": sum(row["status"] == "correct" for row in rows),
        "compared_with_do_bench": len(ratios),
        "within_2_percent": sum(abs(ratio - 1) <= WITHIN for ratio in ratios),
        "median_over_do_bench": statistics.median(ratios) if ratios else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="evaluations")
    parser.add_argument("--slots", type=int, default=1, help="evaluations at once")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no evaluation after this many seconds")
    parser.add_argument("--recording", choices=RECORDING_WAYS, default="detached", help="how host code is recorded")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "honest.json", help="continued if it exists")
    arguments = parser.parse_args()
    need_gpu()
    began = time.monotonic()
    result = describe(("torch", "triton", "warpsmith-evaluator")) | {"summary": {}, "do_bench": {}, "rows": []}
    if arguments.out.exists():
        known = json.loads(arguments.out.read_text(encoding="utf-8"))
        check_same(arguments.out, known, result)
        result = known
    rows = result["rows"]
    judged = {(row["number"], row["kernel"]) for row in rows}
    jobs = itertools.islice(enumerate(itertools.cycle(kernels())), arguments.count)
    left = [job for job in jobs if (job[0], job[1][0]) not in judged]
    config = EvaluatorConfig(
        device="cuda", slots=arguments.slots, ready_workers=2, timeout_s=60, recording=arguments.recording
    )
    with Evaluator(config) as evaluator, ThreadPoolExecutor(arguments.slots) as pool:

        def judge(job: tuple[int, tuple[str, Problem, str]]) -> dict[str, Any] | None:
            number, (name, problem, source) = job
            started = time.monotonic()
            if started - began > arguments.limit_s:
                return None
            return row_of(
                number, name, evaluator.evaluate(problem, f"{source}\n# {number}\n"), time.monotonic() - started
            )

        for row in filter(None, pool.map(judge, left)):
            rows.append(row)
            write_result(arguments.out, result)
            if row["status"] != "correct":
                print(row, flush=True)
    result["do_bench"] = do_bench_of(rows, result["do_bench"])
    result["summary"] = summary(rows, result["do_bench"])
    write_result(arguments.out, result)
    print(result["summary"], flush=True)


if __name__ == "__main__":
    main()
