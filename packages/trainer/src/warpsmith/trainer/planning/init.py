"""The command `warpsmith-trainer init`."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file
from warpsmith.trainer.options import MACHINE_HELP
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.commented import commented
from warpsmith.trainer.planning.draft import Kind
from warpsmith.trainer.planning.fitted import KINDS, Fitted, fitted
from warpsmith.trainer.planning.machines import Machine
from warpsmith.trainer.planning.shapes import shape_of


def init_command(
    *,
    model: Annotated[
        Path,
        typer.Option(
            help="The policy's Hugging Face directory; it need not exist if its name is that of a known model."
        ),
    ],
    machine: Annotated[str | None, typer.Option(help=MACHINE_HELP)] = None,
    kind: Annotated[str, typer.Option(help="`grpo` or `sft`.")] = "grpo",
    out: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented file for a model and a machine, which `plan` accepts; refuse a model that does not fit.

    Example: warpsmith-trainer init --model models/qwen3-8b --machine 8xh100-80 -o qwen3-8b.toml
    """
    chosen = _kind(kind)
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already.", "Name another file with -o, or replace it with --force.")
    target = machines.named(machine) if machine else machines.this_machine()
    found = fitted(chosen, model, shape_of(model), target)
    text = commented(KINDS[chosen], found.tables, _head(chosen, model, target, found, out))
    if out is None:
        typer.echo(text, nl=False)
        return
    write_file(out, text)
    on = f" --machine {machine}" if machine else ""
    typer.echo(f"{out} is written. Look at its plan: warpsmith-trainer plan {out}{on}", err=True)


def _kind(name: str) -> Kind:
    for known in get_args(Kind):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(f"There is no file of the kind `{name}`.", f"The kinds are {' and '.join(get_args(Kind))}.")


def _head(kind: Kind, model: Path, machine: Machine, found: Fitted, out: Path | None) -> str:
    name = out or f"{model.name}-{kind}.toml"
    what = {"grpo": "Multi-turn GRPO", "sft": "Supervised fine-tuning"}[kind]
    lines = [
        f"{what} of {model} on {machine.name}. Written by `warpsmith-trainer init`; other keys have their defaults,",
        f"which `warpsmith-trainer schema {kind}` lists.",
        f"  warpsmith-trainer plan {name}    what it takes of each GPU and of the host",
        f"  warpsmith-trainer doctor {name}  whether this machine has what it needs",
        f"  warpsmith-trainer {kind} {name}",
    ]
    if found.change:
        lines.append("The usual choices do not fit this machine, so these keys differ from them:")
        lines += [f"  {key}" for key in found.change]
    return "\n".join(lines)
