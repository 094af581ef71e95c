"""The table of tasks. A new task is a module with NAME, DESCRIPTION and `make`, and a line here."""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import UnknownTaskError
from warpsmith.rollout.tasks import kernelbench, kernelbench_multiturn
from warpsmith.rollout.tasks.base import Task

_MODULES = (kernelbench, kernelbench_multiturn)
_TASKS: Mapping[str, Callable[[RolloutConfig], Task]] = MappingProxyType({m.NAME: m.make for m in _MODULES})


def known_tasks() -> dict[str, str]:
    """Return every `task_type` with its description."""
    return {module.NAME: module.DESCRIPTION for module in _MODULES}


def task_for(config: RolloutConfig) -> Task:
    """Return the task that `config.task_type` names.

    Raises:
        UnknownTaskError: no task has this name; the message lists the known ones and suggests the nearest.
    """
    make = _TASKS.get(config.task_type)
    if make is not None:
        return make(config)
    near = difflib.get_close_matches(config.task_type, _TASKS, n=1)
    suggestion = f"Did you mean `{near[0]}`?" if near else "Choose one of them."
    raise UnknownTaskError(f"There is no task `{config.task_type}`; the tasks are {', '.join(_TASKS)}.", suggestion)
