"""Baselines and scales: from values to advantages, within groups."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from warpsmith.trainer.advantage.types import Credit, Samples, Values
from warpsmith.trainer.section import Section

# Below this share of the group's largest value, differences are rounding.
_NO_SPREAD = 1e-9

Baseline = Literal["mean", "leave_one_out"]
Deviation = Literal["population", "sample"]


class GroupScale(Section):
    """Divide by the deviation of the group (GRPO, arXiv 2402.03300, which says only "std")."""

    type: Literal["group"] = "group"
    deviation: Deviation = Field(default="population", description="`population` (by n) or `sample` (by n - 1).")


class BatchScale(Section):
    """Divide by the deviation of all centred values of the batch."""

    type: Literal["batch"] = "batch"
    deviation: Deviation = Field(default="population", description="`population` (by n) or `sample` (by n - 1).")


class NoScale(Section):
    """Divide by nothing (Dr.GRPO, arXiv 2503.20783)."""

    type: Literal["none"] = "none"


Scale = GroupScale | BatchScale | NoScale


@dataclass(frozen=True)
class Normalisation:
    """How values are turned into advantages.

    Attributes:
        baseline: `mean` of the group, or the mean of the others (`leave_one_out`, RLOO, arXiv 2402.14740), which
            is the mean baseline times n / (n - 1).
        scale: what values are divided by.
    """

    baseline: Baseline = "mean"
    scale: Scale = field(default_factory=GroupScale)


def normalise(samples: Samples, how: Normalisation) -> Credit:
    """Return (value - baseline) / scale of each turn; unknown values do not count in the baseline and get 0.

    A group of one, or without spread, gives 0 and counts as flat.
    """
    counted = np.isfinite(samples.value)
    advantage = np.zeros(len(samples.value))
    members = np.zeros(len(samples.value), np.int64)
    groups = np.unique(samples.group[counted])
    flat = 0
    for group in groups:
        rows = np.flatnonzero(counted & (samples.group == group))
        _, first, unit_of_row = np.unique(samples.unit[rows], return_index=True, return_inverse=True)
        values = samples.value[rows[first]]
        members[rows] = len(values)
        if _has_no_spread(values):
            flat += 1
            continue
        advantage[rows] = _centred(values, how)[unit_of_row]
    if isinstance(how.scale, BatchScale):
        advantage = _scaled_by_batch(advantage, samples, counted, how.scale.deviation)
    return Credit(advantage=advantage, counted=counted, groups=len(groups), flat_groups=flat, members=members)


def _has_no_spread(values: Values) -> bool:
    return len(values) < 2 or float(np.ptp(values)) <= _NO_SPREAD * float(np.abs(values).max())


def _centred(values: Values, how: Normalisation) -> Values:
    """Return the advantages of one group, one per unit."""
    centred = values - values.mean()
    scale = _deviation(centred, how.scale.deviation) if isinstance(how.scale, GroupScale) else 1.0
    if how.baseline == "leave_one_out":
        centred = centred * (len(values) / (len(values) - 1))
    advantage: Values = centred / scale
    return advantage


def _deviation(centred: Values, kind: Deviation) -> float:
    return float(np.sqrt((centred**2).sum() / (len(centred) - (kind == "sample"))))


def _scaled_by_batch(advantage: Values, samples: Samples, counted: np.ndarray, kind: Deviation) -> Values:
    units = np.stack([samples.group, samples.unit], axis=1)[counted]
    _, first = np.unique(units, axis=0, return_index=True)
    values = advantage[counted][first]
    if len(values) < 2 or not np.any(values):
        return advantage
    return advantage / _deviation(values, kind)
