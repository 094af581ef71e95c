"""The command `warpsmith-evaluator`: judges a candidate, or shows which containment this machine supports."""

import json
import sys
from dataclasses import asdict
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpsmith.evaluator import check_options
from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.bench.audit_command import audit
from warpsmith.evaluator.bench.command import bench
from warpsmith.evaluator.bench.options import HELP as BENCH_HELP
from warpsmith.evaluator.bench.repair_command import repair
from warpsmith.evaluator.client.evaluator import evaluate
from warpsmith.evaluator.config import configured, tiers_of, timing_of
from warpsmith.evaluator.languages.registry import BACKENDS
from warpsmith.evaluator.mcp_server.command import mcp
from warpsmith.evaluator.server.command import serve
from warpsmith.evaluator.system.stderr import open_standard_descriptors
from warpsmith.evaluator.verdict import Verdict
from warpsmith.evaluator.verdict_lines import (
    baseline_lines,
    bound_lines,
    clock_lines,
    kernel_lines,
    operator_lines,
    traffic_lines,
    workload_lines,
)
from warpsmith.records.commands import new_app, run
from warpsmith.records.wording import printable

INVALID_EXIT_CODE: Final = 3

app = new_app(
    "warpsmith-evaluator",
    __version__,
    """Judge model-written Triton and CUDA C++ kernels in sandboxed workers.

    Example: `warpsmith-evaluator check 19_ReLU.py candidate.py`, where the first file defines `Model` and
    `get_inputs()` and the second `ModelNew`. `warpsmith-evaluator doctor` shows how well this machine can isolate
    candidates, `warpsmith-evaluator serve` judges over HTTP, and `warpsmith-evaluator bench` judges a KernelBench run.
    """,
)

NO_ISOLATION: Final = (
    "warning: --isolation none runs the candidate's and the problem's code with your own rights: it can read and write "
    "your files, use the network, and read or stop the evaluator. Use it for code that you wrote yourself.\n"
)

TIERS: Final = {
    "namespaces": "A worker sees no file, process or network but its own.",
    "landlock": "A worker opens only the files it is given, has no sockets and reaches no other process, but can learn "
    "the names of files and the numbers of processes.",
    "none": "Workers cannot be contained: the evaluator refuses to start unless --isolation none is given, which lets "
    "candidates read and write your files, use the network and stop the evaluator.",
}


@app.command()
def check(
    problem: check_options.Problem,
    candidate: check_options.Candidate,
    *,
    backend: check_options.Backend = "triton",
    device: check_options.Device = "cpu",
    gpu: check_options.Gpu = 0,
    target: check_options.Target = "",
    correctness_trials: check_options.CorrectnessTrials = 6,
    timed_trials: check_options.TimedTrials = 100,
    seed: check_options.Seed = None,
    timeout: check_options.Timeout = 30.0,
    reference_timeout: check_options.ReferenceTimeout = 60.0,
    isolation: check_options.Isolation = "landlock",
    hidden_shapes: check_options.HiddenShapes = True,
    recording: check_options.Recording = "detached",
    precision: check_options.Precision = "ieee",
    operators: check_options.Operators = "none",
    baseline: check_options.Baseline = None,
    max_tensor_bytes: check_options.MaxTensorBytes = None,
    allow_degenerate: check_options.AllowDegenerate = False,
    as_json: check_options.AsJson = False,
) -> None:
    """Judge CANDIDATE against PROBLEM: does it compute the same output with its own kernels, and on a GPU how fast?

    Exit code 0 if a verdict was reached, whatever it is; 2 for bad arguments or a bad problem; 3 if the evaluator
    itself failed (`invalid`).

    Example: `warpsmith-evaluator check 19_ReLU.py relu.py --json | jq .status`
    """
    if isolation == "none":
        sys.stderr.write(NO_ISOLATION)
    config = configured(
        slots=1,
        ready_workers=1,
        **tiers_of(isolation),
        device=device,
        language=BACKENDS[backend],
        gpu=gpu,
        target=target,
        trials=correctness_trials,
        **timing_of(timed_trials),
        timeout_s=timeout,
        reference_timeout_s=reference_timeout,
        hidden_shapes=hidden_shapes,
        recording=recording,
        precision=precision,
        operators=operators,
        baseline=baseline or None,
        max_tensor_bytes=max_tensor_bytes,
        allow_degenerate=allow_degenerate,
    )
    _finish(evaluate(problem, candidate, config, seed=seed), as_json=as_json)


def _finish(verdict: Verdict, *, as_json: bool) -> None:
    _show(verdict, as_json)
    if verdict.status == "invalid":
        raise typer.Exit(INVALID_EXIT_CODE)


def _show(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(verdict.to_record()))
        return
    console = Console()
    colour = {"correct": "green", "invalid": "magenta"}.get(verdict.status, "red")
    console.print(f"[bold {colour}]{verdict.status}[/]", end="")
    recording = f"  recording={verdict.recording}" if verdict.recording else ""
    console.print(
        f"  compiled={verdict.compiled}  trials={verdict.trials}  isolation={verdict.isolation_tier}{recording}"
    )
    if verdict.flags:
        console.print(f"flags: {', '.join(verdict.flags)}")
    if verdict.operators:
        share = "" if verdict.kernel_share is None else f"  kernel_share={verdict.kernel_share:.2f}"
        console.print(f"library operators: {', '.join(verdict.operators)}{share}")
    if verdict.max_abs_error is not None:
        console.print(f"largest absolute error: {verdict.max_abs_error:.6g}")
    if verdict.runtime_ms is not None and verdict.reference_ms is not None:
        console.print(
            f"[bold]{verdict.speedup:.3g}x[/]: {verdict.runtime_ms:.4g} ms, reference ({verdict.baseline}) "
            f"{verdict.reference_ms:.4g} ms ({verdict.timing_tier}, {verdict.device})"
        )
    elif verdict.runtime_ms is not None:
        console.print(f"{verdict.runtime_ms:.4g} ms ({verdict.timing_tier}, {verdict.device})")
    for lines in (workload_lines, baseline_lines, bound_lines, traffic_lines, kernel_lines, clock_lines):
        for line in lines(verdict):
            console.print(printable(line, console.encoding), markup=False, highlight=False)
    if verdict.error_message:
        console.print(printable(verdict.error_message, console.encoding), markup=False, highlight=False)
    for line in operator_lines(verdict):
        console.print(line, markup=False, highlight=False)
    console.print(f"compile {verdict.seconds.compile:.2f} s, evaluate {verdict.seconds.evaluate:.2f} s", style="dim")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show which containment layers this machine supports and how to get the others, and which GPUs it has.

    Example: `warpsmith-evaluator doctor`
    """
    from warpsmith.evaluator import _native
    from warpsmith.evaluator.devices import discovery

    layers, tier = _native.probe(), _native.achievable_tier()
    found, obstacle = discovery.find()
    if as_json:
        facts = {"tier": tier, "layers": [layer._asdict() for layer in layers]}
        typer.echo(json.dumps(facts | {"gpus": [asdict(gpu) for gpu in found], "gpu_obstacle": obstacle}))
        return
    table = Table("layer", "available", "detail")
    for layer in layers:
        table.add_row(layer.name, "yes" if layer.available else "[red]no[/]", escape(layer.detail))
    console = Console()
    console.print(table)
    console.print(f"strongest tier of this machine: [bold]{tier}[/]. {TIERS[tier]}")
    for remedy in dict.fromkeys(layer.remedy for layer in layers if layer.remedy):
        wanted = ", ".join(layer.name for layer in layers if layer.remedy == remedy)
        console.print(f"\n[bold]to get {wanted}[/]: {escape(remedy)}", highlight=False)
    console.print()
    for gpu in found:
        summary = f"--gpu {gpu.number}: {gpu.name}, {gpu.arch}, {gpu.memory_gib} GiB"
        console.print(escape(summary), highlight=False)
    verdict = "candidates cannot be judged on a GPU here" if obstacle else "candidates can be judged with --device cuda"
    console.print(f"[bold]{verdict}[/]{'.' if not obstacle else ': ' + escape(obstacle)}", highlight=False)


app.command()(serve)
app.command()(mcp)
app.command(help=BENCH_HELP)(bench)
app.command()(audit)
app.command()(repair)


def main() -> NoReturn:
    """Run the command."""
    open_standard_descriptors()
    run(app)
    raise SystemExit(0)
