"""The console command `warpsmith-trainer`, which is also `python -m warpsmith.trainer`."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith.policy.packages import check_beside_torch, with_package_check
from warpsmith.records import commands
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.ownership import owned
from warpsmith.trainer._version import __version__
from warpsmith.trainer.doctor.command import doctor_command
from warpsmith.trainer.launch import rank_log
from warpsmith.trainer.launch.ending import ends_after_exit_handlers
from warpsmith.trainer.launch.launcher import (
    check_visible,
    choose_accelerator,
    demo_processes,
    is_launched,
    is_rank,
    launch,
    ranks_of,
    without_local_rank,
)
from warpsmith.trainer.launch.port import checked_port
from warpsmith.trainer.options import Config, Overrides, Resume
from warpsmith.trainer.planning.command import plan_command
from warpsmith.trainer.planning.init import init_command
from warpsmith.trainer.services.commands import down_command, logs_command, status_command, up_command
from warpsmith.trainer.telemetry.phase_log import command_began
from warpsmith.trainer.telemetry.wandb_view.command import wandb_view_command

if TYPE_CHECKING:
    from warpsmith.trainer.config import SftConfig, TrainerConfig
    from warpsmith.trainer.config.parallel import ParallelSection

app = commands.new_app(
    "warpsmith-trainer",
    __version__,
    "Train language models to write Triton kernels, with DeepSpeed ZeRO.\n\n"
    "Example: `warpsmith-trainer sft configs/demo-sft.toml`, then `warpsmith-trainer grpo configs/demo.toml`",
)

Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Stop after this step (run.steps).")]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", min=0, help="Stop after this wall time, in seconds, with a checkpoint (run.seconds)."),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--num-processes",
        min=1,
        help="Ranks to start; by default one for each GPU (of placement.train, if given), or 1. A multiple of "
        "parallel.tensor x parallel.sequence.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--master-port", min=1, max=65535, help="Port of the process group of the ranks; a free one by default."
    ),
]


@app.command()
def sft(
    config: Config,
    *,
    steps: Steps = None,
    seconds: Seconds = None,
    resume: Resume = False,
    num_processes: Processes = None,
    master_port: Port = None,
    set_: Overrides = None,
    show: Annotated[
        int | None,
        typer.Option(
            "--show", min=0, metavar="N", help="Do not train: show what would be trained, with N decoded examples."
        ),
    ] = None,
    each_agent: Annotated[
        bool,
        typer.Option(
            "--each-agent",
            help="Make two runs, in run.dir/generator and run.dir/optimizer, each on its agent's examples; with "
            "--resume, those that are not finished.",
        ),
    ] = False,
) -> None:
    """Fine-tune on chats, KernelBook, a run's own turns, or generated problems with known solutions.

    Example: warpsmith-trainer sft configs/demo-sft.toml --steps 300 --set run.dir=runs/warm

    To look at the data first: warpsmith-trainer sft configs/demo-sft.toml --show 3

    A generator and an optimizer: warpsmith-trainer sft configs/qwen2.5-coder-1.5b-agents-sft.toml --each-agent
    """
    from warpsmith.trainer.config import load_sft
    from warpsmith.trainer.launch.each_agent import has_begun, runs_of_agents

    overrides = _overrides(set_, steps, seconds)
    if not each_agent:
        _sft_run(config, overrides, num_processes, master_port, resume=resume, show=show)
        return
    runs = runs_of_agents(load_sft(config, overrides), resume=resume).values()
    for own in runs:
        load_sft(config, [*overrides, *own])  # Both are read before the first one starts.
    for own in runs:
        again = resume and has_begun(own)
        _sft_run(config, [*overrides, *own], num_processes, master_port, resume=again, show=show)


def _sft_run(
    config: Path,
    overrides: list[str],
    num_processes: int | None,
    master_port: int | None,
    *,
    resume: bool,
    show: int | None,
) -> None:
    from warpsmith.trainer.config import load_sft
    from warpsmith.trainer.launch.hub_names import with_local_models

    checked, local = with_local_models(load_sft(config, overrides), resume=resume)
    if show is not None:
        _show(checked, show)
        return
    arguments = ["sft", str(config), *_as_options([*overrides, *local], resume)]
    with _owner(checked.run.dir) as environment:
        _preflight(checked, resume, master_port)
        _as_ranks(
            arguments, num_processes, master_port, lambda: _run_sft(checked, resume),
            run_dir=checked.run.dir, environment=environment, parallel=checked.parallel,
        )  # fmt: skip


@app.command()
def grpo(
    config: Config,
    *,
    steps: Steps = None,
    seconds: Seconds = None,
    resume: Resume = False,
    num_processes: Processes = None,
    master_port: Port = None,
    set_: Overrides = None,
) -> None:
    """Train by multi-turn GRPO: sample, judge, credit, update, sync.

    Example: warpsmith-trainer grpo configs/demo.toml --steps 5 --set run.dir=runs/try

    The same under DeepSpeed's launcher, with the GPUs of placement.train:
    deepspeed --include localhost:0,1,2,3 --module warpsmith.trainer grpo configs/qwen3-8b.toml
    """
    from warpsmith.trainer.config import load_grpo
    from warpsmith.trainer.launch.hub_names import with_local_models

    overrides = _overrides(set_, steps, seconds)
    checked, local = with_local_models(load_grpo(config, overrides), resume=resume)
    arguments = ["grpo", str(config), *_as_options([*overrides, *local], resume)]
    train = checked.placement.train
    with _owner(checked.run.dir) as environment:
        _preflight(checked, resume, master_port)
        _as_ranks(
            arguments, num_processes, master_port, lambda: _run_grpo(checked, resume),
            run_dir=checked.run.dir, environment=environment, parallel=checked.parallel, train=train,
        )  # fmt: skip


SetSft = Annotated[
    list[str] | None,
    typer.Option(
        "--set-sft", metavar="TABLE.KEY=VALUE",
        help="Change a key of the SFT file, or remove it with `unset`; repeatable.",
    ),
]  # fmt: skip
SetGrpo = Annotated[
    list[str] | None,
    typer.Option(
        "--set-grpo", metavar="TABLE.KEY=VALUE",
        help="Change a key of the GRPO file, or remove it with `unset`; repeatable.",
    ),
]  # fmt: skip


@app.command()
def demo(
    *,
    sft: Annotated[
        Path | None, typer.Option("--sft", help="SFT file that warms up the policy; default: the package's own.")
    ] = None,
    grpo: Annotated[Path | None, typer.Option("--grpo", help="GRPO file; default: the package's own.")] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory to create; default: runs/demo-TIME.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the model, the problems and both runs.")] = 0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the interrupted demo in --output: finished phases are kept, SFT and GRPO resume from their "
            "newest checkpoint. Repeat the other options that it was started with.",
        ),
    ] = False,
    num_processes: Annotated[
        int | None,
        typer.Option("--num-processes", min=1, help="Ranks of SFT and GRPO; default: one per GPU, or 2."),
    ] = None,
    set_sft: SetSft = None,
    set_grpo: SetGrpo = None,
) -> None:
    """Create a tiny policy, warm it up by SFT, train it by GRPO, and compare both on held-out problems. Needs no GPU.

    Example: warpsmith-trainer demo --seed 1 --output runs/second
    """
    if resume and out is None:
        raise UsageError("--resume needs the directory of the demo to continue.", "Name it with --output.")
    check_beside_torch()
    from warpsmith.trainer.demo import OWN_GRPO, OWN_SFT, DemoSettings, new_directory, run_demo

    settings = DemoSettings(
        sft or OWN_SFT,
        grpo or OWN_GRPO,
        out or new_directory(),
        seed=seed,
        processes=num_processes or demo_processes(),
        sft_overrides=tuple(set_sft or ()),
        grpo_overrides=tuple(set_grpo or ()),
    )
    choose_accelerator()
    run_demo(settings, resume=resume)


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(help="`grpo` or `sft`.")] = "grpo",
    json_: Annotated[bool, typer.Option("--json", help="Print the JSON schema, for editors.")] = False,
) -> None:
    """Print every key of a configuration file: default, choices or bounds, unit and meaning.

    Example: warpsmith-trainer schema sft
    """
    import json

    from warpsmith.rollout.settings import describe, json_schema
    from warpsmith.trainer.config import SftConfig, TrainerConfig

    kinds: dict[str, Any] = {"grpo": TrainerConfig, "sft": SftConfig}
    if kind not in kinds:
        raise UsageError(f"There is no file of the kind `{kind}`.", "The kinds are grpo and sft.")
    model = kinds[kind]
    typer.echo(json.dumps(json_schema(model), indent=2) if json_ else "\n".join(describe(model)).lstrip())


@app.command()
def export(
    checkpoint: Annotated[
        Path, typer.Argument(help="A directory checkpoints/step-..., or a run's directory: its newest checkpoint.")
    ],
    out: Annotated[Path, typer.Option("--output", "-o", help="The Hugging Face directory to create.")],
    adapter: Annotated[
        bool,
        typer.Option(
            "--adapter/--merge", help="Write only the adapters, in peft's format, or add them to the weights."
        ),
    ] = False,
    best: Annotated[
        bool, typer.Option("--best", help="Take the run's checkpoint with the best score (see checkpoint.keep_best).")
    ] = False,
) -> None:
    """Write a checkpoint as a Hugging Face directory, for transformers and vLLM.

    Example: warpsmith-trainer export runs/demo --output runs/demo-model

    For a run that trained adapters: warpsmith-trainer export runs/lora --output runs/lora-adapter --adapter
    """
    from warpsmith.trainer.weights.checkpoint import read_state
    from warpsmith.trainer.weights.consolidate import chosen_checkpoint, consolidate

    choose_accelerator()
    chosen = chosen_checkpoint(checkpoint, best=best)
    step = read_state(chosen)["progress"]["step"]
    made = consolidate(chosen, out, form="adapter" if adapter else "model")
    typer.echo(f"{made}: the {'adapters' if adapter else 'model'} of step {step}, from {chosen}")


app.command("init")(init_command)
app.command("plan")(plan_command)
app.command("wandb-view")(wandb_view_command)
app.command("doctor")(doctor_command)
app.command("up")(up_command)
app.command("status")(status_command)
app.command("logs")(logs_command)
app.command("down")(down_command)


def _overrides(given: list[str] | None, steps: int | None, seconds: float | None) -> list[str]:
    return [
        *(given or []),
        *([f"run.steps={steps}"] if steps is not None else []),
        *([f"run.seconds={seconds}"] if seconds is not None else []),
    ]


def _as_options(overrides: list[str], resume: bool) -> list[str]:
    options = [part for override in overrides for part in ("--set", override)]
    return [*options, "--resume"] if resume else options


@contextmanager
def _owner(run_dir: Path) -> Iterator[Mapping[str, str]]:
    """Own the run's directory; yields what lets the ranks share it. A rank owns or shares it later."""
    if is_rank():
        yield {}
        return
    with owned(run_dir) as ownership:
        yield ownership.handover


def _preflight(config: "SftConfig | TrainerConfig", resume: bool, master_port: int | None) -> None:
    """Run the checks that need no torch; rank 0 runs all checks again."""
    if is_rank():
        return
    if master_port is not None:
        checked_port(master_port)
    from warpsmith.trainer.doctor.preflight import check_files

    check_files(config, resume)


def _as_ranks(
    arguments: list[str],
    processes: int | None,
    master_port: int | None,
    run: Callable[[], None],
    *,
    run_dir: Path,
    environment: Mapping[str, str],
    parallel: "ParallelSection",
    train: Sequence[int] = (),
) -> None:
    """Run here if this is a rank; else start the ranks, on the GPUs `train` if any, and exit with their exit code."""
    if is_rank():
        check_visible(train)
        rank_log.keep(run_dir)
        choose_accelerator()
        run()
        return
    ranks = ranks_of(train, processes)
    parallel.check_world(ranks)
    ranks_environment = {**environment, **command_began()}
    code = launch(arguments, ranks, master_port, run_dir=run_dir, devices=train, environment=ranks_environment)
    if code:
        if code == WarpsmithError.exit_code:
            rank_log.discard_if_alone(run_dir)
        raise typer.Exit(code)


def _show(config: "SftConfig", examples: int) -> None:
    """Encode the sources as a run would, but outside of one, and print the report."""
    import tempfile

    from warpsmith.policy.loading import chat_of
    from warpsmith.trainer.data.dataset import arrange, encode_sources
    from warpsmith.trainer.data.show import report

    choose_accelerator()
    chat = chat_of(config.policy)
    with tempfile.TemporaryDirectory() as folder:
        data = arrange(encode_sources(config, chat, Path(folder) / "examples"), config)
        for line in report(data, config, chat, examples, colour=sys.stdout.isatty()):
            typer.echo(line)


def _run_sft(config: Any, resume: bool) -> None:
    from warpsmith.trainer.runs.sft import run_sft

    run_sft(config, resume=resume)


def _run_grpo(config: Any, resume: bool) -> None:
    from warpsmith.trainer.runs.grpo import run_grpo

    run_grpo(config, resume=resume)


def _report_crash(error: Exception) -> None:
    """Show how a rank ended under a launcher that does not quote its log, as ours does."""
    if not is_launched():
        rank_log.report_crash(error)


def main() -> None:
    """Run the command; accepts the `--local_rank=N` that DeepSpeed's launcher puts before the arguments."""
    sys.argv[1:] = without_local_rank(sys.argv[1:])
    with ends_after_exit_handlers(_report_crash) if is_rank() else nullcontext():
        commands.run(with_package_check(app))
