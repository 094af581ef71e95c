# ruff: noqa: N815  the suffix is the tensor's shape
"""The loss of the value head."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ValueBatch:
    """The values of B turns; every tensor is (B, 1).

    Attributes:
        value_B1: the value head's output, with gradient.
        old_B1: the same before the update.
        target_B1: training target, GAE's advantage plus `old_B1`.
        weight_B1: 1 over the number of counted turns of the whole batch; 0 on turns that do not count.
    """

    value_B1: Tensor
    old_B1: Tensor
    target_B1: Tensor
    weight_B1: Tensor


def value_loss(batch: ValueBatch, clip: float | None) -> Tensor:
    """Return the batch's share of the mean over turns of 1/2 (V - target)^2, a scalar with gradient.

    With `clip`, of max((V - target)^2, (V_old + clip(V - V_old, -clip, clip) - target)^2) / 2, which limits how far a
    value moves in one batch. Sources: PPO, arXiv 1707.06347, equation 9; the clip is that of its authors' code
    (openai/baselines, ppo2). arXiv 2006.05990 measured that this clip hurts more often than it helps.
    """
    error_B1 = (batch.value_B1 - batch.target_B1).square()
    if clip is not None:
        near_B1 = batch.old_B1 + (batch.value_B1 - batch.old_B1).clamp(-clip, clip)
        error_B1 = torch.maximum(error_B1, (near_B1 - batch.target_B1).square())
    return 0.5 * torch.where(batch.weight_B1 > 0, error_B1 * batch.weight_B1, torch.zeros_like(error_B1)).sum()
