"""The interface of estimators: the value of a turn, and the turns that it is compared with. No torch here."""

from dataclasses import dataclass
from typing import ClassVar

from warpsmith.trainer.advantage.types import Samples, Turns, Values
from warpsmith.trainer.section import Section


@dataclass(frozen=True)
class Critic:
    """What a value head says of N turns.

    Attributes:
        value: V of each turn's prompt, (N,).
        gamma: discount of the next turn.
    """

    value: Values
    gamma: float


class Estimator(Section):
    """An estimator and its settings, `[algorithm.estimator]`; a subclass has a key `type: Literal["its name"]`.

    It stands behind an entry point of the group `warpsmith.estimators`, under that name.

    Attributes:
        has_value_head: whether a value head is trained for it; its class is then a `ValueEstimator`.
    """

    has_value_head: ClassVar[bool] = False
    type: str

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """Return what each turn is judged by, and the turns it is compared with.

        Args:
            turns: N turns.
            critic: the value head's; None if the estimator has none.
        """
        raise NotImplementedError
