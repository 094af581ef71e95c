"""The clip of PPO, with DAPO's higher upper bound and the dual clip as options."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from warpsmith.trainer.loss.clips.base import Clip

if TYPE_CHECKING:
    from torch import Tensor


class PpoClip(Clip):
    """-min(r A, clip(r, 1 - low, 1 + high) A), and with `dual` at most -dual A where A < 0.

    Sources: PPO, arXiv 1707.06347, equation 7; `high` above `low`: DAPO, arXiv 2503.14476, equation 10; `dual`:
    dual-clip PPO, arXiv 1912.09729, equation 5, which bounds the weight of a bad token that has become likely.
    """

    type: Literal["ppo"] = "ppo"
    low: float = Field(default=0.2, ge=0, description="The ratio's lower bound is 1 - low.")
    high: float = Field(default=0.2, ge=0, description="The ratio's upper bound is 1 + high.")
    dual: float | None = Field(
        default=None, gt=1, description="Upper bound of the weight of a token with negative advantage; unset: none."
    )

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if not self.low and not self.high:
            raise ValueError("low and high of 0 remove the gradient of every ratio that has moved; 0.2 is usual")
        return self

    def loss(self, ratio_BT: "Tensor", logprobs_BT: "Tensor", advantage_B1: "Tensor") -> "Tensor":
        """See `Clip.loss`."""
        clipped_BT = ratio_BT.clamp(1.0 - self.low, 1.0 + self.high)
        gain_BT = (ratio_BT * advantage_B1).minimum(clipped_BT * advantage_B1)
        if self.dual is None:
            return -gain_BT
        return -gain_BT.maximum(self.dual * advantage_B1).where(advantage_B1 < 0, gain_BT)

    def active(self, ratio_BT: "Tensor", advantage_B1: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return where the clip removes the gradient; `dual` counts as an upper bound. See `Clip.active`."""
        below_BT = (advantage_B1 < 0) & (ratio_BT < 1.0 - self.low)
        above_BT = (advantage_B1 > 0) & (ratio_BT > 1.0 + self.high)
        if self.dual is not None:
            above_BT |= (advantage_B1 < 0) & (ratio_BT > self.dual)
        return below_BT, above_BT
