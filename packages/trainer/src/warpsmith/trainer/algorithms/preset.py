"""The form of a preset: one choice for each part of the objective."""

from dataclasses import dataclass
from typing import Literal

from warpsmith.trainer.advantage.normalization import Baseline, Scale

Estimator = Literal["turn", "trajectory", "final", "gae"]
Ratio = Literal["token", "sequence"]
Clip = Literal["ppo", "cispo", "none"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]
Divergence = Literal["k1", "k2", "k3"]
Correction = Literal["none", "truncated", "masked"]
Level = Literal["token", "sequence", "geometric"]


@dataclass(frozen=True)
class Preset:
    """Values that an `[algorithm]` table takes where it does not say otherwise.

    Attributes:
        baseline, scale: see `warpsmith.trainer.advantage.Normalisation`.
        ratio, clip, aggregation: see `warpsmith.trainer.loss.policy_loss`.
        clip_low, clip_high: the ratio is kept within [1 - clip_low, 1 + clip_high].
        estimator: see `warpsmith.trainer.advantage`; `gae` trains a value head.
        correction_level: see `warpsmith.trainer.loss.correction`.
        dynamic_sampling: see `warpsmith.trainer.rollouts.batch_source`.
        overlong_share: see `warpsmith.trainer.advantage.penalties.overlong`.
    """

    baseline: Baseline
    scale: Scale
    ratio: Ratio
    clip: Clip
    clip_low: float
    clip_high: float
    aggregation: Aggregation
    estimator: Estimator = "turn"
    correction_level: Level = "token"
    dynamic_sampling: bool = False
    overlong_share: float = 0.0
