"""Whether this evaluator and KernelBench's own agree on honest solutions, and on their times, on one GPU in one run.

The problems and the peer come from a checkout of KernelBench; `solutions/` has solutions of 46 problems of levels 1 and
2 in Triton and in CUDA C++. Each evaluator runs in processes of its own, one solution after the other, with 5
correctness and 100 timed trials of candidate and eager reference: this evaluator first, all of them, then the peer.
KernelBench's process turns TF32 off for convolutions too, as this evaluator does; `--tf32` turns it on for both.
Verdicts are written one by one: after an interruption, or the end of `--seconds`, the same command continues.

    python benchmarks/side_by_side.py /path/to/KernelBench --sizes cut --seconds 300
"""

import argparse
import hashlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from _machine import continued, need_gpu, skip, visible_gpu, write_result
from _side_problems import LANGUAGES, SIZES, Solution, problem_of, solutions

from warpsmith.evaluator import BadProblemError, Evaluator, EvaluatorConfig, Problem

HERE = Path(__file__).parent
TRIALS: Final = 5
TIMED: Final = 100
NEAR: Final = 0.02
OUR_SHARE: Final = 0.6
"""Most of `--seconds` that this evaluator may take, so that the peer has the rest."""
DEADLINE_S: Final = 120.0
BUILD_DEADLINE_S: Final = 300.0
LAST_WORDS: Final = 2000
OUR_LANGUAGES: Final = {"triton": "triton", "cuda": "cuda_cpp"}
NOT_JUDGED: Final = frozenset({"invalid", "undecided", "refused"})
"""Ends of an evaluation that say nothing about the candidate."""

NOTES_OF_FAILURE: Final = ("compilation_error", "runtime_error", "correctness_issue", "max_difference")
LONGEST_REASON: Final = 300

Row = dict[str, Any]


class Peer:
    """KernelBench's evaluator in a process that judges one solution after the other; a process that dies is replaced.

    Args:
        checkout: a checkout of KernelBench.
        log: file for what the process prints.
    """

    def __init__(self, checkout: Path, log: Path) -> None:
        self._checkout, self._log = checkout, log
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1

    def judge(self, task: Row, deadline_s: float = DEADLINE_S) -> Row:
        """Return the verdict on a task of `_peer.in_full`; a process that dies or hangs has called nothing correct."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write((json.dumps(task) + "\n").encode())
            process.stdin.flush()
        except BrokenPipeError:
            return self._lost("died before the task")
        line, until = b"", time.monotonic() + deadline_s
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return self._lost(f"no verdict within {deadline_s:.0f} s")
            part = os.read(self._answers, 1 << 16)
            if not part:
                return self._lost("died")
            line += part
        found: Row = json.loads(line)
        if "error" in found and "CUDA" in found["error"]:
            # An error of the device stays with the process.
            self.close()
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            os.close(self._answers)
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._answers, theirs = os.pipe()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, HERE / "_peer.py", "serve", str(self._checkout), str(theirs)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[theirs],
            )  # fmt: skip
        os.close(theirs)
        return self._process

    def _lost(self, how: str) -> Row:
        said = self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace") if self._log.exists() else ""
        self.close()
        return {"correct": False, "error": how, "last_words": said.strip().splitlines()[-3:]}


class Builds:
    """Extensions of solutions in CUDA C++, built beside the judging: KernelBench would spend a minute on each."""

    def __init__(self, every: list[Solution], processes: int) -> None:
        self._pool = ThreadPoolExecutor(max(1, processes))
        self._built: dict[str, Future[Row]] = (
            {one.key: self._pool.submit(_build, one) for one in every if one.language == "cuda"} if processes else {}
        )

    def wait_for(self, solution: Solution) -> Row:
        """Wait until a solution's extension is built; returns `build_seconds` and, if it failed, `build_error`."""
        return self._built[solution.key].result() if solution.key in self._built else {}

    def close(self) -> None:
        """Start no further builds."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _build(solution: Solution) -> Row:
    started = time.perf_counter()
    command = ["nice", "-n", "19", sys.executable, str(HERE / "_peer.py"), "build", str(solution.path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        return {"build_error": f"not built within {BUILD_DEADLINE_S:.0f} s"}
    seconds = {"build_seconds": round(time.perf_counter() - started, 1)}
    return seconds if done.returncode == 0 else {**seconds, "build_error": done.stderr[-LAST_WORDS:]}


def ours(evaluator: Evaluator, problem: Problem, candidate: str) -> Row:
    """This evaluator's verdict, with its reasons and times."""
    started = time.perf_counter()
    try:
        found = evaluator.evaluate(problem, candidate)
    except BadProblemError as error:
        return {"status": "refused", "correct": False, "message": str(error)}
    return {
        "status": found.status,
        "compiled": found.compiled,
        "correct": found.correct,
        "runtime_ms": found.runtime_ms,
        "reference_ms": found.reference_ms,
        "timing_tier": found.timing_tier,
        "recording": found.recording,
        "flags": list(found.flags),
        "operators": list(found.operators),
        "kernel_share": found.kernel_share,
        "max_abs_error": found.max_abs_error,
        "category": found.error_category,
        "message": found.error_message,
        "seconds": round(time.perf_counter() - started, 3),
    }


def agreement(row: Row) -> str:
    """Say how the verdicts of a row compare: `both correct`, `neither`, `only ours`, `only theirs` or `not judged`."""
    if "warpsmith" not in row or "kernelbench" not in row or row["warpsmith"]["status"] in NOT_JUDGED:
        return "not judged"
    pair = (bool(row["warpsmith"]["correct"]), bool(row["kernelbench"]["correct"]))
    return {
        (True, True): "both correct",
        (False, False): "neither",
        (True, False): "only ours",
        (False, True): "only theirs",
    }[pair]


def ratios(row: Row, by: str = "median") -> tuple[float | None, float | None]:
    """Our time by KernelBench's, of the candidate and of the reference; None where one of them has none.

    Args:
        row: of the result.
        by: which of its times: `median`, or `gated` (`_peer.in_full`).
    """
    mine, theirs = row.get("warpsmith", {}), row.get("kernelbench", {})
    found = []
    for name in ("runtime", "reference"):
        times = mine.get(f"{name}_ms"), theirs.get(f"{name}_{by}_ms")
        found.append(times[0] / times[1] if times[0] and times[1] else None)
    return found[0], found[1]


def reason(row: Row) -> str:
    """What each evaluator says about a row."""
    mine, theirs = row.get("warpsmith", {}), row.get("kernelbench")
    ours_says = ": ".join(_first_line(mine[name]) for name in ("status", "message") if mine.get(name))
    if theirs is None:
        return f"ours: {ours_says}"
    notes = theirs.get("notes", {})
    causes = [theirs.get("error"), *(notes.get(name) for name in NOTES_OF_FAILURE), theirs.get("build_error")]
    said = "; ".join(_first_line(each) for each in causes if each)
    return f"ours: {ours_says}; KernelBench's: {'correct' if theirs['correct'] else 'not correct'} {said}".rstrip()


def _first_line(text: Any) -> str:
    return (str(text).strip().splitlines() or [""])[0][:LONGEST_REASON]


def report(result: Row) -> str:
    """Return counts, disagreements and times of a result in Markdown."""
    rows: dict[str, Row] = result["solutions"]
    lines = [
        "| | solutions | both correct | neither | only ours | only theirs | not judged |",
        "| --- |" + " --- |" * 6,
    ]
    for language in LANGUAGES:
        counted = Counter(agreement(row) for key, row in rows.items() if key.startswith(f"{language}/"))
        each = [counted[name] for name in ("both correct", "neither", "only ours", "only theirs", "not judged")]
        lines.append(f"| {language} | {sum(each)} | " + " | ".join(map(str, each)) + " |")
    differing = [key for key, row in rows.items() if agreement(row) not in ("both correct", "neither")]
    lines += ["", *(f"- `{key}`: {reason(rows[key])}" for key in sorted(differing)), ""]
    both = {key: row for key, row in rows.items() if agreement(row) == "both correct"}
    for by, suffix in (("median", ""), ("gated", " behind a gate")):
        for place, name in enumerate(("candidates", "references")):
            known = [pair[place] for pair in (ratios(row, by) for row in both.values())]
            near = sum(1 for one in known if one is not None and abs(one - 1) <= NEAR)
            lines.append(f"- Times of {name}{suffix}: {near} of {len(known) - known.count(None)} within {NEAR:.0%}.")
    times = "| ours, ms | KernelBench, ms | ratio | gated, ms | ratio "
    lines += ["", f"| solution {times}{times.replace('ours', 'reference, ours')}|", "| --- |" + " --- |" * 10]
    for key, row in sorted(both.items()):
        cells = [one for name in ("runtime", "reference") for one in _times(row, name)]
        lines.append(f"| `{key}` | " + " | ".join("-" if one is None else f"{one:.4f}" for one in cells) + " |")
    return "\n".join(lines) + "\n"


def _times(row: Row, name: str) -> list[float | None]:
    """Return the cells of candidate (`runtime`) or reference: our time, KernelBench's two, each with the ratio."""
    place, theirs = ("runtime", "reference").index(name), row["kernelbench"]
    found: list[float | None] = [row["warpsmith"].get(f"{name}_ms")]
    for by in ("median", "gated"):
        found += [theirs.get(f"{name}_{by}_ms"), ratios(row, by)[place]]
    return found


class Sheet:
    """The result's file, written after each verdict."""

    def __init__(self, path: Path, settings: Row) -> None:
        self._path = path
        self.result: Row = continued(path, "solutions", ("torch", "triton", "warpsmith-evaluator"), settings)

    def row(self, solution: Solution, problem: Problem, candidate: str) -> Row:
        """Return the row of a solution; empty if the problem or the solution is not the one that was judged."""
        digests = {
            "problem": problem.name,
            "problem_sha256": hashlib.sha256(problem.source.encode()).hexdigest(),
            "solution_sha256": hashlib.sha256(candidate.encode()).hexdigest(),
        }
        row: Row = self.result["solutions"].get(solution.key, {})
        if any(row.get(name) != value for name, value in digests.items()):
            row = self.result["solutions"][solution.key] = digests
        return row

    def write(self) -> None:
        write_result(self._path, self.result)


def config_of(arguments: argparse.Namespace, language: str) -> EvaluatorConfig:
    """Settings of this evaluator that match those of KernelBench's."""
    return EvaluatorConfig(
        device=arguments.device,
        gpu=visible_gpu(),
        language=OUR_LANGUAGES[language],
        slots=arguments.slots,
        ready_workers=2,
        trials=TRIALS,
        timed_trials=TIMED,
        timeout_s=60,
        compile_timeout_s=120,
        memory_bytes=16 << 30,
        operators="library",
        allow_degenerate=True,
        precision="tf32" if arguments.tf32 else "ieee",
    )


def judge_all(arguments: argparse.Namespace, sheet: Sheet, every: list[Solution], peer: Peer | None) -> int:
    """Judge each solution that has no verdict yet; returns how many were left when the time was over.

    This evaluator comes first, while the peer's extensions are built: what it times has no host code, so that busy
    processors do not matter. The peer's times do depend on them.
    """
    until = time.monotonic() + arguments.seconds
    half = time.monotonic() + arguments.seconds * (1.0 if peer is None else OUR_SHARE)
    rows = [Judged(one, arguments, sheet) for one in every]
    builds = Builds([one.solution for one in rows if peer is not None and one.lacks("kernelbench")], arguments.builds)
    try:
        for language in dict.fromkeys(one.language for one in every):
            left = [one for one in rows if one.solution.language == language and one.lacks("warpsmith")]
            if left and time.monotonic() < half:
                with Evaluator(config_of(arguments, language)) as evaluator:
                    judge_here(evaluator, left, half)
        if peer is not None:
            judge_there(peer, builds, rows, until)
    finally:
        builds.close()
    return sum(one.lacks("warpsmith") or (peer is not None and one.lacks("kernelbench")) for one in rows)


def judge_here(evaluator: Evaluator, left: list["Judged"], until: float) -> None:
    """Judge by this evaluator, as many at once as it has slots: it times one at a time, the device to itself."""

    def in_time(one: Judged) -> Row | None:
        return ours(evaluator, one.problem, one.candidate) if time.monotonic() < until else None

    with ThreadPoolExecutor(evaluator.config.slots) as pool:
        for one, verdict in zip(left, pool.map(in_time, left), strict=True):
            if verdict is not None:
                one.keep("warpsmith", verdict)


def judge_there(peer: Peer, builds: Builds, rows: list["Judged"], until: float) -> None:
    """Judge by KernelBench's evaluator what this one has judged, one at a time."""
    for one in rows:
        if one.lacks("kernelbench") and not one.lacks("warpsmith") and time.monotonic() < until:
            one.keep("kernelbench", {**builds.wait_for(one.solution), **peer.judge(one.task)})


class Judged:
    """A solution with its problem and what is known about it.

    Args:
        solution: the solution.
        arguments: where the problems are, and of which sizes.
        sheet: the file that gets each verdict.
    """

    def __init__(self, solution: Solution, arguments: argparse.Namespace, sheet: Sheet) -> None:
        self.solution = solution
        self.problem = problem_of(arguments.kernelbench, solution.level, solution.number, arguments.sizes)
        self.candidate = solution.path.read_text(encoding="utf-8")
        self.row = sheet.row(solution, self.problem, self.candidate)
        self._sheet, self._tf32 = sheet, arguments.tf32

    def lacks(self, evaluator: str) -> bool:
        """Whether an evaluator has no verdict on it yet."""
        return evaluator not in self.row

    @property
    def task(self) -> Row:
        """What the peer is asked."""
        found = {"problem": self.problem.source, "candidate": self.candidate, "tf32": self._tf32}
        return {**found, "backend": self.solution.language}

    def keep(self, evaluator: str, verdict: Row) -> None:
        """Write a verdict down, and tell it."""
        self.row[evaluator] = verdict
        self._sheet.write()
        seconds = verdict.get("seconds", 0.0)
        print(f"{self.solution.key:14} {evaluator:12} {seconds:7.2f} s {agreement(self.row):13} {ratios(self.row)} "
              f"{reason(self.row)[:200]}", flush=True)  # fmt: skip


def settings_of(arguments: argparse.Namespace) -> Row:
    """What the rows of one result have in common, beside machine and versions."""
    files = [arguments.kernelbench / "src" / "kernelbench" / name for name in ("eval.py", "timing.py")]
    texts = [path.read_bytes() for path in files if path.exists()]
    return {
        "device": arguments.device,
        "sizes": arguments.sizes,
        "precision": "tf32" if arguments.tf32 else "ieee",
        # Of its evaluator and its timing; a folder of them alone has no commit.
        "kernelbench_sha256": hashlib.sha256(b"".join(texts)).hexdigest() if texts else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path, nargs="?", help="a checkout of KernelBench; none prints the result")
    parser.add_argument("--sizes", choices=SIZES, default="full", help="sizes of the problems (_side_problems.py)")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="languages in this order")
    parser.add_argument("--problems", default="", help="only these, such as 1/19,2/9")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no evaluation after this time")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu judges here alone, small sizes")
    parser.add_argument("--without-kernelbench", action="store_true", help="do not run KernelBench's evaluator")
    parser.add_argument("--slots", type=int, default=1, help="solutions at once here; each is timed alone")
    parser.add_argument("--tf32", action="store_true", help="allow TF32 in both evaluators")
    parser.add_argument("--builds", type=int, default=0, help="processes that build extensions in advance; 0: none")
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / "side_by_side.json", help="continued if it exists"
    )
    arguments = parser.parse_args()
    if arguments.kernelbench is None:
        if not arguments.out.exists():
            skip("this needs the path of a checkout of KernelBench")
        print(report(json.loads(arguments.out.read_text(encoding="utf-8"))))
        return
    if arguments.device == "cuda":
        need_gpu()
    only = frozenset(tuple(map(int, one.split("/"))) for one in arguments.problems.split(",") if one)
    every = solutions(tuple(arguments.languages.split(",")), only or None)
    sheet = Sheet(arguments.out, settings_of(arguments))
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(Path(scratch) / "extensions"))
        without = arguments.without_kernelbench or arguments.device == "cpu"
        peer = None if without else Peer(arguments.kernelbench.resolve(), Path(scratch) / "peer.log")
        try:
            left = judge_all(arguments, sheet, every, peer)
        finally:
            if peer is not None:
                peer.close()
    text = report(sheet.result)
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    if left:
        print(f"{left} of {len(every)} solutions left; the same command continues.")


if __name__ == "__main__":
    main()
