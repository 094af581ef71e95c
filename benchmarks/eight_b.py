"""A GRPO run of a large policy with random weights, end to end: where time and memory go, against the plan.

    python benchmarks/_random_policy.py --tokenizer models/smollm2-135m models/random-qwen3-8b
    python benchmarks/eight_b.py configs/qwen3-8b-four-gpus.toml --policy models/random-qwen3-8b --run runs/eight-b

Starts `warpsmith-trainer grpo` with the file's placement and training, completions of 2,048 tokens, generated problems
of GPU size, and the environment `recorded_answers` (see `_eight_b/recorded_answers.py`), so that the evaluator judges
answers of known quality at the rate of the policy's turns. After `--steps` steps, or `--seconds`, it ends the run, so
that no checkpoint is written, and reports every step that was recorded: the phases, tokens a second, MFU of training,
evaluations a minute, and the most memory of every GPU beside what `warpsmith-trainer plan` says.

MFU: 6 FLOPs per weight and trained token and 6 T^2 per layer and channel (causal attention), over `train_s` and the
dense bf16 peak of the training GPUs. `train_s` includes two more forward passes, of the policy before the update and of
the reference policy; `mfu_all_passes` counts them too, at a third of that each.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow as pa
from _kills import Kills
from _kills import parse as parse_kill
from _machine import describe, skip, write_result

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.reader import RunReader
from warpsmith.records.timeline import PHASES_FILE
from warpsmith.trainer.config import TrainerConfig, load_any
from warpsmith.trainer.planning.build import MemoryPlan, plan
from warpsmith.trainer.planning.machines import Machine, this_machine
from warpsmith.trainer.planning.shapes import ModelShape, shape_of

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
GIB: Final = 1 << 30
PEAK_BF16_FLOPS: Final = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense, from the vendors' data sheets; the key is a part of the device's name."""
CHANGES: Final = (
    "run.console=steps",
    "problems={type = 'generated', count = 256, levels = [1, 2], size = 'gpu'}",
    "rollout.environment={type = 'recorded_answers'}",
    "rollout.sampling.max_tokens=2048",
    "rollout.sampler.max_model_len=8192",
    "rollout.sampler.max_sequences=16",
    "zero.micro_batch_tokens=8192",
    "checkpoint.every=0",
    "checkpoint.keep=1",
    "checkpoint.export_final=false",
    "wandb.mode=disabled",
)
"""What the run changes in the file, beside policy and directory."""
_STOP_S: Final = 25.0


# Running --------------------------------------------------------------------------------------------------------------


class Memory:
    """The most memory of every GPU and of the host while it runs, as the driver and the kernel show them."""

    def __init__(self) -> None:
        self.gpus: dict[int, int] = {}
        self.host_at_start = _host_used()
        self.host = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        handles, nvml = _nvml()
        while not self._stop.wait(0.5):
            self.host = max(self.host, _host_used() - self.host_at_start)
            for number, handle in enumerate(handles):
                used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
                self.gpus[number] = max(self.gpus.get(number, 0), used)


def _host_used() -> int:
    """Return the host's memory that is not available, /dev/shm included, which `used` leaves out."""
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _nvml() -> tuple[list[Any], Any]:
    """Return a handle for each GPU, and the library; none without driver or library."""
    try:
        import pynvml
    except ImportError:
        return [], None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return [], None
    return [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())], pynvml


def changes(given: argparse.Namespace) -> list[str]:
    """Return the changes of the file, each as `table.key=value`; those of the command line last."""
    # The run is ended here, so that it writes no last checkpoint.
    steps = max([given.steps, *(kill.step + 1 for kill in given.kill)])
    own = [f"run.dir={given.run}", f"run.steps={steps + 1}", f"policy.path={given.policy}"]
    return [*CHANGES, *own, *given.set]


def run(given: argparse.Namespace, logs: Path) -> dict[str, Any]:
    """Start the run and end it once it has the steps, or its time is up; return how it ended, and what was killed."""
    arguments = [part for change in changes(given) for part in ("--set", change)]
    command = [sys.executable, "-m", "warpsmith.trainer", "grpo", str(given.config), *arguments]
    with (logs / "console.log").open("wb") as console:
        process = subprocess.Popen(command, stdout=console, stderr=subprocess.STDOUT, env=_environment(logs))
        kills = Kills(given.kill)
        try:
            ended = _await(process, given, kills)
        finally:
            _end(process)
    return {"ended": ended, "kills": [kill.report() for kill in given.kill]}


def _environment(logs: Path) -> dict[str, str]:
    parts = [str(HERE / "_eight_b"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(parts), "EIGHT_B_MEMORY": str(logs)}


def _await(process: "subprocess.Popen[bytes]", given: argparse.Namespace, kills: Kills) -> str:
    began, seen = time.monotonic(), 0
    while process.poll() is None:
        time.sleep(1.0)
        done = len(steps_of(given.run))
        if done > seen:
            seen = done
            print(f"step {done} recorded after {time.monotonic() - began:.0f} s", flush=True)
        kills.after(done)
        if done >= given.steps and not given.kill:
            return "all steps"
        if time.monotonic() - began > given.seconds:
            return f"time limit of {given.seconds:g} s"
    return f"exit code {process.returncode} after {time.monotonic() - began:.1f} s"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the run at once, which takes two signals; what is left after a while is killed."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
    left = psutil.wait_procs(children, timeout=2.0)[1]
    for child in left:
        child.kill()


# What it recorded -----------------------------------------------------------------------------------------------------


def table_of(run_dir: Path, name: str) -> pa.Table | None:
    """Return a table of the records; None if there are none yet."""
    try:
        return RunReader(run_dir).table(name)
    except WarpsmithError:
        return None


def steps_of(run_dir: Path) -> list[dict[str, Any]]:
    """Return the rows of the finished steps."""
    table = table_of(run_dir, "steps")
    return [] if table is None else table.to_pylist()


def phases_of(run_dir: Path) -> list[dict[str, Any]]:
    """Return the phases of the start: name, when it began, seconds, and whether others went on beside it."""
    path = run_dir / PHASES_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    spans = [span for line in lines if (span := json.loads(line))["phase"] == "start"]
    first = min((span["began"] for span in spans), default=0.0)
    return [
        {
            "name": span["name"],
            "began_s": round(span["began"] - first, 1),
            "seconds": round(span["ended"] - span["began"], 1),
            "background": span["background"],
        }
        for span in sorted(spans, key=lambda span: span["began"])
    ]


def flops_of(shape: ModelShape, lengths: Sequence[int]) -> float:
    """Return the model FLOPs of forward and backward over rows of these lengths; see the module."""
    channels = shape.heads * shape.head_dim * shape.layers
    weights = shape.parameters - (0 if shape.tied else shape.embedding)
    return 6.0 * weights * sum(lengths) + 6.0 * channels * sum(n * n for n in lengths)


def step_figures(
    step: dict[str, Any], turns: list[dict[str, Any]], shape: ModelShape, ranks: int, peak: float | None
) -> dict[str, Any]:
    """Return the figures of one step."""
    metrics = dict(step["metrics"])
    lengths = [len(turn["prompt_ids"]) + len(turn["completion_ids"]) for turn in turns]
    sampled = [len(turn["completion_ids"]) for turn in turns]
    judged = [turn["evaluate_s"] for turn in turns if turn["evaluate_s"]]
    train_s, collect_s, flops = step["train_s"], step["collect_s"], flops_of(shape, lengths)
    whole = None if peak is None else peak * ranks * train_s
    return {
        "step": step["step"],
        "seconds": step["seconds"],
        "collect_s": collect_s,
        "train_s": train_s,
        "sync_s": step["sync_s"],
        "turns": len(turns),
        "sampled_tokens": sum(sampled),
        "trained_tokens": sum(lengths),
        "longest_row": max(lengths, default=0),
        "sampled_tokens_per_s": sum(sampled) / collect_s,
        "trained_tokens_per_s": sum(lengths) / train_s,
        "step_tokens_per_s": sum(sampled) / step["seconds"],
        "mfu": None if whole is None else flops / whole,
        "mfu_all_passes": None if whole is None else flops * 5 / 3 / whole,
        "evaluations": len(judged),
        "evaluations_per_minute": 60 * len(judged) / collect_s,
        "evaluate_s_mean": statistics.fmean(judged) if judged else None,
        "truncated_rate": metrics.get("truncated_rate"),
        # The phases of the sync, if the run records them.
        "sync_phases": {
            name: metrics[name] for name in sorted(metrics) if name.startswith("sync_") and name != "sync_s"
        },
        "metrics": {name: metrics[name] for name in sorted(metrics)},
    }


def memory_rows(planned: MemoryPlan, memory: Memory, logs: Path) -> list[dict[str, Any]]:
    """Return for each GPU and the host what the plan says and what was seen, in bytes."""
    rows = [
        {"device": gpu.name, "planned": gpu.peak, "driver": memory.gpus.get(number)}
        for number, gpu in enumerate(planned.gpus)
    ]
    by_rank = {
        process["rank"]: process for process in _processes(logs) if process["program"].endswith("trainer/__main__.py")
    }
    for row in rows:
        process = by_rank.get(row["device"].removeprefix("GPU "))
        # The trained GPUs are the first ones, and a rank has its own.
        row |= {"allocated": process and process["allocated"], "reserved": process and process["reserved"]}
    return [*rows, {"device": "host", "planned": planned.host.peak, "driver": memory.host}]


def _processes(logs: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(logs.glob("[0-9]*.json"))]


def report(
    given: argparse.Namespace, planned: MemoryPlan, memory: Memory, logs: Path, ended: dict[str, Any]
) -> dict[str, Any]:
    """Return everything that was measured."""
    config = configured(given)
    machine = describe(["torch", "transformers", "deepspeed", "vllm", "ray", "triton", "warpsmith-trainer"])
    names = " ".join(machine["machine"]["gpus"])
    peak = next((flops for name, flops in PEAK_BF16_FLOPS.items() if name in names), None)
    table = table_of(given.run, "turns")
    turns = [] if table is None else table.to_pylist()
    ranks = int(planned.facts["ranks"])
    steps = [
        step_figures(step, [t for t in turns if t["rollout_step"] == step["step"]], planned.shape, ranks, peak)
        for step in steps_of(given.run)
    ]
    return machine | {
        "config": str(given.config),
        "changes": changes(given),
        "placement": config.placement.model_dump(mode="json"),
        "shape": planned.shape.name,
        "parameters": planned.shape.parameters,
        **ended,
        "start": phases_of(given.run),
        "steps": steps,
        "memory": memory_rows(planned, memory, logs),
        "plan": {gpu.name: {part.name: part.bytes for part in gpu.parts} for gpu in planned.gpus},
        "processes": _processes(logs),
        "unfinished_step": unfinished(turns, steps),
        "statuses": _counts(turn["verdict"]["status"] for turn in turns if turn["verdict"]),
        "invalid": _counts(turn["invalid_reason"] for turn in turns if turn["invalid_reason"]),
    }


def unfinished(turns: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what was sampled for a step that was not finished: from its first turn's start to its last one's end."""
    done = {step["step"] for step in steps}
    left = [turn for turn in turns if turn["rollout_step"] is not None and turn["rollout_step"] not in done]
    if not left:
        return None
    parts = ("generate_s", "compile_s", "wait_s", "evaluate_s")
    ends = [turn["started_at"].timestamp() + sum(turn[part] or 0.0 for part in parts) for turn in left]
    seconds = max(ends) - min(turn["started_at"].timestamp() for turn in left)
    tokens = sum(len(turn["completion_ids"]) for turn in left)
    return {"turns": len(left), "collect_s": seconds, "sampled_tokens_per_s": tokens / seconds}


def _counts(values: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found


# Showing --------------------------------------------------------------------------------------------------------------


def show(result: dict[str, Any]) -> None:
    """Print the result as short tables."""
    print(f"\n{result['shape']}, {result['parameters']:,} parameters, {result['machine']['gpus']}")
    print(f"placement {result['placement']}; ended: {result['ended']}\n\nstart, s")
    for span in result["start"]:
        beside = "  (beside others)" if span["background"] else ""
        print(f"  {span['began_s']:7.1f} + {span['seconds']:6.1f}  {span['name']}{beside}")
    for name in (
        "seconds", "collect_s", "train_s", "sync_s", "turns", "sampled_tokens", "trained_tokens", "longest_row",
        "sampled_tokens_per_s", "trained_tokens_per_s", "step_tokens_per_s", "mfu",
        "mfu_all_passes", "evaluations", "evaluations_per_minute", "evaluate_s_mean", "truncated_rate",
    ):  # fmt: skip
        print(f"  {name:24}" + "".join(f"{_figure(step[name]):>12}" for step in result["steps"]))
    for step in result["steps"]:
        parts = ", ".join(f"{name} {_figure(value)}" for name, value in step["sync_phases"].items())
        print(f"  step {step['step']} sync: {parts}" if parts else "", end="\n" if parts else "")
    print("\nmemory, GiB        planned   driver  allocated  reserved  planned/driver")
    for row in result["memory"]:
        seen = [row["planned"], row.get("driver"), row.get("allocated"), row.get("reserved")]
        share = row["planned"] / row["driver"] if row.get("driver") else None
        print(f"  {row['device']:14}" + "".join(f"{_gib(size):>10}" for size in seen) + f"{_figure(share):>12}")
    print(f"\nverdicts {result['statuses']}; invalid {result['invalid']}")
    if result["unfinished_step"] is not None:
        print(f"sampled for a step that was not finished: {result['unfinished_step']}")


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _gib(size: int | None) -> str:
    return "-" if size is None else f"{size / GIB:.1f}"


def configured(given: argparse.Namespace) -> TrainerConfig:
    """Return the configuration that the run has."""
    config = load_any(given.config, changes(given))
    if not isinstance(config, TrainerConfig):
        sys.exit(f"{given.config} is no GRPO file.")
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, nargs="?", default=ROOT / "configs/qwen3-8b-four-gpus.toml")
    parser.add_argument("--policy", type=Path, default=ROOT / "models/random-qwen3-8b", help="the policy's directory")
    parser.add_argument("--run", type=Path, default=ROOT / "runs/eight-b", help="the run's directory, to be made")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=900.0, help="end the run after that many seconds")
    parser.add_argument(
        "--kill", action="append", type=parse_kill, default=[], metavar="STEP:PART",
        help="kill that part some seconds after that step; the run then goes on until it ends or the time is up",
    )  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="more changes")
    parser.add_argument("--out", type=Path, default=HERE / "results/eight_b.json")
    given = parser.parse_args()
    if not (given.policy / "config.json").is_file():
        skip(f"this needs the policy in {given.policy}, which benchmarks/_random_policy.py writes")
    sys.path.insert(0, str(HERE / "_eight_b"))
    config = configured(given)
    machine: Machine = this_machine()
    planned = plan(config, shape_of(config.policy.path), machine)
    for misfit in planned.misfits:
        print(f"plan: {misfit}", flush=True)
    logs = given.run.with_name(f"{given.run.name}-logs")
    logs.mkdir(parents=True)
    memory = Memory()
    ended = run(given, logs)
    memory.stop()
    if given.kill:
        print((logs / "console.log").read_text(encoding="utf-8", errors="replace")[-3000:])
    result = report(given, planned, memory, logs, ended)
    write_result(given.out, result)
    show(result)
    if not result["steps"]:
        print((logs / "console.log").read_text(encoding="utf-8", errors="replace")[-6000:])
        sys.exit(1)


if __name__ == "__main__":
    main()
