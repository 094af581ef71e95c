"""From a batch of turns to its advantages: an estimator, then a normalisation."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from warpsmith.trainer.credit import final, trajectory, turn
from warpsmith.trainer.credit.normalise import Normalisation, normalise
from warpsmith.trainer.credit.types import Credit, Samples, Turns

ESTIMATORS: Mapping[str, Callable[[Turns], Samples]] = MappingProxyType(
    {"turn": turn.samples, "trajectory": trajectory.samples, "final": final.samples}
)


def assign(turns: Turns, estimator: str, how: Normalisation) -> Credit:
    """Return the advantages of `turns` by the named estimator.

    Raises:
        KeyError: `estimator` is none of ESTIMATORS (the configuration admits only those).
    """
    return normalise(ESTIMATORS[estimator](turns), how)
