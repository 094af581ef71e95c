"""How far repeated evaluations of an honest kernel differ in its time, with each way of timing.

Kernels of gpu_timing.py, from 1 us to a millisecond, are judged in turns in each way: `default`, `sequential`
(`sequential_timing`), `beside` (`contexts_beside_timing`), `both`, `driver` (`driver_beside_timing`) and `all`. Each
evaluation has a text of its own, so that its kernel is compiled, and a process of its own plays it. A pair is two
evaluations in a row of one kernel in one way.

    python benchmarks/repeated_times.py --slots 1
"""

import argparse
import itertools
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from _machine import describe, need_gpu, visible_gpu, write_result
from gpu_timing import cases

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, Verdict

HERE = Path(__file__).parent
KERNELS: Final = (
    "add 2^16", "softmax 4096x2048", "add 2^22", "add 2^24", "softmax 32768x2048", "add 2^26", "softmax 262144x2048",
)  # fmt: skip
WAYS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "sequential": {"sequential_timing": True},
    "beside": {"contexts_beside_timing": True},
    "both": {"sequential_timing": True, "contexts_beside_timing": True},
    "driver": {"driver_beside_timing": True},
    "all": {"sequential_timing": True, "contexts_beside_timing": True, "driver_beside_timing": True},
}


def summary(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return the figures of one kernel's evaluations in one way."""
    times = [verdict.runtime_ms or 0.0 for verdict in verdicts]
    speedups = [verdict.speedup or 0.0 for verdict in verdicts]
    apart = [abs(one / other - 1) for one, other in itertools.pairwise(times)]
    return {
        "tier": sorted({str(verdict.timing_tier) for verdict in verdicts}),
        "median_ms": statistics.median(times),
        "pairs": len(apart),
        "pairs_within_1_percent": sum(each <= 0.01 for each in apart),
        "median_difference": statistics.median(apart),
        "most_difference": max(apart),
        "speedup": statistics.median(speedups),
        "speedup_spread": max(speedups) / min(speedups) - 1,
        "timing_s": statistics.median(verdict.seconds.timing for verdict in verdicts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=6, help="evaluations of each kernel in each way (default 6)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--slots", type=int, default=1, help="evaluations at once (default 1)")
    parser.add_argument("--gpu", type=int, default=visible_gpu())
    parser.add_argument("--seconds", type=float, default=600.0, help="ends after the round in which this has passed")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "repeated_times.json")
    arguments = parser.parse_args()
    need_gpu()
    began = time.monotonic()
    chosen = [(name, Problem(name, source), candidate) for name, source, candidate in cases() if name in KERNELS]
    result = describe(("torch", "triton")) | {"slots": arguments.slots}
    found: dict[tuple[str, str], list[Verdict]] = {}
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(arguments.slots))
        config = EvaluatorConfig(device="cuda", gpu=arguments.gpu, slots=arguments.slots, timeout_s=60)
        judges = {way: stack.enter_context(Evaluator(config.model_copy(update=WAYS[way]))) for way in arguments.ways}
        for number, way in itertools.product(range(-1, arguments.count), arguments.ways):
            jobs = [(problem, f"{candidate}# {way} {number}\n") for _, problem, candidate in chosen]
            verdicts = list(threads.map(lambda job, way=way: judges[way].evaluate(*job), jobs))
            for (name, _, _), verdict in zip(chosen, verdicts, strict=True):
                if verdict.runtime_ms is None:
                    raise SystemExit(f"{name} was not timed: {verdict}")
                # The first round makes every problem known.
                if number >= 0:
                    found.setdefault((name, way), []).append(verdict)
            many = {key: each for key, each in found.items() if len(each) > 1}
            result["rows"] = [{"kernel": name, "way": way} | summary(each) for (name, way), each in many.items()]
            write_result(arguments.out, result)
            if time.monotonic() - began > arguments.seconds:
                break
    for row in result["rows"]:
        print(row, flush=True)


if __name__ == "__main__":
    main()
