"""The interface of estimators: the value of a turn, and the turns that it is compared with. Imports no torch."""

from dataclasses import dataclass
from typing import ClassVar

from warpsmith.trainer.advantage.types import Samples, Turns, Values
from warpsmith.trainer.section import Section


@dataclass(frozen=True)
class Critic:
    """The value head's outputs for N turns.

    Attributes:
        value: V of each turn's prompt, (N,).
        gamma: discount of the next turn.
        handover_gamma: discount of the next turn where another agent takes it; 0 ends the agent's process there.
    """

    value: Values
    gamma: float
    handover_gamma: float = 0.0


class Estimator(Section):
    """An estimator and its settings, `[algorithm.estimator]`; a subclass has a key `type: Literal["its name"]`.

    It is registered as an entry point of the group `warpsmith.estimators`, under that name.

    Attributes:
        has_value_head: whether it needs a trained value head; its class is then a `ValueEstimator`.
    """

    has_value_head: ClassVar[bool] = False
    type: str

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """Return the value of each turn, and the turns it is compared with.

        Args:
            turns: N turns.
            critic: the value head's outputs; None if the estimator has none.
        """
        raise NotImplementedError
