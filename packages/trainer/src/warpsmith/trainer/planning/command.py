"""The command `warpsmith-trainer plan`."""

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.policy.hub import cached_directory
from warpsmith.rollout.environments.registry import max_turns
from warpsmith.rollout.settings import SettingsError
from warpsmith.trainer.config import SftConfig, TrainerConfig, load_any, read_toml
from warpsmith.trainer.config.load import with_overrides
from warpsmith.trainer.launch.launcher import ranks_of
from warpsmith.trainer.options import MACHINE_HELP, Config, Overrides
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import MemoryPlan, plan
from warpsmith.trainer.planning.layouts import Change
from warpsmith.trainer.planning.search import nearest
from warpsmith.trainer.planning.shapes import shape_of
from warpsmith.trainer.planning.show import as_json, show
from warpsmith.trainer.planning.sizes import parse_size

_DOES_NOT_FIT = 2


def plan_command(
    config: Config,
    *,
    machine: Annotated[str | None, typer.Option(help=MACHINE_HELP)] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="Number of GPUs, instead of the machine's.")] = None,
    gpu_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of each GPU, such as 80GiB or 141GB.")
    ] = None,
    host_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of the host, such as 512GiB.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A known model instead of policy.path, for example qwen3-8b.")
    ] = None,
    num_processes: Annotated[
        int | None, typer.Option(min=1, help="Ranks if placement.train names no GPUs; default: one per GPU, or 1.")
    ] = None,
    set_: Overrides = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object; sizes in bytes.")] = False,
) -> None:
    """Compute the memory of a run on each GPU and on the host; if it does not fit, exit with 2 and suggest a change.

    Nothing is started and no weights are read. A model that is not on disk is looked up by its directory's name.

    Example: warpsmith-trainer plan configs/qwen3-8b.toml --machine 8xh100-80
    """
    target = machines.described(
        machine, gpus, parse_size(gpu_memory) if gpu_memory else None, parse_size(host_memory) if host_memory else None
    )
    overrides = set_ or []
    checked = load_any(config, overrides)
    if isinstance(checked, TrainerConfig):
        # Errors that a run raises before it starts anything.
        max_turns(checked.rollout)
        if num_processes is not None:
            ranks_of(checked.placement.train, num_processes)
    shape = shape_of(cached_directory(checked.policy.path, checked.policy.revision), model)
    made = plan(checked, shape, target, num_processes)
    change = None if made.fits else suggested(config, overrides, checked, made, num_processes)
    typer.echo(json.dumps(as_json(made, change), indent=2)) if json_ else show(made, change)
    if not made.fits:
        raise typer.Exit(_DOES_NOT_FIT)


def suggested(
    path: Path,
    overrides: Sequence[str],
    config: TrainerConfig | SftConfig,
    made: MemoryPlan,
    processes: int | None,
) -> Change | None:
    """Return the nearest change of `config`, read from `path`, under which the plan fits."""
    values = read_toml(path)

    def fits(keys: Sequence[str]) -> bool:
        # The file is read once: the search calls this thousands of times if nothing fits.
        try:
            changed = with_overrides(type(config), deepcopy(values), [*overrides, *keys])
        except SettingsError:
            return False
        return plan(changed, made.shape, made.machine, processes).fits

    return nearest(config, made.machine.gpus, fits, processes)
