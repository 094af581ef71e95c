"""Environments by `type`: the entry points in `warpsmith.environments`."""

from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.environments.base import Environment, EnvironmentContext
from warpsmith.rollout.registries import ENVIRONMENTS


def descriptions() -> dict[str, str]:
    """Return the description of every installed environment, by name.

    Raises:
        RegistryError: one of them cannot be imported.
    """
    return {name: ENVIRONMENTS.get(name).description for name in ENVIRONMENTS.names()}


def max_turns(config: RolloutConfig) -> int:
    """Return the maximum turns of an episode of the configured environment.

    Raises:
        RegistryError: the environment cannot be imported.
    """
    return ENVIRONMENTS.get(config.environment.type).max_turns(config)


def make_environment(context: EnvironmentContext) -> Environment:
    """Return the configured environment.

    Raises:
        RegistryError: it cannot be imported.
        UsageError: it does not support the settings.
    """
    return ENVIRONMENTS.get(context.config.environment.type)(context)
