"""The importance ratio: the policy's probability of a token now, relative to when it was sampled."""

from torch import Tensor

from warpsmith.trainer.loss.objective_spec import Ratio


def log_ratio(logprobs_BT: Tensor, old_BT: Tensor, mask_BT: Tensor, kind: Ratio) -> Tensor:
    """Return log r, (B, T): log pi - log pi_old of each token, or its mean over the row's completion for `sequence`.

    Sources: PPO, arXiv 1707.06347 (token); GSPO, arXiv 2507.18071, equation 7 (sequence).
    """
    difference_BT = (logprobs_BT - old_BT) * mask_BT
    if kind == "token":
        return difference_BT
    length_B1 = mask_BT.sum(-1, keepdim=True).clamp(min=1)
    return (difference_BT.sum(-1, keepdim=True) / length_B1) * mask_BT
