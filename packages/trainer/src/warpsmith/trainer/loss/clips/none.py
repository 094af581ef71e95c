"""No clip: the policy gradient with importance sampling and no trust region."""

from typing import TYPE_CHECKING, Literal

from warpsmith.trainer.loss.clips.base import Clip

if TYPE_CHECKING:
    from torch import Tensor


class NoClip(Clip):
    """-r A."""

    type: Literal["none"] = "none"

    def loss(self, ratio_BT: "Tensor", logprobs_BT: "Tensor", advantage_B1: "Tensor") -> "Tensor":
        """See `Clip.loss`."""
        return -ratio_BT * advantage_B1

    def active(self, ratio_BT: "Tensor", advantage_B1: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return false everywhere. See `Clip.active`."""
        nowhere_BT = ratio_BT.isnan() & False
        return nowhere_BT, nowhere_BT

    @property
    def bounds_ratio(self) -> bool:
        """See `Clip.bounds_ratio`."""
        return False
