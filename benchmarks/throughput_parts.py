"""What concurrent evaluations wait for inside the judge: exclusive use of the device, start of workers, messages.

The candidates are those of throughput.py, judged in this process, whose judge is observed from outside. A part has
`times` (how often an evaluation reached it), `mean_ms`, and `ms`, the product:

- `device: alone`: the device held exclusively, for timing. The total time of all evaluations cannot be less than this.
- `device: wait, to have it alone`: until those who share it are done. `device: wait, to share it`: until a timing is
    done; for the start of a worker this is `birth: wait, to share the device`.
- `device: shared`, `device: driver`: the device held with others, and what the driver did alone for a worker; without
    `--driver-beside` nobody is alone meanwhile.
- `birth ROLE`: start of a worker, beside evaluations; a `candidate` with a context, sharing the device.
- `ROLE MESSAGE`: from a message to a worker to its answer; for a round with its mode and its number of calls.

Parts overlap: they are of concurrent threads, and the device is held while messages are in flight.

    python benchmarks/throughput_parts.py --device cuda --slots 1 3 6
"""

import argparse
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from _machine import describe, write_result
from throughput import ACTIVATIONS, TIMED, TRIALS, candidates, problems

from warpsmith.evaluator import EvaluatorConfig, Verdict
from warpsmith.evaluator.devices.cuda_nodes import environment_of
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.processes.lease import Lease
from warpsmith.evaluator.processes.phases import PHASES
from warpsmith.evaluator.processes.worker import Worker
from warpsmith.evaluator.processes.zygote_handle import ZygoteHandle

HERE = Path(__file__).parent
DEADLINE_S: Final = 60.0
EVALUATION: Final = "evaluation"


class Spent:
    """Seconds by use, added by concurrent threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, part: str, seconds: float) -> None:
        with self._lock:
            self._spent[part].append(seconds)

    def clear(self) -> None:
        with self._lock:
            self._spent.clear()

    def by_evaluation(self, evaluations: int) -> dict[str, dict[str, float]]:
        """Return each part's figures per evaluation, the longest first."""
        with self._lock:
            found = {
                part: {
                    "times": round(len(each) / evaluations, 2),
                    "mean_ms": round(1000 * sum(each) / len(each), 3),
                    "ms": round(1000 * sum(each) / evaluations, 2),
                }
                for part, each in self._spent.items()
            }
        return dict(sorted(found.items(), key=lambda item: -item[1]["ms"]))


def watch(spent: Spent) -> None:
    """Make the judges of this process report their waits to `spent`."""
    _watch_lease(spent)
    _watch_messages(spent)
    fork = ZygoteHandle.fork

    def timed_fork(self: ZygoteHandle, role: Any, number: int, *rest: Any) -> Worker:
        with _timed(spent, f"birth {role}"):
            return fork(self, role, number, *rest)

    ZygoteHandle.fork = timed_fork  # type: ignore[method-assign]


def _watch_lease(spent: Spent) -> None:
    alone, share, start, drive = Lease.alone, Lease._begin_sharing, Lease._begin_starting, Lease._begin_driving

    @contextmanager
    def timed_alone(self: Lease) -> Iterator[None]:
        began = time.perf_counter()
        with alone(self):
            spent.add("device: wait, to have it alone", time.perf_counter() - began)
            with _timed(spent, "device: alone"):
                yield

    def timed_share(self: Lease) -> None:
        evaluates = threading.current_thread().name.startswith(EVALUATION)
        with _timed(spent, "device: wait, to share it" if evaluates else "birth: wait, to share the device"):
            share(self)

    def timed_start(self: Lease) -> None:
        with _timed(spent, "birth: wait, to share the device"):
            start(self)

    def timed_drive(self: Lease) -> None:
        with _timed(spent, "device: wait, for the driver"):
            drive(self)

    Lease._begin_driving = timed_drive  # type: ignore[method-assign]
    Lease.alone = timed_alone  # type: ignore[method-assign]
    Lease._begin_sharing = timed_share  # type: ignore[method-assign]
    Lease._begin_starting = timed_start  # type: ignore[method-assign]


def _watch_messages(spent: Spent) -> None:
    send, receive = Worker.send, Worker.receive
    asked: dict[Worker, tuple[str, float]] = {}

    def noted_send(self: Worker, kind: Any, fields: dict[str, Any], *rest: Any, **named: Any) -> None:
        asked[self] = (f"{self.role} {_name_of(kind.name, fields)}", time.perf_counter())
        send(self, kind, fields, *rest, **named)

    def noted_receive(self: Worker, *rest: Any, **named: Any) -> Any:
        message = receive(self, *rest, **named)
        if self in asked:
            name, began = asked.pop(self)
            spent.add(name, time.perf_counter() - began)
        return message

    Worker.send, Worker.receive = noted_send, noted_receive  # type: ignore[method-assign]


def _name_of(kind: str, fields: dict[str, Any]) -> str:
    if kind != "ROUND":
        return kind
    count = len(fields["order"]) if fields["mode"] == "call" else fields["count"]
    # The length of a long round depends on the kernel.
    return f"{kind} {fields['mode']} {count if count <= 25 else 'long'}"


@contextmanager
def _timed(spent: Spent, part: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        spent.add(part, time.perf_counter() - began)


def measure(config: EvaluatorConfig, count: int, spent: Spent) -> dict[str, Any]:
    """Judge `count` candidates, one running per slot; return where their time went."""
    judge = Judge(config)
    try:
        judge.machine.prepare()
        judge.machine.await_first_workers()
        known = problems()

        def judged(job: tuple[str, str]) -> Verdict:
            return judge.evaluate(known[job[0]], job[1], trials=TRIALS, seed=None, timeout_s=DEADLINE_S)

        with ThreadPoolExecutor(config.slots, EVALUATION) as threads:
            warm = 2 * len(ACTIVATIONS)
            jobs = candidates(warm + count, 0)
            list(threads.map(judged, jobs[:warm]))
            spent.clear()
            began, processor = time.perf_counter(), time.process_time()
            verdicts = list(threads.map(judged, jobs[warm:]))
            took, processor = time.perf_counter() - began, time.process_time() - processor
        for use in ("shared", "driver"):
            for verdict in verdicts:
                spent.add(f"device: {use}", getattr(verdict.seconds, use))
        parts = spent.by_evaluation(count)
    finally:
        judge.close()
    wrong = [verdict for verdict in verdicts if not verdict.correct]
    if wrong:
        raise SystemExit(f"{len(wrong)} of {count} honest candidates were rejected: {wrong[0]}")
    return {
        "device": verdicts[0].device,
        "slots": config.slots,
        "evaluations": count,
        "a_minute": round(60 * count / took, 1),
        "judge_processor_ms": round(1000 * processor / count, 1),
        "evaluate_ms": round(1000 * sum(verdict.seconds.evaluate for verdict in verdicts) / count, 1),
        "phases_ms": {
            name: round(1000 * sum(getattr(verdict.seconds, name) for verdict in verdicts) / count, 1)
            for name in PHASES
        },
        "parts": parts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 3], help="evaluations at once; several are rows")
    parser.add_argument("--count", type=int, default=40, help="evaluations per row (default 40)")
    parser.add_argument(
        "--switch-ms", type=float, nargs="+", default=[1000 * sys.getswitchinterval()],
        help="thread switch interval of Python in milliseconds; several are rows",
    )  # fmt: skip
    parser.add_argument("--driver-beside", action="store_true", help="driver_beside_timing: see docs/timing-design.md")
    parser.add_argument("--out", type=Path, help="default: results/throughput_parts_DEVICE.json")
    arguments = parser.parse_args()
    out = arguments.out or HERE / "results" / f"throughput_parts_{arguments.device}.json"
    # As in a judge's own process: one thread for torch, and no other GPU visible before the driver starts.
    torch.set_num_threads(1)
    if arguments.device == "cuda":
        os.environ.update(environment_of(arguments.gpu))
    spent = Spent()
    watch(spent)
    result = describe(["torch", "triton", "numpy"]) | {"rows": []}
    for slots in arguments.slots:
        config = EvaluatorConfig(
            device=arguments.device,
            gpu=arguments.gpu,
            slots=slots,
            trials=TRIALS,
            timed_trials=TIMED,
            driver_beside_timing=arguments.driver_beside,
        )
        for switch_ms in arguments.switch_ms:
            sys.setswitchinterval(switch_ms / 1000)
            row = {"switch_ms": switch_ms} | measure(config, arguments.count, spent)
            result["rows"].append(row)
            print(f"{slots} slots, switch after {switch_ms:g} ms: {row['a_minute']:g} a minute", flush=True)
            for part, figures in row["parts"].items():
                print(f"  {part:40} {figures['times']:7.2f} x {figures['mean_ms']:9.3f} ms = {figures['ms']:8.2f} ms")
            write_result(out, result)
    print(f"written to {out}")


if __name__ == "__main__":
    main()
