"""The form of a preset: one choice for each part of the objective."""

from dataclasses import dataclass
from typing import Literal

from warpsmith.trainer.credit.normalise import Baseline, Scale

Ratio = Literal["token", "sequence"]
Clip = Literal["ppo", "cispo", "none"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]
Divergence = Literal["k1", "k2", "k3"]


@dataclass(frozen=True)
class Preset:
    """Values that an `[algorithm]` table takes where it does not say otherwise.

    Attributes:
        baseline, scale: see `warpsmith.trainer.credit.Normalisation`.
        ratio, clip, aggregation: see `warpsmith.trainer.objective.loss`.
        clip_low, clip_high: the ratio is kept within [1 - clip_low, 1 + clip_high].
    """

    baseline: Baseline
    scale: Scale
    ratio: Ratio
    clip: Clip
    clip_low: float
    clip_high: float
    aggregation: Aggregation
