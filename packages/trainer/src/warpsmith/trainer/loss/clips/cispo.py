"""The clip of CISPO: the importance weight is clipped, and every token keeps its gradient."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from warpsmith.trainer.loss.clips.base import Clip

if TYPE_CHECKING:
    from torch import Tensor


class CispoClip(Clip):
    """-sg(clip(r, 1 - low, 1 + high)) A log pi. Source: arXiv 2506.13585, equations 4 and 5."""

    type: Literal["cispo"] = "cispo"
    low: float = Field(default=1.0, ge=0, description="The weight's lower bound is 1 - low; 1 has no lower bound.")
    high: float = Field(default=2.0, ge=0, description="The weight's upper bound is 1 + high.")

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if not self.low and not self.high:
            raise ValueError("low and high of 0 give every token the weight 1; give one of them more")
        return self

    def loss(self, ratio_BT: "Tensor", logprobs_BT: "Tensor", advantage_B1: "Tensor") -> "Tensor":
        """See `Clip.loss`."""
        return -ratio_BT.detach().clamp(1.0 - self.low, 1.0 + self.high) * advantage_B1 * logprobs_BT

    def active(self, ratio_BT: "Tensor", advantage_B1: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return where the clip raises or lowers the weight of the gradient. See `Clip.active`."""
        moved_B1 = advantage_B1 != 0
        return (ratio_BT < 1.0 - self.low) & moved_B1, (ratio_BT > 1.0 + self.high) & moved_B1
