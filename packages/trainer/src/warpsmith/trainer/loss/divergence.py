"""Estimators of KL(pi || pi_other) from tokens sampled from pi. Source: J. Schulman, Approximating KL Divergence, 2020.

With d = log pi_other - log pi of the sampled token: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d.
As a loss (rather than as a figure) k1 has a gradient of zero on average; k2's is that of the KL; k3's is biased.
"""

import torch
from torch import Tensor

from warpsmith.trainer.loss.objective_spec import Divergence

# exp(20) is far beyond any meaningful ratio, and its square does not overflow in fp32.
_LOG_LIMIT = 20.0


def divergence(logprobs_BT: Tensor, other_BT: Tensor, kind: Divergence) -> Tensor:
    """Return each token's estimate, (B, T); for k3, |d| is limited to 20 so that exp stays finite."""
    d_BT = other_BT - logprobs_BT
    if kind == "k1":
        return -d_BT
    if kind == "k2":
        return 0.5 * d_BT.square()
    d_BT = d_BT.clamp(-_LOG_LIMIT, _LOG_LIMIT)
    return torch.expm1(d_BT) - d_BT
