"""How long one evaluation takes on a GPU that judges nothing else, of a problem that is known.

A small kernel whose code is known (the same text again), one that must be compiled, and a ReLU of 6.4 GB tensors
(KernelBench's problem 19 at its size), which needs more than 80 GB of device memory. `seconds` are means by phase.

    python benchmarks/evaluation_latency.py
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from _machine import describe, need_gpu, visible_gpu, write_result
from throughput import PROBLEM, TIMED, TRIALS, candidates, problems

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, Verdict
from warpsmith.evaluator.processes.phases import PHASES

HERE = Path(__file__).parent
LARGE = "torch.rand(4096, 393216)"


def judged(evaluator: Evaluator, problem: Problem, sources: list[str]) -> dict[str, Any]:
    """Judge one candidate after the other; return the figures of what an evaluation took."""
    took: list[float] = []
    verdicts: list[Verdict] = []
    for source in sources:
        began = time.perf_counter()
        verdicts.append(evaluator.evaluate(problem, source))
        took.append(time.perf_counter() - began)
        if not verdicts[-1].correct:
            return {"status": verdicts[-1].status, "message": verdicts[-1].error_message}
    ordered = sorted(took)
    return {
        "of": len(took),
        "p50_s": round(statistics.median(took), 4),
        "p90_s": round(ordered[int(0.9 * (len(ordered) - 1))], 4),
        "seconds": {
            name: round(statistics.mean(getattr(verdict.seconds, name) for verdict in verdicts), 4) for name in PHASES
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="evaluations per figure (default 20)")
    parser.add_argument("--large", type=int, default=0, help="evaluations of the large problem (default none)")
    parser.add_argument("--sequential", action="store_true", help="sequential_timing: see docs/timing-design.md")
    parser.add_argument("--gpu", type=int, default=visible_gpu())
    parser.add_argument("--out", type=Path, default=HERE / "results" / "evaluation_latency.json")
    arguments = parser.parse_args()
    need_gpu()
    config = EvaluatorConfig(
        device="cuda", gpu=arguments.gpu, slots=1, trials=TRIALS, timed_trials=TIMED, timeout_s=60,
        sequential_timing=arguments.sequential,
    )  # fmt: skip
    result = describe(("torch", "triton")) | {"sequential_timing": arguments.sequential}
    small = problems()["relu"]
    relu = [source for name, source in candidates(8 * arguments.count + 32, 0) if name == "relu"]
    with Evaluator(config) as evaluator:
        judged(evaluator, small, relu[:3])
        result["compiled"] = judged(evaluator, small, [relu[0]] * arguments.count)
        result["new"] = judged(evaluator, small, relu[3 : 3 + arguments.count])
        write_result(arguments.out, result)
        if arguments.large:
            source = PROBLEM.format(reference="torch.relu(x)").replace("torch.randn(64, 1024)", LARGE)
            large = Problem.from_source(source, "relu of 6.4 GB")
            result["large_first"] = judged(evaluator, large, relu[:1])
            result["large"] = judged(evaluator, large, relu[1 : 1 + arguments.large])
            write_result(arguments.out, result)
    for name in ("compiled", "new", "large_first", "large"):
        print(name, result.get(name), flush=True)


if __name__ == "__main__":
    main()
