"""How long it takes to judge KernelBench's level 1 activations at their real sizes, here and with its own evaluator.

The problems and the peer come from a checkout of KernelBench. Each candidate is one plain elementwise Triton kernel.
Both evaluators run 5 correctness and 100 timed trials of the candidate against the eager reference; here a reference
slower than 1.5 ms is called less often (docs/timing-reference.md).

    python benchmarks/kernelbench_speed.py /path/to/KernelBench
"""

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from _machine import describe, need_gpu, skip, write_result

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem

HERE = Path(__file__).parent
TRIALS: Final = 5
TIMED: Final = 100

EXPRESSIONS: Final = {
    19: "tl.maximum(x, 0.0)",
    21: "tl.sigmoid(x)",
    25: "x * tl.sigmoid(x)",
    28: "tl.minimum(tl.maximum(x / 6.0 + 0.5, 0.0), 1.0)",
    30: "x / (1.0 + tl.abs(x))",
    32: "tl.minimum(tl.maximum(x, -1.0), 1.0)",
}
"""The elementwise computation of each problem, by its number in level 1."""

TEMPLATE: Final = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def activation_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, {expression}, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        activation_kernel[(triton.cdiv(x.numel(), 4096),)](x, out, x.numel(), BLOCK=4096)
        return out
"""


def problem_file(checkout: Path, number: int) -> Path:
    """Return the file of a level 1 problem."""
    found = sorted((checkout / "KernelBench" / "level1").glob(f"{number}_*.py"))
    if not found:
        sys.exit(f"{checkout} has no problem {number} of level 1; pass the path of a checkout of KernelBench.")
    return found[0]


def ours(evaluator: Evaluator, path: Path, candidate: str) -> dict[str, Any]:
    """Judge once; seconds as seen by the caller."""
    started = time.perf_counter()
    verdict = evaluator.evaluate(Problem.from_file(path), candidate)
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "phases": {name: round(seconds, 3) for name, seconds in asdict(verdict.seconds).items()},
        "status": verdict.status,
        "runtime_ms": verdict.runtime_ms,
        "reference_ms": verdict.reference_ms,
        "timing_tier": verdict.timing_tier,
        "recording": verdict.recording,
        "flags": list(verdict.flags),
        "message": verdict.error_message,
    }


def theirs(checkout: Path, path: Path, candidate: str) -> dict[str, Any]:
    """Judge with `eval_kernel_against_ref`; the same call times the baseline."""
    if str(checkout / "src") not in sys.path:
        sys.path.insert(0, str(checkout / "src"))
    from kernelbench.eval import eval_kernel_against_ref  # type: ignore[import-not-found]

    started = time.perf_counter()
    found = eval_kernel_against_ref(
        path.read_text(encoding="utf-8"),
        candidate,
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED,
        measure_performance=True,
        backend="triton",
    )
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "correct": found.correctness,
        "runtime_ms": found.runtime,
        "reference_ms": getattr(found, "ref_runtime", None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path, nargs="?", help="a checkout of KernelBench")
    parser.add_argument("--problems", default="19,21,25,28,30,32", help="numbers in level 1, separated by commas")
    parser.add_argument("--peer", default="all", help="the problems that KernelBench judges too: numbers, all or none")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "kernelbench_speed.json")
    arguments = parser.parse_args()
    need_gpu()
    if arguments.kernelbench is None:
        skip("this needs the path of a checkout of KernelBench")
    numbers = [int(number) for number in arguments.problems.split(",")]
    named = {"all": numbers, "none": []}
    also = named[arguments.peer] if arguments.peer in named else [int(part) for part in arguments.peer.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    config = EvaluatorConfig(device="cuda", slots=1, ready_workers=2, trials=TRIALS, timed_trials=TIMED, timeout_s=60)
    with Evaluator(config) as evaluator:
        for number in numbers:
            path, candidate = (
                problem_file(arguments.kernelbench, number),
                TEMPLATE.format(expression=EXPRESSIONS[number]),
            )
            first = ours(evaluator, path, candidate)
            # Different text, so that the kernel is compiled again; the problem has already been audited.
            second = ours(evaluator, path, f"{candidate}# again\n")
            rows[path.stem] = {"first": first, "warm": second}
            print(path.stem, rows[path.stem], flush=True)
    for number in also:
        path = problem_file(arguments.kernelbench, number)
        candidate = TEMPLATE.format(expression=EXPRESSIONS[number])
        rows[path.stem]["kernelbench"] = theirs(arguments.kernelbench, path, candidate)
        print(path.stem, rows[path.stem]["kernelbench"], flush=True)
    write_result(arguments.out, {**describe(("torch", "triton", "warpsmith-evaluator")), "problems": rows})


if __name__ == "__main__":
    main()
