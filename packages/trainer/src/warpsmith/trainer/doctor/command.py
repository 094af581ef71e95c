"""The command `warpsmith-trainer doctor`."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from warpsmith.trainer.config import SftConfig, TrainerConfig, load_any
from warpsmith.trainer.doctor import inputs, machine
from warpsmith.trainer.doctor.check import Check, findings_of
from warpsmith.trainer.doctor.checks import CHAT, POLICY, SOURCES, checks_with_torch, checks_without_torch
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.launch.hub_names import with_local_models
from warpsmith.trainer.options import Config, Overrides
from warpsmith.trainer.planning.build import MemoryPlan, plan
from warpsmith.trainer.planning.command import suggested
from warpsmith.trainer.planning.machines import this_machine
from warpsmith.trainer.planning.shapes import shape_of

_UNFIT = 1
_COLOUR = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor_command(
    config: Config,
    *,
    judge: Annotated[bool, typer.Option("--judge", help="Also evaluate a known solution; takes seconds.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Check for a run that will be resumed.")] = False,
    num_processes: Annotated[int | None, typer.Option(min=1, help="Number of ranks, as in the run.")] = None,
    set_: Overrides = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON list of findings.")] = False,
) -> None:
    """Check everything that a run needs on this machine; exit with 1 if a check fails.

    Example: warpsmith-trainer doctor configs/demo.toml --judge
    """
    overrides = set_ or []
    loaded = load_any(config, overrides)
    # Apart, because a type variable stands for one of the two.
    if isinstance(loaded, SftConfig):
        checked: SftConfig | TrainerConfig = with_local_models(loaded, resume=resume)[0]
    else:
        checked = with_local_models(loaded, resume=resume)[0]
    checks = [
        *checks_without_torch(checked, resume),
        *checks_with_torch(checked),
        *_of_inputs(checked, judge),
        *_of_machine(config, overrides, checked, num_processes),
    ]
    findings = list(findings_of(checks))
    typer.echo(json.dumps([asdict(one) for one in findings], indent=2)) if json_ else _show(findings)
    if any(one.state == "error" for one in findings):
        raise typer.Exit(_UNFIT)


def _of_inputs(config: SftConfig | TrainerConfig, judge: bool) -> list[Check]:
    """Return the checks that the run's own command skips."""
    checks = [Check("policy", lambda: inputs.policy(config), (POLICY, CHAT))]
    if isinstance(config, SftConfig):
        checks.append(Check("data", lambda: inputs.data(config), (SOURCES,)))
    if judge:
        checks.append(Check("judgement", lambda: inputs.judgement(config)))
    return checks


def _of_machine(
    path: Path, overrides: list[str], config: SftConfig | TrainerConfig, processes: int | None
) -> list[Check]:
    return [
        Check("GPUs", lambda: machine.gpus(config)),
        Check("memory", lambda: _of_memory(path, overrides, config, processes)),
        Check("versions", lambda: machine.versions(config)),
        Check("limits", lambda: machine.limits(config)),
        Check("port of the process group", lambda: machine.port(config)),
    ]


def _of_memory(
    path: Path, overrides: list[str], config: SftConfig | TrainerConfig, processes: int | None
) -> Iterator[Finding]:
    made: MemoryPlan = plan(config, shape_of(config.policy.path), this_machine(), processes)
    change = None if made.fits else suggested(path, overrides, config, made, processes)
    yield from machine.memory(made, change)
    yield from machine.shared_memory(config, made)


def _show(findings: list[Finding]) -> None:
    # Paths and keys are wrapped and not cut: in a pipe, lines have 80 characters.
    table = Table("what", "state", *(Column(name, overflow="fold") for name in ("seen", "remedy")))
    for one in findings:
        state = f"[{_COLOUR[one.state]}]{one.state}[/]"
        table.add_row(escape(one.what), state, escape(one.seen), escape(one.remedy))
    console = Console()
    console.print(table)
    counts = {state: sum(one.state == state for one in findings) for state in ("error", "warning")}
    console.print(f"{counts['error']} errors, {counts['warning']} warnings", highlight=False)
