"""The cost of an evaluation on a CPU: start, ready workers, latency, throughput, and CPU time.

A small elementwise candidate (5 trials, 4,181 float32 elements) is judged with every guard on. `compiled anew` gives
each candidate another comment, so that its kernel is compiled for sm_90 every time; `compilation known` repeats one
source. CPU seconds are those of the judge, its zygotes and all their workers, from the kernel's accounting, which
other load hardly affects.

    python benchmarks/evaluator_cpu.py
"""

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _machine import describe, write_result

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.processes.machine import Machine

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "attacks"
TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[list[str]]:
    """The stat fields (from field 3 on) of a process and all that descend from it and live."""
    fields: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            fields[int(entry.name)] = found
            children.setdefault(int(found[1]), []).append(int(entry.name))
    below = [pid]
    for one in below:
        below += children.get(one, [])
    return [fields[one] for one in below if one in fields]


def cpu_seconds(judge: int) -> float:
    """CPU time of the judge, its zygotes and their workers, those that have ended included, in seconds.

    A reference's worker lives on from one evaluation to the next, and does a third of the work.
    """
    return sum(sum(map(int, fields[11:15])) for fields in family(judge)) / TICKS


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": round(1e3 * statistics.median(ordered), 2),
        "p90_ms": round(1e3 * ordered[int(0.9 * (len(ordered) - 1))], 2),
        "of": len(ordered),
    }


def ready_workers(config: EvaluatorConfig, count: int) -> dict[str, Any]:
    """Seconds to take a ready worker from the pool, and to create one."""
    machine = Machine(config)
    try:
        machine.await_first_workers()
        taken, made = [], []
        for number in range(count):
            began = time.perf_counter()
            worker = machine.take("candidate", 30)
            taken.append(time.perf_counter() - began)
            worker.close()
            began = time.perf_counter()
            fresh = machine._zygotes["interpreting"].fork("candidate", (1 << 40) + number)
            made.append(time.perf_counter() - began)
            fresh.close()
        return {"taken_from_the_pool": quantiles(taken), "forked_and_contained": quantiles(made)}
    finally:
        machine.close()


def sources(candidate: str, known: bool, count: int) -> list[str]:
    return [candidate if known else f"{candidate}\n# {time.time_ns()} {number}\n" for number in range(count)]


def latency(evaluator: Evaluator, problem: Problem, candidates: list[str]) -> dict[str, Any]:
    took = []
    judge = evaluator._running_judge().process.pid
    before = cpu_seconds(judge)
    for source in candidates:
        began = time.perf_counter()
        verdict = evaluator.evaluate(problem, source)
        took.append(time.perf_counter() - began)
        if verdict.status != "correct":
            raise SystemExit(f"an honest candidate was {verdict.status}: {verdict.error_message}")
    return quantiles(took) | {"cpu_ms": round(1e3 * (cpu_seconds(judge) - before) / len(candidates), 1)}


def throughput(evaluator: Evaluator, problem: Problem, candidates: list[str], at_once: int) -> float:
    with ThreadPoolExecutor(at_once) as threads:
        began = time.perf_counter()
        verdicts = list(threads.map(lambda source: evaluator.evaluate(problem, source), candidates))
        took = time.perf_counter() - began
    if {verdict.status for verdict in verdicts} != {"correct"}:
        raise SystemExit("an honest candidate was not correct")
    return round(len(candidates) / took, 2)


def measure(count: int) -> dict[str, Any]:
    problem = Problem.from_file(CORPUS / "problems" / "add.py")
    candidate = (CORPUS / "controls" / "elementwise.py").read_text(encoding="utf-8")
    config = EvaluatorConfig()
    began = time.perf_counter()
    with Evaluator(config) as evaluator:
        result: dict[str, Any] = {"slots": config.slots, "start_s": round(time.perf_counter() - began, 2)}
        evaluator.evaluate(problem, candidate)
        for name, known in (("compiled anew", False), ("compilation known", True)):
            result[name] = latency(evaluator, problem, sources(candidate, known, count))
            rate = throughput(evaluator, problem, sources(candidate, known, 2 * count), 4 * config.slots)
            result[name]["evaluations_per_s"] = rate
            print(name, result[name], flush=True)
    result["workers"] = ready_workers(config, count)
    print(result["workers"], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="evaluations per figure (default 40)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "evaluator_cpu.json")
    arguments = parser.parse_args()
    result = describe(["torch", "triton", "numpy"]) | {"figures": measure(arguments.count)}
    result["load_1min_at_end"] = os.getloadavg()[0]
    write_result(arguments.out, result)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
