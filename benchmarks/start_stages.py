"""What each stage of a process's start on a GPU takes, and what it does to kernels that run there meanwhile.

Processes are forked from one that has imported torch, as workers are, and go through the stages of a start together:
`driver` (`cuInit`, and what torch keeps about devices), `context`, `first` (torch's first kernel), `end`. Between two
stages all wait. Meanwhile another process replays graphs of kernels of several lengths one after another and notes
when each replay began and how long it took on the device. `apart` has the times of the replays that overlapped a
stage, over the median of those that overlapped none. `context_after_driver` tells whether the first stage made one.

    python benchmarks/start_stages.py
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, TextIO

import torch
from _machine import describe, need_gpu, visible_gpu, write_result

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.cuda_nodes import environment_of

HERE = Path(__file__).parent
STAGES: Final = ("driver", "context", "first", "end")
PAUSE_S: Final = 0.15
SIZES: Final = {"4 us": 20, "50 us": 24, "1 ms": 28, "4 ms": 30}
"""Powers of two of the elements that a replayed kernel copies, by about how long that takes."""


def replay(seconds: float, out: Path) -> None:
    """Replay graphs of the kernels in turns, without a pause; write each one's name, begin, end and time in ms."""
    graphs = {}
    for name, power in SIZES.items():
        source = torch.ones(2**power, dtype=torch.float32, device="cuda")
        target, graph, calls = torch.empty_like(source), torch.cuda.CUDAGraph(), 1 << (28 - min(power, 28))
        torch.neg(source, out=target)
        with torch.cuda.graph(graph):
            for _ in range(calls):
                torch.neg(source, out=target)
        graphs[name] = graph, calls, source, target
    found = []
    until = time.monotonic() + seconds
    print("ready", flush=True)
    while time.monotonic() < until:
        for name, (graph, calls, _, _) in graphs.items():
            one, other = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began = time.monotonic()
            one.record()
            graph.replay()
            other.record()
            torch.cuda.synchronize()
            found.append((name, began, time.monotonic(), one.elapsed_time(other) / calls))
    out.write_text(json.dumps(found))


def stage(name: str) -> bool:
    """Go through one stage of a start; return whether there is a context."""
    if name == "driver":
        torch.cuda.is_available()
        torch.cuda.init()
    elif name == "context":
        _native.Device.open(0)
    elif name == "first":
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    flags, active = ctypes.c_uint(), ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    return bool(active.value)


def child(commands: int, answers: int) -> None:
    """Go through the stages, each on command; runs in a fork."""
    for name in STAGES[:-1]:
        os.read(commands, 1)
        began = time.monotonic()
        active = stage(name)
        os.write(answers, json.dumps([name, began, time.monotonic(), active]).encode() + b"\n")
    os.read(commands, 1)
    os._exit(0)


Span = tuple[str, float, float, bool]
"""A stage of one process: its name, begin, end, and whether there was a context at the end."""


def start_together(count: int) -> list[Span]:
    """Start processes together, stage by stage; return the stages of each."""
    children: list[tuple[int, int, TextIO]] = []
    spans: list[Span] = []
    for _ in range(count):
        (commands, tell), (listening, answers) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            child(commands, answers)
        children.append((pid, tell, os.fdopen(listening)))
    for name in STAGES:
        time.sleep(PAUSE_S)
        began = time.monotonic()
        for _, tell, _ in children:
            os.write(tell, b"x")
        for pid, _, listen in children:
            if name == "end":
                os.waitpid(pid, 0)
                spans.append((name, began, time.monotonic(), False))
            else:
                spans.append(tuple(json.loads(listen.readline())))
    return spans


def measured(at_once: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the figures of starts of so many processes at once, and of the kernels beside them."""
    out = folder / "replays.json"
    command = [sys.executable, __file__, "--replay", str(rounds * len(STAGES) * (PAUSE_S + 0.25)), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        spans = [span for _ in range(rounds) for span in start_together(at_once)]
        process.wait()
    replays = json.loads(out.read_text())
    took = {name: [1000 * (last - first) for stage, first, last, _ in spans if stage == name] for name in STAGES}
    return {
        "at_once": at_once,
        "stage_ms": {name: round(statistics.median(each), 2) for name, each in took.items()},
        "context_after_driver": any(active for name, _, _, active in spans if name == "driver"),
        "kernels": {name: apart([one[1:] for one in replays if one[0] == name], spans) for name in SIZES},
    }


def apart(replays: list[tuple[float, float, float]], spans: list[Span]) -> dict[str, Any]:
    """Return how long one kernel's replays took beside each stage, over those beside none."""
    beside: dict[str, list[float]] = {name: [] for name in ("quiet", *STAGES)}
    for began, ended, ms in replays:
        names = {name for name, first, last, _ in spans if first < ended and began < last}
        for name in names or {"quiet"}:
            beside[name].append(ms)
    usual = statistics.median(beside["quiet"])
    shares = {name: sorted(ms / usual for ms in each) for name, each in beside.items() if each}
    return {"usual_ms": usual} | {
        name: {
            "replays": len(each),
            "median": round(statistics.median(each), 4),
            "p90": round(each[int(0.9 * (len(each) - 1))], 4),
            "least": round(each[0], 4),
            "most": round(each[-1], 4),
        }
        for name, each in shares.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="starts of each number of processes (default 8)")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4, 8], help="processes that start together")
    parser.add_argument("--gpu", type=int, default=visible_gpu())
    parser.add_argument("--replay", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "start_stages.json")
    arguments = parser.parse_args()
    if arguments.replay:
        replay(arguments.replay, arguments.out)
        return
    need_gpu()
    os.environ.update(environment_of(arguments.gpu))
    torch.set_num_threads(1)
    result = describe(("torch",)) | {"rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for at_once in arguments.at_once:
            result["rows"].append(measured(at_once, arguments.rounds, Path(folder)))
            print(result["rows"][-1], flush=True)
            write_result(arguments.out, result)


if __name__ == "__main__":
    main()
