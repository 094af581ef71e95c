"""The interface of clips: how much of a token's importance ratio reaches its gradient. Imports no torch."""

from typing import TYPE_CHECKING

from warpsmith.trainer.section import Section

if TYPE_CHECKING:
    from torch import Tensor


class Clip(Section):
    """A clip and its settings, the table `[algorithm.clip]`; a subclass has a key `type: Literal["its name"]`.

    It is registered as an entry point of the group `warpsmith.clips`, under that name.
    """

    type: str

    def loss(self, ratio_BT: "Tensor", logprobs_BT: "Tensor", advantage_B1: "Tensor") -> "Tensor":
        """Return the loss of each token, (B, T), with gradient.

        Args:
            ratio_BT: importance ratio r, with gradient.
            logprobs_BT: log pi of each token, with gradient.
            advantage_B1: (B, 1).
        """
        raise NotImplementedError

    def active(self, ratio_BT: "Tensor", advantage_B1: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return where the clip is active at its lower and at its upper bound, (B, T) of bool each; for the metrics."""
        raise NotImplementedError

    @property
    def bounds_ratio(self) -> bool:
        """Whether the weight of a token whose ratio has moved far is bounded, as required for stale tokens."""
        return True
