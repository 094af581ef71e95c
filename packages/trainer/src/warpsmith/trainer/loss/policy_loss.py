# ruff: noqa: N815  the suffix is the tensor's shape
"""The loss of one micro-batch: correction x clip(ratio, advantage) + divergence - entropy + the value's loss."""

from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.trainer.loss import correction
from warpsmith.trainer.loss.divergence import divergence
from warpsmith.trainer.loss.objective_spec import ObjectiveSpec
from warpsmith.trainer.loss.ratio import log_ratio
from warpsmith.trainer.loss.value_loss import ValueBatch, value_loss


@dataclass(frozen=True)
class MicroBatch:
    """B rows of T tokens, right-padded; every tensor is (B, T) unless its name says otherwise.

    Attributes:
        logprobs_BT, entropy_BT: of the policy in training, with gradient.
        old_BT: log-probabilities of the ratio's denominator (the sampler's, or the trainer's own at the start of the
            update).
        sampler_BT: the sampler's, as sampled.
        reference_BT: of the frozen reference policy; None without a divergence term.
        mask_BT: 1 on completion tokens.
        advantage_B1: (B, 1).
        weight_B1: (B, 1), see `warpsmith.trainer.loss.aggregations`.
        critic: the value head's outputs for the rows; None without one.
    """

    logprobs_BT: Tensor
    entropy_BT: Tensor
    old_BT: Tensor
    sampler_BT: Tensor
    reference_BT: Tensor | None
    mask_BT: Tensor
    advantage_B1: Tensor
    weight_B1: Tensor
    critic: ValueBatch | None = None


def policy_loss(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return the micro-batch's share of the batch's loss, a scalar with gradient; shares add up to the loss.

    L = sum w m (c clip(r, A) + beta k(pi, pi_ref) - eta H) + c_v L_value, c the correction, r the ratio, H the entropy.
    """
    token_BT = _surrogate(batch, spec)
    if spec.correction is not None:
        token_BT = token_BT * correction.weights(batch.old_BT, batch.sampler_BT, batch.mask_BT, spec.correction)
    if spec.kl_coefficient and batch.reference_BT is not None:
        token_BT = token_BT + spec.kl_coefficient * divergence(batch.logprobs_BT, batch.reference_BT, spec.kl)
    if spec.entropy_coefficient:
        token_BT = token_BT - spec.entropy_coefficient * batch.entropy_BT
    # `where`, not a product: a padded position can hold inf or NaN, and 0 x inf is NaN.
    policy = torch.where(batch.mask_BT > 0, token_BT * batch.weight_B1, torch.zeros_like(token_BT)).sum()
    if batch.critic is None:
        return policy
    return policy + spec.value_coefficient * value_loss(batch.critic, spec.value_clip)


def _surrogate(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
    return spec.clip.loss(ratio_BT, batch.logprobs_BT, batch.advantage_B1)
