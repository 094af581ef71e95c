"""Importance weights for the gap between the sampler and the trainer, which compute the same policy differently."""

import torch
from torch import Tensor

from warpsmith.trainer.objective.presets.preset import Ratio
from warpsmith.trainer.objective.ratio import log_ratio


def truncated(trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, cap: float, kind: Ratio = "token") -> Tensor:
    """Return min(pi_trainer / pi_sampler, cap), (B, T), without gradient.

    Args:
        trainer_BT: the trainer's log-probabilities at the start of the update (pi_old).
        sampler_BT: the sampler's, as sampled.
        mask_BT: completion tokens.
        cap: C of truncated importance sampling.
        kind: a weight a token, or the geometric mean over the sequence.

    Source: Ionides, Truncated Importance Sampling, 2008; for language models: F. Yao et al., 2025,
    "Your efficient RL framework secretly brings you off-policy RL training".
    """
    return log_ratio(trainer_BT, sampler_BT, mask_BT, kind).detach().exp().clamp(max=cap)


def masked(
    trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, *, low: float, high: float, kind: Ratio = "token"
) -> Tensor:
    """Return pi_trainer / pi_sampler where it lies in [low, high], else 0, (B, T), without gradient."""
    weight_BT = log_ratio(trainer_BT, sampler_BT, mask_BT, kind).detach().exp()
    return torch.where(_outside(weight_BT, low, high), torch.zeros_like(weight_BT), weight_BT)


def rejected(
    trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, *, low: float, high: float, kind: Ratio = "token"
) -> Tensor:
    """Return where `masked` gives 0, (B, T)."""
    return _outside(log_ratio(trainer_BT, sampler_BT, mask_BT, kind).detach().exp(), low, high)


def _outside(weight_BT: Tensor, low: float, high: float) -> Tensor:
    # Written so that a NaN is outside.
    return ~((weight_BT >= low) & (weight_BT <= high))
