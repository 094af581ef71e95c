"""A file that fits a machine: a draft, or the nearest variant under which the plan fits."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.policy.loading import read_config
from warpsmith.rollout.samplers.vllm.model_length import model_length
from warpsmith.rollout.settings import SettingsError, checked
from warpsmith.trainer.config import SftConfig, TrainerConfig
from warpsmith.trainer.config.load import with_overrides
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning.build import MemoryPlan, plan
from warpsmith.trainer.planning.draft import Kind, Tables, drafts
from warpsmith.trainer.planning.layouts import Change
from warpsmith.trainer.planning.machines import Machine
from warpsmith.trainer.planning.search import nearest
from warpsmith.trainer.planning.shapes import ModelShape

KINDS: dict[Kind, type[TrainerConfig | SftConfig]] = {"grpo": TrainerConfig, "sft": SftConfig}


@dataclass(frozen=True)
class Fitted:
    """A file that fits.

    Attributes:
        tables: its tables, nested.
        config: the same, checked.
        change: keys by which it differs from the usual choices, as the machine is too small for those.
        made: its plan.
    """

    tables: Tables
    config: TrainerConfig | SftConfig
    change: Change
    made: MemoryPlan


def fitted(kind: Kind, path: Path, shape: ModelShape, machine: Machine) -> Fitted:
    """Return a file for a model and a machine.

    Args:
        kind: of the file.
        path: the model, which need not be there.
        shape: of the model.
        machine: where it is to run.

    Raises:
        ConfigError: nothing that is known here fits; it says what is in the way.
    """
    first: MemoryPlan | None = None
    for flat in drafts(kind, path, shape, machine, _longest(path)):
        tables = _nested(flat)
        config = checked(KINDS[kind], tables)
        made = plan(config, shape, machine)
        first = first or made
        if made.fits:
            return Fitted(tables, config, (), made)
        change = nearest(config, machine.gpus, lambda keys: _fits(KINDS[kind], tables, keys, made))  # noqa: B023
        if change is not None:
            config = with_overrides(KINDS[kind], tables, change)
            return Fitted(tables, config, change, plan(config, shape, machine))
    assert first is not None
    raise ConfigError(
        f"A {kind.upper()} run of {shape.name} ({shape.parameters / 1e9:.2g} billion parameters) does not fit "
        f"{machine.name}: {' '.join(first.misfits)}",
        "No change that is known here makes it fit, nor do three at once: name a larger machine with --machine, or a "
        "smaller model.",
    )


def _longest(path: Path) -> int | None:
    if not (path / "config.json").is_file():
        return None
    found = model_length(read_config(path))
    return None if found is None else found.tokens


def _nested(flat: Tables) -> Tables:
    tables: Tables = {}
    for name, table in flat.items():
        place = tables
        for part in name.split("."):
            place = place.setdefault(part, {})
        place.update(table)
    return tables


def _fits(kind: type[TrainerConfig | SftConfig], tables: dict[str, Any], keys: Sequence[str], made: MemoryPlan) -> bool:
    try:
        changed = with_overrides(kind, deepcopy(tables), keys)
    except SettingsError:
        return False
    return plan(changed, made.shape, made.machine).fits
