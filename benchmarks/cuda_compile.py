"""How long a new candidate in CUDA C++ compiles: in this evaluator, and by torch's `load_inline`, on one machine.

The candidates are those of `solutions/cuda`, with KernelBench's problems in small sizes. Here an evaluator that has
compiled nothing before judges each of them; what counts is the time in its compile worker (`Verdict.seconds.compile`):
a cubin, its fenced twin on a GPU, and the host code. There a fresh process with torch imported runs the candidate's
module in an empty folder of extensions; what counts is the time in `load_inline`. Both take as many candidates at once.
Candidates in the file are kept: the same command continues.

    python benchmarks/cuda_compile.py /path/to/KernelBench --count 12 --at-once 4
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

from _machine import check_same, describe, need_gpu, skip, visible_gpu, write_result
from _side_problems import Solution, problem_of, solutions

from warpsmith.evaluator import Evaluator, EvaluatorConfig

HERE: Final = Path(__file__).parent
SIDES: Final = ("warpsmith", "load_inline")
DEADLINE_S: Final = 300.0
LAST_WORDS: Final = 600
Row = dict[str, Any]


def child(path: Path) -> None:
    """Run a candidate's module; print the seconds of its `load_inline` calls as JSON."""
    from torch.utils import cpp_extension

    spent: list[float] = []
    build = cpp_extension.load_inline

    def timed(*args: Any, **keywords: Any) -> Any:
        started = time.perf_counter()
        try:
            return build(*args, **keywords)
        finally:
            spent.append(time.perf_counter() - started)

    cpp_extension.load_inline = timed
    exec(compile(path.read_text(encoding="utf-8"), "<string>", "exec"), {})
    print(json.dumps({"seconds": round(sum(spent), 3), "builds": len(spent)}))


def by_load_inline(one: Solution) -> Row:
    """Build a candidate with torch, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TORCH_EXTENSIONS_DIR": folder}
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(one.path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not built within {DEADLINE_S:.0f} s"}
    if done.returncode:
        return {"error": done.stderr.strip()[-LAST_WORDS:]}
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def by_warpsmith(evaluator: Any, checkout: Path, one: Solution) -> Row:
    """Judge a candidate here."""
    problem = problem_of(checkout, one.level, one.number, "small")
    started = time.perf_counter()
    found = evaluator.evaluate(problem, one.path.read_text(encoding="utf-8"))
    row: Row = {
        "wall_s": round(time.perf_counter() - started, 3),
        "cached": found.compile_cached,
        "compiled": found.compiled,
        "status": found.status,
    }
    if found.compiled and not found.compile_cached:
        row["seconds"] = round(found.seconds.compile, 3)
    else:
        row["error"] = f"{found.error_message}"[:LAST_WORDS]
    return row


class Sheet:
    """The result, written after each row.

    Args:
        path: the file, continued if it exists.
        here: what a new file begins with.
    """

    def __init__(self, path: Path, here: Row) -> None:
        self.path = path
        self.result: Row = json.loads(path.read_text(encoding="utf-8")) if path.exists() else here
        check_same(path, self.result, here)
        for name in ("device", "at_once"):
            if self.result[name] != here[name]:
                sys.exit(f"{path} has {name} {self.result[name]!r}, not {here[name]!r}; pass another --out.")

    def fill(self, side: str, measure: Callable[[Solution], Row], every: Sequence[Solution], until: float) -> None:
        """Measure the candidates that one side lacks."""
        rows: dict[str, Row] = self.result[side]

        def in_time(one: Solution) -> Row | None:
            return measure(one) if time.monotonic() < until else None

        with ThreadPoolExecutor(self.result["at_once"]) as pool:
            asked = {pool.submit(in_time, one): one for one in every if "seconds" not in rows.get(one.key, {})}
            for done in as_completed(asked):
                row = done.result()
                if row is not None:
                    rows[asked[done].key] = row
                    self.write()
                    print(f"{side:12} {asked[done].key:12} {row}", flush=True)

    def write(self) -> None:
        self.result["summary"] = summary(self.result)
        write_result(self.path, self.result)


def config_of(arguments: argparse.Namespace) -> EvaluatorConfig:
    """The evaluator's settings."""
    return EvaluatorConfig(
        device=arguments.device,
        gpu=visible_gpu(),
        language="cuda_cpp",
        slots=arguments.at_once,
        ready_workers=1,
        trials=2,
        timing=False,
        operators="library",
        allow_degenerate=True,
        compile_timeout_s=120,
        memory_bytes=16 << 30,
    )


def summary(result: Row) -> Row:
    """Return count, p50 and range of each side over the candidates that both compiled, and the quotient of the p50."""
    ours, theirs = (result[side] for side in SIDES)
    both = [key for key, row in ours.items() if "seconds" in row and "seconds" in theirs.get(key, {})]
    if not both:
        return {"candidates": 0}
    seconds = {side: [result[side][key]["seconds"] for key in both] for side in SIDES}
    p50 = {side: statistics.median(seconds[side]) for side in SIDES}
    ranges = {side: {"p50_s": p50[side], "least_s": min(seconds[side]), "most_s": max(seconds[side])} for side in SIDES}
    return {"candidates": len(both), **ranges, "share": p50[SIDES[0]] / p50[SIDES[1]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path, nargs="?", help="a checkout of KernelBench")
    parser.add_argument("--count", type=int, default=12, help="candidates")
    parser.add_argument("--at-once", type=int, default=1, help="candidates at once, on both sides")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu compiles here alone, no twins")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no candidate after this time")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / "cuda_compile.json", help="continued if it exists"
    )
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments.child)
        return
    if arguments.kernelbench is None:
        skip("this needs the path of a checkout of KernelBench")
    if arguments.device == "cuda":
        need_gpu()
    until = time.monotonic() + arguments.seconds
    here = describe(("torch", "triton", "warpsmith-evaluator"))
    here |= {"device": arguments.device, "at_once": arguments.at_once, "summary": {}, **{side: {} for side in SIDES}}
    sheet = Sheet(arguments.out, here)
    every = solutions(("cuda",))[: arguments.count]
    with Evaluator(config_of(arguments)) as evaluator:
        sheet.fill("warpsmith", lambda one: by_warpsmith(evaluator, arguments.kernelbench, one), every, until)
    if arguments.device == "cuda":
        sheet.fill("load_inline", by_load_inline, every, until)
    print(json.dumps(sheet.result["summary"]), flush=True)


if __name__ == "__main__":
    main()
