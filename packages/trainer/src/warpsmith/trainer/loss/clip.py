"""What of a token's ratio reaches its gradient."""

import torch
from torch import Tensor

from warpsmith.trainer.loss.objective_spec import ObjectiveSpec


def ppo(ratio_BT: Tensor, advantage_B1: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """Return -min(r A, clip(r, 1 - low, 1 + high) A), and with `dual` at most -dual A where A < 0.

    Sources: PPO, arXiv 1707.06347, equation 7; `high` above `low`: DAPO, arXiv 2503.14476, equation 10; `dual`:
    dual-clip PPO, arXiv 1912.09729, equation 5, where a bad token that the policy came to like has a bounded weight.
    """
    clipped_BT = ratio_BT.clamp(1.0 - low, 1.0 + high)
    gain_BT = torch.minimum(ratio_BT * advantage_B1, clipped_BT * advantage_B1)
    if dual is None:
        return -gain_BT
    return -torch.where(advantage_B1 < 0, torch.maximum(gain_BT, dual * advantage_B1), gain_BT)


def cispo(ratio_BT: Tensor, logprobs_BT: Tensor, advantage_B1: Tensor, low: float, high: float) -> Tensor:
    """Return -sg(clip(r, 1 - low, 1 + high)) A log pi. Source: arXiv 2506.13585, equations 4 and 5."""
    return -ratio_BT.detach().clamp(1.0 - low, 1.0 + high) * advantage_B1 * logprobs_BT


def none(ratio_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """Return -r A: the policy gradient with importance sampling and no trust region."""
    return -ratio_BT * advantage_B1


def active(spec: ObjectiveSpec, ratio_BT: Tensor, advantage_B1: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the clip acts at its lower and at its upper bound, (B, T) of bool each.

    For `ppo` that is where it takes the gradient away, `clip_dual` counted as an upper bound; for `cispo`, where it
    shortens or lengthens the weight of the gradient.
    """
    below_BT, above_BT = ratio_BT < 1.0 - spec.clip_low, ratio_BT > 1.0 + spec.clip_high
    if spec.clip == "none":
        return torch.zeros_like(below_BT), torch.zeros_like(above_BT)
    if spec.clip == "cispo":
        return below_BT & (advantage_B1 != 0), above_BT & (advantage_B1 != 0)
    above_BT = (advantage_B1 > 0) & above_BT
    if spec.clip_dual is not None:
        above_BT |= (advantage_B1 < 0) & (ratio_BT > spec.clip_dual)
    return (advantage_B1 < 0) & below_BT, above_BT
