"""The settings of an objective as one value. Imports no torch."""

from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import Field, model_validator

from warpsmith.trainer.loss.clips.base import Clip
from warpsmith.trainer.loss.clips.ppo import PpoClip
from warpsmith.trainer.section import Section

Ratio = Literal["token", "sequence"]
Divergence = Literal["k1", "k2", "k3"]
Level = Literal["token", "sequence", "geometric"]


class NoCorrection(Section):
    """No correction of the gap between sampler and trainer."""

    type: Literal["none"] = "none"


class _Correction(Section):
    level: Level = Field(
        default="token",
        description="Weigh by the ratio of each `token`, of the whole turn (`sequence`) or its `geometric` mean.",
    )
    veto: float = Field(
        default=0.0, ge=0, lt=1, description="Drop a turn with a token whose ratio is below this; 0 drops none."
    )


class TruncatedCorrection(_Correction):
    """Importance weights of trainer against sampler, capped. See `warpsmith.trainer.loss.correction`."""

    type: Literal["truncated"] = "truncated"
    high: float = Field(default=2.0, gt=0, description="Cap of the weights.")


class MaskedCorrection(_Correction):
    """The same, with weights outside of [low, high] set to 0."""

    type: Literal["masked"] = "masked"
    low: float = Field(default=0.5, ge=0, description="Weights below this become 0.")
    high: float = Field(default=2.0, gt=0, description="Weights above this become 0.")

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self


Correction = TruncatedCorrection | MaskedCorrection


@dataclass(frozen=True)
class ObjectiveSpec:
    """Settings of `policy_loss`.

    Attributes:
        ratio: importance ratio of each token or of the sequence.
        clip: see `warpsmith.trainer.loss.clips`.
        kl: estimator of the divergence.
        kl_coefficient: weight of the divergence in the loss; 0 if it is in the reward.
        entropy_coefficient: weight of the entropy bonus.
        correction: importance weights of trainer against sampler; None for none.
        value_coefficient: weight of the value head's loss.
        value_clip: see `warpsmith.trainer.loss.value_loss`.
    """

    ratio: Ratio = "token"
    clip: Clip = field(default_factory=PpoClip)
    kl: Divergence = "k3"
    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    correction: Correction | None = None
    value_coefficient: float = 0.0
    value_clip: float | None = None

    @property
    def needs_every_row(self) -> bool:
        """Whether rows of advantage 0 have a gradient: from divergence, entropy or the value head."""
        return any((self.kl_coefficient, self.entropy_coefficient, self.value_coefficient))
