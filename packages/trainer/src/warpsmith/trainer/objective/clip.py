"""What of a token's ratio reaches its gradient."""

import torch
from torch import Tensor


def ppo(ratio_BT: Tensor, advantage_B1: Tensor, low: float, high: float) -> Tensor:
    """Return -min(r A, clip(r, 1 - low, 1 + high) A). Source: PPO, arXiv 1707.06347, equation 7."""
    clipped_BT = ratio_BT.clamp(1.0 - low, 1.0 + high)
    return -torch.minimum(ratio_BT * advantage_B1, clipped_BT * advantage_B1)


def cispo(ratio_BT: Tensor, logprobs_BT: Tensor, advantage_B1: Tensor, low: float, high: float) -> Tensor:
    """Return -sg(clip(r, 1 - low, 1 + high)) A log pi. Source: arXiv 2506.13585, equations 4 and 5."""
    return -ratio_BT.detach().clamp(1.0 - low, 1.0 + high) * advantage_B1 * logprobs_BT


def none(ratio_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """Return -r A: the policy gradient with importance sampling and no trust region."""
    return -ratio_BT * advantage_B1


def outside(ratio_BT: Tensor, advantage_B1: Tensor, low: float, high: float) -> Tensor:
    """Return 1.0 where the clip of `ppo` is active, that is where it takes the gradient away."""
    up = (advantage_B1 > 0) & (ratio_BT > 1.0 + high)
    down = (advantage_B1 < 0) & (ratio_BT < 1.0 - low)
    return (up | down).to(ratio_BT.dtype)
