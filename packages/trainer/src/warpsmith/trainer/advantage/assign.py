"""From a batch of turns to its advantages: an estimator, then a normalisation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from warpsmith.trainer.advantage.estimators import final, gae, trajectory, turn
from warpsmith.trainer.advantage.estimators.gae import Critic
from warpsmith.trainer.advantage.normalization import Normalisation, normalise
from warpsmith.trainer.advantage.types import Credit, Samples, Turns

ESTIMATORS: Mapping[str, Callable[[Turns], Samples]] = MappingProxyType(
    {"turn": turn.samples, "trajectory": trajectory.samples, "final": final.samples}
)
"""Those that compare samples with one another; `gae` compares them with a value function."""


def assign(turns: Turns, estimator: str, how: Normalisation, critic: Critic | None = None) -> Credit:
    """Return the advantages of `turns` by the named estimator; with a critic, by GAE whatever the name.

    Raises:
        KeyError: `estimator` is none of ESTIMATORS (the configuration admits only those, and gives `gae` a critic).
    """
    if critic is None:
        return normalise(ESTIMATORS[estimator](turns), how)
    found = gae.samples(turns, critic)
    return replace(normalise(found, how), value=critic.value, target=found.value + critic.value)
