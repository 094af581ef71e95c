"""How contexts that start and end elsewhere on a GPU affect the evaluator's times.

Kernels of gpu_timing.py are judged repeatedly, first with an idle GPU, then beside a process that creates and destroys
contexts without a pause, as a pool of workers would if it did not wait for timings. Each figure is compared with the
kernel's median on the idle GPU.

    python benchmarks/disturbance.py
"""

import argparse
import ctypes
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final

from _machine import describe, need_gpu, write_result
from gpu_timing import cases

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.devices.cuda_nodes import environment_of

HERE = Path(__file__).parent
KERNELS: Final = ("add 2^20", "softmax 4096x2048", "add 2^24", "softmax 262144x2048", "amax 16x2^22")


def make_contexts(made: "Synchronized[int]") -> None:
    """Create a context in a separate process and destroy it, repeatedly, until this process is ended."""
    os.environ.update(environment_of(0))
    while True:
        child = os.fork()
        if not child:
            driver = ctypes.CDLL("libcuda.so.1")
            context = ctypes.c_void_p()
            failed = driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            os._exit(int(failed != 0))
        if os.waitpid(child, 0)[1]:
            sys.exit("no context can be created beside the evaluator's")
        made.value += 1


@contextmanager
def contexts_beside() -> Iterator["Synchronized[int]"]:
    """Count the contexts that are created during the block."""
    spawning = multiprocessing.get_context("spawn")
    made = spawning.Value("i", 0)
    process = spawning.Process(target=make_contexts, args=(made,), daemon=True)
    process.start()
    while made.value == 0:
        if not process.is_alive():
            sys.exit(1)
        time.sleep(0.1)
    try:
        yield made
    finally:
        process.kill()
        process.join()


def measure(evaluator: Evaluator, count: int) -> dict[str, list[float]]:
    """Return each kernel's time in milliseconds, by evaluation."""
    chosen = [(name, Problem(name, source), candidate) for name, source, candidate in cases() if name in KERNELS]
    found: dict[str, list[float]] = {name: [] for name, _, _ in chosen}
    for number in range(count):
        for name, problem, candidate in chosen:
            verdict = evaluator.evaluate(problem, f"{candidate}# {number}\n")
            if verdict.runtime_ms is None:
                raise SystemExit(f"{name} was not timed: {verdict}")
            found[name].append(verdict.runtime_ms)
    return found


def row(name: str, quiet: list[float], beside: list[float]) -> dict[str, Any]:
    usual = statistics.median(quiet)
    return {
        "kernel": name,
        "median_ms": usual,
        "quiet": {"least": min(quiet) / usual, "most": max(quiet) / usual},
        "beside": {
            "median": statistics.median(beside) / usual,
            "least": min(beside) / usual,
            "most": max(beside) / usual,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="evaluations of each kernel, with and without contexts")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "disturbance.json")
    arguments = parser.parse_args()
    need_gpu()
    result = describe(("torch", "triton", "warpsmith-evaluator"))
    with Evaluator(EvaluatorConfig(device="cuda", slots=1, ready_workers=2, timeout_s=60)) as evaluator:
        measure(evaluator, 1)
        quiet = measure(evaluator, arguments.count)
        with contexts_beside() as made:
            began, before = time.monotonic(), made.value
            beside = measure(evaluator, arguments.count)
            rate = (made.value - before) / (time.monotonic() - began)
    rows = [row(name, quiet[name], beside[name]) for name in quiet]
    for one in rows:
        print(one, flush=True)
    print(f"{rate:.1f} contexts a second beside")
    write_result(arguments.out, result | {"contexts_a_second": rate, "rows": rows})


if __name__ == "__main__":
    main()
