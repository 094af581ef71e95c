"""From the table `[strategy]` to a strategy."""

from typing import assert_never

from warpsmith.rollout.bench.strategies.base import Strategy
from warpsmith.rollout.bench.strategies.config import (
    BestOfNConfig,
    EvolveConfig,
    RefineConfig,
    SingleConfig,
    StrategyConfig,
)
from warpsmith.rollout.bench.strategies.evolve import Evolve
from warpsmith.rollout.bench.strategies.mutations import read_mutations
from warpsmith.rollout.bench.strategies.simple import Independent, Refine


def make_strategy(config: StrategyConfig) -> Strategy:
    """Return the strategy of a table.

    Raises:
        UsageError: its file of mutations cannot be used.
    """
    match config:
        case SingleConfig():
            return Independent(1)
        case RefineConfig():
            return Refine(config.attempts)
        case BestOfNConfig():
            return Independent(config.attempts)
        case EvolveConfig():
            return Evolve(config, read_mutations(config.mutations))
    assert_never(config)
