"""Figures of an update as sums, so that micro-batches and ranks add up to the figures of the whole batch."""

from collections.abc import Mapping

import torch
from torch import Tensor

from warpsmith.trainer.objective import clip
from warpsmith.trainer.objective.divergence import divergence
from warpsmith.trainer.objective.loss import MicroBatch
from warpsmith.trainer.objective.ratio import log_ratio
from warpsmith.trainer.objective.spec import ObjectiveSpec

SUMS = (
    "tokens", "entropy", "clipped", "ratio", "kl_old", "kl_reference",
    "sampler_k3", "sampler_weight", "sampler_weight_squared", "sampler_gap",
)  # fmt: skip


def token_sums(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return the sums named by SUMS over the completion tokens of rows that count, fp64, without gradient."""
    with torch.no_grad():
        used_BT = (batch.mask_BT > 0) & (batch.weight_B1 > 0)
        ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
        gap_BT = batch.logprobs_BT - batch.sampler_BT
        weight_BT = gap_BT.clamp(-20, 20).exp()
        kl_BT = torch.zeros_like(gap_BT)
        if batch.reference_BT is not None:
            kl_BT = divergence(batch.logprobs_BT, batch.reference_BT, "k3")
        columns = (
            torch.ones_like(gap_BT),
            batch.entropy_BT,
            clip.outside(ratio_BT, batch.advantage_B1, spec.clip_low, spec.clip_high),
            ratio_BT,
            divergence(batch.logprobs_BT, batch.old_BT, "k3"),
            kl_BT,
            # The tokens were sampled by the sampler, so the KL that they can estimate is sampler || trainer.
            divergence(batch.sampler_BT, batch.logprobs_BT, "k3"),
            weight_BT,
            weight_BT.square(),
            gap_BT.abs(),
        )
        return torch.stack([column_BT[used_BT].double().sum() for column_BT in columns])


def figures(sums: Tensor) -> Mapping[str, float]:
    """Return means over tokens from summed SUMS.

    `sampler_ess` is the effective sample size of the importance weights trainer / sampler as a share of the tokens:
    (sum w)^2 / (n sum w^2), 1 where the two agree (Kong, 1992).
    """
    total = dict(zip(SUMS, sums.tolist(), strict=True))
    tokens = total["tokens"]
    if tokens == 0:
        return {}
    squared = total["sampler_weight_squared"]
    return {
        "entropy": total["entropy"] / tokens,
        "clip_fraction": total["clipped"] / tokens,
        "ratio_mean": total["ratio"] / tokens,
        "kl_old": total["kl_old"] / tokens,
        "kl_reference": total["kl_reference"] / tokens,
        "sampler_kl": total["sampler_k3"] / tokens,
        "sampler_ess": total["sampler_weight"] ** 2 / (tokens * squared) if squared > 0 else 0.0,
        "sampler_gap": total["sampler_gap"] / tokens,
    }
