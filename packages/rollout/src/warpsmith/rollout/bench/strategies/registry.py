"""Strategies by `type`: the entry points in `warpsmith.strategies`."""

from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.rollout.bench.strategies.base import Strategy
from warpsmith.rollout.bench.strategies.config import StrategyConfig
from warpsmith.rollout.registries import STRATEGIES
from warpsmith.rollout.rewards.base import FOREIGN_ERRORS, describe_error


def make_strategy(config: StrategyConfig) -> Strategy:
    """Return the configured strategy.

    Raises:
        RegistryError: it cannot be imported.
        UsageError: it does not take its settings, or its file of mutations cannot be used.
    """
    factory = STRATEGIES.get(config.type)
    try:
        return factory(**config.model_dump(exclude={"type"}))
    except WarpsmithError:
        raise
    except FOREIGN_ERRORS as error:
        raise UsageError(
            f"The strategy `{config.type}` does not take its settings: {describe_error(error)}.",
            "Fix the keys of [strategy].",
        ) from error
