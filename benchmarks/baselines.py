"""Times of KernelBench's references as they are and compiled by torch.compile, measured by this evaluator on one GPU.

The problems come from a checkout of KernelBench, with their published sizes. Each is timed as a reference is beside a
candidate (`Evaluator.reference_times`): alone on the device, by both clocks, TF32 off. Several problems are compiled at
once, as many as the device's memory holds. First all are compiled in the default mode, then 30 of them are tuned too
(`max-autotune-no-cudagraphs`). Rows are written one by one: after an interruption, or the end of `--seconds`, the same
command continues. What found no time for want of memory is tried once more alone.

    python benchmarks/baselines.py /path/to/KernelBench --seconds 480
"""

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from _machine import continued, need_gpu, skip, visible_gpu, write_result

from warpsmith.evaluator import BadProblemError, Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.baselines import LASTING
from warpsmith.evaluator.config import TIER_STRENGTH
from warpsmith.records.errors import WarpsmithError

HERE: Final = Path(__file__).parent
AUDIT: Final = HERE / "results" / "kernelbench_audit.json"
"""Has the bytes of each problem's tensors."""
TUNED: Final[dict[int, tuple[int, ...]]] = {
    1: (1, 2, 3, 6, 7, 9, 12, 19, 23, 25, 26, 36, 40, 47, 88, 95),
    2: (1, 4, 9, 12, 14, 29, 37, 45, 56, 59, 70, 76, 86, 99),
}
"""Numbers by level of the problems that are tuned: products, convolutions, pointwise work, reductions, and mixtures."""
PASSES: Final = ("compile", "compile_max_autotune")
FORMS: Final = {"eager": "eager", **dict.fromkeys(PASSES, "compiled")}
NOTABLE: Final = 0.05
MOST_ATTEMPTS: Final = 2
GIB: Final = 1 << 30
BASE_GIB: Final = 3.0
"""Device memory of a worker's context, and of intermediate results."""
COPIES: Final = {"inputs": 3.5, "outputs": 2.0, "parameters": 3.0}
"""How often a problem's tensors are in memory while it is compiled and timed."""
READY_GIB: Final = 1.2
"""Device memory of the workers that the evaluator keeps ready for a slot."""
GRACE_S: Final = 5.0
LONGEST_REASON: Final = 220

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A problem to be timed in one pass.

    Attributes:
        key: level and number, such as `1/19`.
        problem: the problem.
        baseline: the compiled form; one of PASSES.
        gib: estimated device memory.
    """

    key: str
    problem: Problem
    baseline: str
    gib: float


def problems_of(checkout: Path, levels: Sequence[int]) -> Iterator[tuple[str, Problem]]:
    """Yield key and problem, the levels in turn, so that a run that is cut off has some of each."""
    of_level = []
    for level in levels:
        paths = (checkout / "KernelBench" / f"level{level}").glob("*_*.py")
        numbered = sorted((int(path.name.partition("_")[0]), path) for path in paths)
        if not numbered:
            sys.exit(f"{checkout} has no problems of level {level}; pass the path of a checkout of KernelBench.")
        of_level.append([(place, level, number, path) for place, (number, path) in enumerate(numbered)])
    for _, level, number, path in sorted(one for every in of_level for one in every):
        yield f"{level}/{number}", Problem.from_file(path)


def bytes_by_source() -> dict[str, dict[str, int]]:
    """Return the bytes of inputs, outputs and parameters by digest of a problem's source, as far as known."""
    audited = json.loads(AUDIT.read_text(encoding="utf-8"))["problems"]
    return {
        one["problem_sha256"]: {name: one["facts"][f"{name}_bytes"] for name in COPIES}
        for one in audited
        if one["facts"]
    }


class Memory:
    """The device's memory, of which each job takes its estimated part while it runs."""

    def __init__(self, gib: float) -> None:
        self._state = threading.Condition()
        self._gib = self._free = gib

    def first_that_fits(self, jobs: list[Job], until: float) -> tuple[Job, float] | None:
        """Take a job out of a list as soon as one fits, and its memory; None once the list is empty or time is over."""
        with self._state:
            while jobs and time.monotonic() < until:
                for place, job in enumerate(jobs):
                    taken = min(job.gib, self._gib)
                    if taken <= self._free:
                        self._free -= taken
                        return jobs.pop(place), taken
                self._state.wait(1.0)
        return None

    def give_back(self, gib: float) -> None:
        """Let others have what a job took."""
        with self._state:
            self._free += gib
            self._state.notify_all()


class Sheet:
    """The result's file, written after each row."""

    def __init__(self, path: Path, settings: Row) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.result: Row = continued(path, "problems", ("torch", "triton", "warpsmith-evaluator"), settings)

    def lacks(self, job: Job) -> bool:
        """Whether a job has no final row yet."""
        found = self.result["problems"].get(job.key, {}).get(job.baseline)
        if found is None or found["problem_sha256"] != job.problem.key:
            return True
        return not found["final"] and found["attempts"] < MOST_ATTEMPTS

    def keep(self, job: Job, row: Row) -> Row:
        """Write a row down; it counts the attempts of the same problem."""
        with self._lock:
            of_problem = self.result["problems"].setdefault(job.key, {"name": job.problem.name})
            before = of_problem.get(job.baseline, {})
            same = before.get("problem_sha256") == job.problem.key
            row = {**row, "attempts": 1 + (before["attempts"] if same else 0), "date": today()}
            of_problem[job.baseline] = row
            write_result(self._path, self.result)
        return row


def today() -> str:
    """The time of a row: the file's own is that of its first run."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def timed(evaluator: Evaluator, job: Job) -> Row:
    """Time one problem: the row has `eager` and `compiled` (both `ReferenceTime`), `note` and `error`, or None."""
    started = time.monotonic()
    row: Row = {"problem_sha256": job.problem.key, "eager": None, "compiled": None, "note": None, "error": None}
    try:
        found = evaluator.reference_times(job.problem, baseline=["eager", job.baseline])
        row |= {FORMS[name]: asdict(time) for name, time in found.times.items()}
        for note in found.notes:
            row["note"] = {"kind": note.kind, "message": note.message}
        row["final"] = row["note"] is None or row["note"]["kind"] in LASTING
    except WarpsmithError as error:
        memory = "out of memory" in error.message.lower() or "OUT_OF_MEMORY" in error.message
        row["error"] = {"type": type(error).__name__, "message": error.message}
        row["final"] = isinstance(error, BadProblemError) and not memory
    return {**row, "seconds": round(time.monotonic() - started, 2)}


class Run:
    """Times all jobs that are left, pass by pass, and those that found no memory once more alone."""

    def __init__(self, arguments: argparse.Namespace, sheet: Sheet, every: list[Job], gib: float) -> None:
        self._sheet, self._every, self._gib = sheet, every, gib
        self._slots, self._until = arguments.slots, time.monotonic() + arguments.seconds
        self._stopped = False

    def conduct(self, evaluator: Evaluator) -> None:
        """Time what is left until the time is over."""
        for name in PASSES:
            self._at_once(evaluator, [job for job in self._left() if job.baseline == name], self._slots)
        self._at_once(evaluator, self._left(), 1)

    def stop(self) -> None:
        """Write down nothing more: what fails from now on fails because the evaluator ends."""
        self._stopped = True

    def _left(self) -> list[Job]:
        return [job for job in self._every if self._sheet.lacks(job)]

    def _at_once(self, evaluator: Evaluator, jobs: list[Job], slots: int) -> None:
        memory = Memory(self._gib)
        pool = ThreadPoolExecutor(slots)
        workers = [pool.submit(self._work, evaluator, jobs, memory) for _ in range(slots)]
        remaining = self._until + GRACE_S - time.monotonic()
        done, _ = wait(workers, timeout=None if remaining == float("inf") else max(remaining, 0.0))
        pool.shutdown(wait=False, cancel_futures=True)
        for one in done:
            one.result()

    def _work(self, evaluator: Evaluator, jobs: list[Job], memory: Memory) -> None:
        while (found := memory.first_that_fits(jobs, self._until)) is not None:
            job, gib = found
            try:
                row = timed(evaluator, job)
                if self._stopped:
                    return
                row = self._sheet.keep(job, row)
            finally:
                memory.give_back(gib)
            print(
                f"{len(jobs):4} wait  {job.key:6} {job.baseline:21} {in_words(row)}  {row['seconds']:.1f} s", flush=True
            )


def in_words(row: Row) -> str:
    """A row in words."""
    if row["error"] is not None:
        return f"{row['error']['type']}: {_short(row['error']['message'])}"
    eager = f"eager {row['eager']['ms']:.4f} ms"
    if row["compiled"] is None:
        return f"{eager}, {row['note']['kind']}: {_short(row['note']['message'])}"
    return f"{eager}, compiled {row['compiled']['ms']:.4f} ms, {speedup(row):.2f}x"


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]


def speedup(row: Row | None) -> float | None:
    """The eager time by the compiled one; None where one is missing."""
    if row is None or row["eager"] is None or row["compiled"] is None:
        return None
    return float(row["eager"]["ms"] / row["compiled"]["ms"])


def report(result: Row) -> str:
    """Return counts, medians, what has no time with its reason, and all times in Markdown."""
    rows: dict[str, Row] = result["problems"]
    lines = [
        "| level | mode | problems | both timed | speedup, median | quartiles | 5 % faster | 5 % slower | no time |",
        "| --- |" + " --- |" * 8,
    ]
    for level in sorted({key.partition("/")[0] for key in rows}):
        for name in PASSES:
            of_pass = [row[name] for key, row in rows.items() if key.startswith(f"{level}/") and name in row]
            if of_pass:
                lines.append(_counts(level, name, of_pass))
    missing = [f"- `{key}` {name}: {in_words(row[name])}" for key, name, row in _missing(rows)]
    lines += ["", "Without a time:", "", *missing] if missing else []
    lines += ["", "| problem | eager, ms | compiled, ms | speedup | tuned, ms | speedup |", "| --- |" + " --- |" * 5]
    for key in sorted(rows, key=_place):
        lines.append(_times(key, rows[key]))
    return "\n".join(lines) + "\n"


def _counts(level: str, name: str, rows: list[Row]) -> str:
    found = [one for one in map(speedup, rows) if one is not None]
    reasons = Counter(
        row["note"]["kind"] if row["note"] else row["error"]["type"] for row in rows if speedup(row) is None
    )
    middle = f"{statistics.median(found):.2f}" if found else "-"
    quartiles = [f"{one:.2f}" for one in statistics.quantiles(found, n=4)] if len(found) > 1 else ["-"] * 3
    faster, slower = sum(one > 1 + NOTABLE for one in found), sum(one < 1 / (1 + NOTABLE) for one in found)
    missing = ", ".join(f"{count} {kind}" for kind, count in reasons.most_common()) or "0"
    middles = f"{middle} | {quartiles[0]} to {quartiles[2]}"
    return f"| {level} | {name} | {len(rows)} | {len(found)} | {middles} | {faster} | {slower} | {missing} |"


def _missing(rows: dict[str, Row]) -> Iterator[tuple[str, str, Row]]:
    for key in sorted(rows, key=_place):
        for name in PASSES:
            if name in rows[key] and speedup(rows[key][name]) is None:
                yield key, name, rows[key]


def _place(key: str) -> tuple[int, int]:
    level, _, number = key.partition("/")
    return int(level), int(number)


def _times(key: str, row: Row) -> str:
    compiled, tuned = row.get("compile"), row.get("compile_max_autotune")
    eager = next((one["eager"] for one in (compiled, tuned) if one and one["eager"]), None)
    cells: list[float | None] = [eager["ms"] if eager else None]
    for one in (compiled, tuned):
        cells += [one["compiled"]["ms"] if one and one["compiled"] else None, speedup(one)]
    return f"| `{key}` | " + " | ".join("-" if one is None else f"{one:.4g}" for one in cells) + " |"


def memory_gib() -> float:
    """Total memory of the GPU in use, by nvidia-smi."""
    asked = ["nvidia-smi", f"--id={visible_gpu()}", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    return float(subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout) / 1024


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Return the jobs of both passes."""
    known = bytes_by_source()
    levels = [int(one) for one in arguments.levels.split(",")]
    only = set(filter(None, arguments.problems.split(",")))
    found = [(key, one) for key, one in problems_of(arguments.kernelbench, levels) if not only or key in only]
    tuned = {f"{level}/{number}" for level, numbers in TUNED.items() for number in numbers}

    def gib(problem: Problem) -> float:
        size = known.get(problem.key, dict.fromkeys(COPIES, GIB))
        return BASE_GIB + sum(copies * size[name] / GIB for name, copies in COPIES.items())

    return [Job(key, one, name, gib(one)) for name in PASSES for key, one in found if name == PASSES[0] or key in tuned]


def config_of(arguments: argparse.Namespace) -> EvaluatorConfig:
    """The evaluator's settings."""
    return EvaluatorConfig(
        device="cuda",
        gpu=visible_gpu(),
        slots=arguments.slots,
        ready_workers=1,
        minimum_isolation=arguments.isolation,
        strongest_isolation=arguments.isolation,
        timed_trials=arguments.timed_trials,
        baseline=("eager", *PASSES),
        baseline_timeout_s=arguments.deadline,
        reference_timeout_s=60,
        memory_bytes=16 * GIB,
        scratch_bytes=2 * GIB,
        processes=256,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path, nargs="?", help="a checkout of KernelBench; none prints the result")
    parser.add_argument("--levels", default="1,2", help="levels, separated by commas")
    parser.add_argument("--problems", default="", help="only these, such as 1/19,2/9")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no problem after this time")
    parser.add_argument("--deadline", type=float, default=150.0, help="seconds to compile one problem, without waiting")
    parser.add_argument("--timed-trials", type=int, default=100, help="most timed calls; slow references get fewer")
    parser.add_argument("--slots", type=int, default=min(10, os.cpu_count() or 1), help="problems at once")
    parser.add_argument(
        "--isolation", choices=tuple(TIER_STRENGTH), default="namespaces", help="of the workers; none contains nothing"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results" / "baselines.json", help="continued if it exists")
    arguments = parser.parse_args()
    if arguments.kernelbench is None:
        if not arguments.out.exists():
            skip("this needs the path of a checkout of KernelBench")
        print(report(json.loads(arguments.out.read_text(encoding="utf-8"))))
        return
    need_gpu()
    every = jobs_of(arguments)
    config = config_of(arguments)
    settings = {name: getattr(arguments, name) for name in ("timed_trials", "isolation")}
    sheet = Sheet(arguments.out, {"precision": config.precision, **settings})
    run = Run(arguments, sheet, every, memory_gib() - 2.0 - READY_GIB * arguments.slots)
    try:
        with Evaluator(config) as evaluator:
            run.conduct(evaluator)
            run.stop()
    finally:
        text = report(sheet.result)
        arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text.partition("| problem |")[0])
    left = sum(map(sheet.lacks, every))
    print(f"{left} of {len(every)} times left; the same command continues." if left else "Complete.", flush=True)
    # Threads whose problem was cut off still wait for an evaluator that has ended.
    os._exit(0)


if __name__ == "__main__":
    main()
