"""The choices of an objective as one value. No torch here."""

from dataclasses import dataclass
from typing import Literal

from warpsmith.trainer.objective.presets.preset import Clip, Divergence, Ratio

Correction = Literal["none", "truncated", "masked"]


@dataclass(frozen=True)
class ObjectiveSpec:
    """What `policy_loss` does; the names are those of the `[algorithm]` table."""

    ratio: Ratio = "token"
    clip: Clip = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl: Divergence = "k3"
    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    correction: Correction = "none"
    correction_low: float = 0.5
    correction_high: float = 2.0

    @property
    def needs_every_row(self) -> bool:
        """Whether rows of advantage 0 have a gradient: by divergence or by entropy."""
        return self.kl_coefficient != 0 or self.entropy_coefficient != 0
