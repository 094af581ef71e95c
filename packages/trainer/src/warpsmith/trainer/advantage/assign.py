"""Turns a batch of turns into advantages: an estimator, then a normalisation."""

from dataclasses import replace

from warpsmith.trainer.advantage.estimators.base import Critic, Estimator
from warpsmith.trainer.advantage.normalization import Normalisation, normalise
from warpsmith.trainer.advantage.types import Credit, Turns


def assign(turns: Turns, estimator: Estimator, how: Normalisation, critic: Critic | None = None) -> Credit:
    """Return the advantages of `turns`; with a critic also its values and their targets."""
    found = estimator.samples(turns, critic)
    credit = normalise(found, how)
    if critic is None:
        return credit
    return replace(credit, value=critic.value, target=found.value + critic.value)
