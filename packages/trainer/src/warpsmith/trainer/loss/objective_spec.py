"""The choices of an objective as one value. No torch here."""

from dataclasses import dataclass

from warpsmith.trainer.algorithms.preset import Clip, Correction, Divergence, Level, Ratio


@dataclass(frozen=True)
class ObjectiveSpec:
    """What `policy_loss` does; the names are those of the `[algorithm]` table.

    `kl_coefficient` is the weight of the divergence in the loss: 0 where the table puts it into the reward.
    """

    ratio: Ratio = "token"
    clip: Clip = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    clip_dual: float | None = None
    kl: Divergence = "k3"
    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    correction: Correction = "none"
    correction_level: Level = "token"
    correction_low: float = 0.5
    correction_high: float = 2.0
    correction_veto: float = 0.0
    value_coefficient: float = 0.0
    value_clip: float | None = None

    @property
    def needs_every_row(self) -> bool:
        """Whether rows of advantage 0 have a gradient: by divergence, by entropy or by the value head."""
        return any((self.kl_coefficient, self.entropy_coefficient, self.value_coefficient))
