"""Evaluations per minute of one judge, or of one per GPU, with small shapes, and where their time goes.

Candidates are plain elementwise Triton kernels for eight activations of 64 x 1,024 elements. Each has another text with
another block or number of warps, so that every kernel is compiled; none is judged twice. All guards are on: 5 trials
and, on a GPU, 100 timed calls. Each problem was judged once before, so that it is audited and its reference warm. A
slot's time is `workers` (waiting for a ready worker, contexts included), `lease` (waiting for others to leave the
device), `stall` (waiting for kernels to compile), `correctness`, `timing`, `other` (the judge's own work) and `idle`
(no requests).

`device_ms` has the milliseconds of a mean evaluation by its use of the device: alone, shared, and what the driver does
alone, each with the wait for it, and without the device. `alone_share` is the share of the run in which one had it
alone.

`--answers mixture` judges a third each that does not compile, that is wrong, and that is right, as a policy's may be.
`--judges` divides the slots among several judge processes of one GPU, which take turns at having it alone.

    python benchmarks/throughput.py                   # on a CPU: interpreted, compiled, not timed
    python benchmarks/throughput.py --device cuda
"""

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from _machine import describe, write_result
from _plot import bars

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, Verdict
from warpsmith.evaluator.config import RECORDING_WAYS
from warpsmith.evaluator.processes.lease import USES
from warpsmith.evaluator.processes.phases import PHASES

HERE = Path(__file__).parent
TRIALS: Final = 5
TIMED: Final = 100
GOAL_A_MINUTE: Final = 600
"""On one H200 with 16 cores."""

ACTIVATIONS: Final = {
    "relu": ("torch.relu(x)", "tl.maximum(x, 0.0)"),
    "sigmoid": ("torch.sigmoid(x)", "1.0 / (1.0 + tl.exp(-x))"),
    "silu": ("x * torch.sigmoid(x)", "x / (1.0 + tl.exp(-x))"),
    "softsign": ("x / (1 + torch.abs(x))", "x / (1.0 + tl.abs(x))"),
    "hardtanh": ("torch.clamp(x, -1, 1)", "tl.minimum(tl.maximum(x, -1.0), 1.0)"),
    "square": ("x * x + 1", "x * x + 1.0"),
    "leaky_relu": ("torch.where(x > 0, x, 0.01 * x)", "tl.where(x > 0, x, 0.01 * x)"),
    "scale": ("3 * x - 0.5", "3.0 * x - 0.5"),
}
PROBLEM: Final = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {reference}


def get_inputs():
    return [torch.randn(64, 1024)]
"""
CANDIDATE: Final = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def {name}_kernel_{number}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, {expression}, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), {block}),)
        {name}_kernel_{number}[grid](x, out, x.numel(), BLOCK={block}, num_warps={warps})
        return out
"""
BLOCKS: Final = (1024, 2048, 4096)
WARPS: Final = (2, 4, 8)


def problems() -> dict[str, Problem]:
    return {
        name: Problem.from_source(PROBLEM.format(reference=reference), name)
        for name, (reference, _) in ACTIVATIONS.items()
    }


SPOILED: Final = {"compile_error": "({}).undefined", "incorrect": "({}) + 0.01", "correct": "{}"}
"""How an expression is changed for each status of a mixture."""
HONEST: Final = ("correct",)
ANSWERS: Final = {"honest": HONEST, "mixture": tuple(SPOILED)}


def candidates(count: int, first: int, statuses: Sequence[str] = HONEST) -> list[tuple[str, str]]:
    """Return `count` candidates, each with its problem's name; all texts differ, and their statuses take turns."""
    ways = itertools.cycle(itertools.product(BLOCKS, WARPS, ACTIVATIONS))
    made = []
    for number, (block, warps, name), status in zip(
        range(first, first + count), ways, itertools.cycle(statuses), strict=False
    ):
        expression = SPOILED[status].format(ACTIVATIONS[name][1])
        source = CANDIDATE.format(name=name, number=number, expression=expression, block=block, warps=warps)
        made.append((name, source))
    return made


def judged(
    evaluator: Evaluator, asked: list[tuple[str, str]], at_once: int, statuses: Sequence[str] = HONEST
) -> list[Verdict]:
    """Judge all, with `at_once` running at any time."""
    known = problems()
    with ThreadPoolExecutor(at_once) as threads:
        verdicts = list(threads.map(lambda one: evaluator.evaluate(known[one[0]], one[1]), asked))
    due = zip(verdicts, itertools.cycle(statuses), strict=False)
    others = [verdict for verdict, status in due if verdict.status != status]
    if others:
        raise SystemExit(f"{len(others)} of {len(verdicts)} have another status than they should: {others[0]}")
    return verdicts


def seconds_of_slots(verdicts: list[Verdict], slots: int, took: float) -> dict[str, float]:
    """Return the seconds of all slots together, by use."""
    spent = {name: sum(getattr(verdict.seconds, name) for verdict in verdicts) for name in PHASES}
    busy = sum(verdict.seconds.evaluate for verdict in verdicts)
    return {**spent, "other": busy - sum(spent.values()), "idle": max(0.0, slots * took - busy)}


def device_ms(verdicts: list[Verdict]) -> dict[str, float]:
    """Return the milliseconds of a mean evaluation by its use of the device; all sum up to the evaluation."""
    count = len(verdicts)
    by_use = {
        use: 1000 * sum(getattr(verdict.seconds, use) for verdict in verdicts) / count
        for use in USES
        if use != "without"
    }
    whole = 1000 * sum(verdict.seconds.evaluate for verdict in verdicts) / count
    return by_use | {"without": whole - sum(by_use.values())}


def measure(configs: list[EvaluatorConfig], count: int, answers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Judge `count` candidates of each kind with each of these evaluators, all at once; yield their joint figures."""
    with ExitStack() as stack, ThreadPoolExecutor(len(configs)) as threads:
        evaluators = list(threads.map(lambda config: stack.enter_context(Evaluator(config)), configs))
        judged_before = 0

        def each(count: int, queued: int, statuses: Sequence[str] = HONEST) -> list[Verdict]:
            """Let every evaluator judge others, with `queued` running for each of its slots."""
            nonlocal judged_before
            jobs = [candidates(count, judged_before + index * count, statuses) for index in range(len(configs))]
            judged_before += count * len(configs)
            at_once = [queued * config.slots for config in configs]
            every = [statuses] * len(configs)
            return [verdict for found in threads.map(judged, evaluators, jobs, at_once, every) for verdict in found]

        # Once a problem, then as often as it can be judged at once, so that its references are warm.
        each(len(ACTIVATIONS), queued=1)
        each(max(len(ACTIVATIONS), *(2 * config.slots for config in configs)), queued=1)
        for kind in answers:
            print(f"judging {count * len(configs)} with {len(configs)} judges", flush=True)
            began = time.perf_counter()
            verdicts = each(count, queued=2, statuses=ANSWERS[kind])
            took = time.perf_counter() - began
            yield {"answers": kind} | figures(configs, verdicts, took)


def figures(configs: list[EvaluatorConfig], verdicts: list[Verdict], took: float) -> dict[str, Any]:
    """Return the joint figures of evaluations that took so many seconds together."""
    slots = sum(config.slots for config in configs)
    devices = len({config.gpu for config in configs})
    lasted = sorted(verdict.seconds.evaluate for verdict in verdicts)
    spent = seconds_of_slots(verdicts, slots, took)
    return {
        "device": verdicts[0].device,
        "devices": devices,
        "judges": len(configs),
        "slots": slots,
        "evaluations": len(verdicts),
        "trials": TRIALS,
        "timed_trials": TIMED if any(verdict.timing_tier != "none" for verdict in verdicts) else 0,
        "seconds": round(took, 2),
        "a_minute": round(60 * len(verdicts) / took, 1),
        "evaluation_p50_s": round(statistics.median(lasted), 4),
        "evaluation_p90_s": round(lasted[int(0.9 * (len(lasted) - 1))], 4),
        "compile_mean_s": round(statistics.mean(verdict.seconds.compile for verdict in verdicts), 4),
        "device_ms": {use: round(value, 2) for use, value in device_ms(verdicts).items()},
        "alone_share": round(sum(verdict.seconds.alone for verdict in verdicts) / took / devices, 3),
        "slot_seconds": {name: round(value, 3) for name, value in spent.items()},
        "flags": sorted({flag for verdict in verdicts for flag in verdict.flags}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--gpus", type=int, nargs="+", default=[0], help="with --device cuda; several: the first, then all"
    )
    parser.add_argument("--slots", type=int, nargs="+", help="evaluations at once; several numbers are several rows")
    parser.add_argument("--recording", choices=RECORDING_WAYS, default="detached", help="how host code is recorded")
    parser.add_argument("--judges", type=int, nargs="+", default=[1], help="judge processes of a GPU; several are rows")
    parser.add_argument("--answers", choices=ANSWERS, nargs="+", default=["honest"], help="several are rows")
    parser.add_argument("--sequential", action="store_true", help="sequential_timing: see docs/timing-design.md")
    parser.add_argument("--beside", action="store_true", help="contexts_beside_timing: see docs/timing-design.md")
    parser.add_argument("--driver-beside", action="store_true", help="driver_beside_timing: see docs/timing-design.md")
    parser.add_argument("--count", type=int, default=200, help="evaluations per row (default 200)")
    parser.add_argument("--out", type=Path, help="default: results/throughput_DEVICE.json, with a picture next to it")
    arguments = parser.parse_args()
    out = arguments.out or HERE / "results" / f"throughput_{arguments.device}.json"
    result = describe(["torch", "triton", "numpy"])
    result |= {"recording": arguments.recording, "sequential_timing": arguments.sequential}
    result |= {"contexts_beside_timing": arguments.beside, "driver_beside_timing": arguments.driver_beside, "rows": []}
    groups = [arguments.gpus[:1], arguments.gpus][: len(arguments.gpus)]
    every = itertools.product(arguments.slots or [len(os.sched_getaffinity(0))], arguments.judges, groups)
    for slots, judges, gpus in every:
        config = EvaluatorConfig(
            device=arguments.device,
            slots=max(1, slots // judges),
            trials=TRIALS,
            timed_trials=TIMED,
            recording=arguments.recording,
            sequential_timing=arguments.sequential,
            contexts_beside_timing=arguments.beside,
            driver_beside_timing=arguments.driver_beside,
        )
        configs = [config.model_copy(update={"gpu": gpu}) for gpu in gpus for _ in range(judges)]
        for row in measure(configs, arguments.count // judges, arguments.answers):
            result["rows"].append(row)
            print(row, flush=True)
            write_result(out, result)
    result["goal_a_minute_on_an_h200_with_16_cores"] = GOAL_A_MINUTE
    result["load_1min_at_end"] = os.getloadavg()[0]
    write_result(out, result)
    rows = [
        (
            f"{row['devices']} x {row['slots'] // row['devices']} slots: {row['a_minute']:g} a minute",
            row["slot_seconds"],
        )
        for row in result["rows"]
    ]
    bars(out.with_suffix(".svg"), rows, title=f"Where the time of a slot goes ({result['rows'][0]['device']})")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
