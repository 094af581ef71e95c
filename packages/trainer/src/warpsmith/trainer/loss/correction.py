"""Importance weights for the gap between sampler and trainer, which compute the same policy differently.

The gradient is taken under pi_trainer, the tokens come from pi_sampler. With the log-weight of a token
d_t = log pi_trainer(o_t) - log pi_sampler(o_t), the weight of a token is, by `level`:

    token      exp(d_t)              biased (the state's distribution stays the sampler's), of little variance
    sequence   exp(sum_t d_t)        the turn's own importance weight, unbiased, of a variance that grows with length
    geometric  exp(1/|o| sum_t d_t)  the geometric mean, comparable between lengths

Sources: truncation: Ionides, Truncated Importance Sampling, 2008; for language models F. Yao et al., 2025, "Your
efficient RL framework secretly brings you off-policy RL training". Masks by token: IcePop (Ring-1T, arXiv 2510.18855);
the geometric mean within narrow bounds and the veto of single tokens: Dr.Kernel, arXiv 2602.05885.
"""

import torch
from torch import Tensor

from warpsmith.trainer.loss.objective_spec import Correction, Level, MaskedCorrection
from warpsmith.trainer.loss.ratio import log_ratio


def weights(trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, correction: Correction) -> Tensor:
    """Return the factor of each token's surrogate, (B, T), without gradient.

    Args:
        trainer_BT: the trainer's log-probabilities at the start of the update (pi_old).
        sampler_BT: the sampler's, as sampled.
        mask_BT: completion tokens.
        correction: `truncated` gives min(w, high); `masked` gives w within [low, high]
            and 0 outside. A row with a token of d_t < log veto gets 0 in both.
    """
    weight_BT = level_weights(trainer_BT, sampler_BT, mask_BT, correction.level).clamp(max=correction.high)
    gone_BT = rejected(trainer_BT, sampler_BT, mask_BT, correction)
    return torch.where(gone_BT, torch.zeros_like(weight_BT), weight_BT)


def rejected(trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, correction: Correction) -> Tensor:
    """Return where `weights` removes a token from the loss, (B, T) of bool."""
    gone_BT = torch.zeros_like(mask_BT, dtype=torch.bool)
    if isinstance(correction, MaskedCorrection):
        weight_BT = level_weights(trainer_BT, sampler_BT, mask_BT, correction.level)
        # Written so that NaN counts as outside.
        gone_BT = ~((weight_BT >= correction.low) & (weight_BT <= correction.high))
    if correction.veto:
        token_BT = level_weights(trainer_BT, sampler_BT, mask_BT, "token")
        gone_BT = gone_BT | ((token_BT < correction.veto) & (mask_BT > 0)).any(-1, keepdim=True)
    return gone_BT


def level_weights(trainer_BT: Tensor, sampler_BT: Tensor, mask_BT: Tensor, level: Level) -> Tensor:
    """Return pi_trainer / pi_sampler of each token, its turn, or the turn's geometric mean, (B, T), no gradient."""
    d_BT = log_ratio(trainer_BT, sampler_BT, mask_BT, "sequence" if level == "geometric" else "token").detach()
    if level == "sequence":
        d_BT = d_BT.sum(-1, keepdim=True) * mask_BT
    return d_BT.exp()
