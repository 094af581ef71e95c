"""Figures of an update as sums, so that micro-batches and ranks add up to the figures of the whole batch.

`token_sums` are over all tokens of a micro-batch, `row_sums` one row each.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warpsmith.trainer.objective import clip, correction
from warpsmith.trainer.objective.divergence import divergence
from warpsmith.trainer.objective.loss import MicroBatch
from warpsmith.trainer.objective.ratio import log_ratio
from warpsmith.trainer.objective.spec import ObjectiveSpec

SUMS = (
    "tokens", "entropy", "clipped", "ratio", "kl_old", "kl_reference",
    "sampler_k3", "sampler_weight", "sampler_weight_squared", "sampler_gap", "rejected",
)  # fmt: skip

ROW_SUMS = ("tokens", "ratio", "ratio_max", "clipped", "kl_reference")
"""All add up over micro-batches and ranks because each row is in one of them alone; `ratio_max` is a largest value."""

# Of a log-ratio: beyond it the exponential says nothing more, and might overflow.
_LOG_RATIO_LIMIT = 20.0


def token_sums(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return the sums named by SUMS over the completion tokens of rows that count, fp64, without gradient."""
    with torch.no_grad():
        used_BT = (batch.mask_BT > 0) & (batch.weight_B1 > 0)
        ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
        gap_BT = batch.logprobs_BT - batch.sampler_BT
        weight_BT = _sampler_ratio(batch)
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
            _rejected(batch, spec),
        )
        return torch.stack([column_BT[used_BT].double().sum() for column_BT in columns])


def row_sums(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return ROW_SUMS of each row's completion tokens, (B, len(ROW_SUMS)) in fp64, without gradient.

    The ratio is trainer to sampler, token by token; `clipped` counts where the clip takes the gradient away, as in
    `token_sums`.
    """
    with torch.no_grad():
        used_BT = batch.mask_BT > 0
        ratio_BT = _sampler_ratio(batch)
        spec_ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
        kl_BT = torch.zeros_like(ratio_BT)
        if batch.reference_BT is not None:
            kl_BT = divergence(batch.logprobs_BT, batch.reference_BT, "k3")
        clipped_BT = clip.outside(spec_ratio_BT, batch.advantage_B1, spec.clip_low, spec.clip_high)

        def total(column_BT: Tensor) -> Tensor:
            return torch.where(used_BT, column_BT, torch.zeros_like(column_BT)).double().sum(-1)

        largest_B = torch.where(used_BT, ratio_BT, torch.zeros_like(ratio_BT)).double().amax(-1)
        return torch.stack(
            [total(torch.ones_like(ratio_BT)), total(ratio_BT), largest_B, total(clipped_BT), total(kl_BT)], dim=-1
        )


def row_figures(sums: Tensor, *, reference: bool) -> Mapping[str, NDArray[np.float64]]:
    """Return the ratio columns of `credits` from summed ROW_SUMS of N rows, each (N,); NaN where nothing was computed.

    Args:
        sums: (N, len(ROW_SUMS)); rows that no micro-batch held are 0.
        reference: whether there was a reference policy; without one `kl_mean` is NaN.
    """
    total = dict(zip(ROW_SUMS, sums.numpy().T, strict=True))
    tokens = np.where(total["tokens"] > 0, total["tokens"], np.nan)
    return {
        "ratio_mean": total["ratio"] / tokens,
        "ratio_max": np.where(np.isnan(tokens), np.nan, total["ratio_max"]),
        "clipped_fraction": total["clipped"] / tokens,
        "kl_mean": total["kl_reference"] / tokens if reference else np.full(len(tokens), np.nan),
    }


def _sampler_ratio(batch: MicroBatch) -> Tensor:
    """Return the importance weight trainer / sampler of each token, (B, T)."""
    return (batch.logprobs_BT - batch.sampler_BT).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp()


def _rejected(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return 1 for each token that the correction takes out of the loss, (B, T)."""
    if spec.correction != "masked":
        return torch.zeros_like(batch.logprobs_BT)
    return correction.rejected(
        batch.old_BT,
        batch.sampler_BT,
        batch.mask_BT,
        low=spec.correction_low,
        high=spec.correction_high,
        kind=spec.ratio,
    ).to(batch.logprobs_BT.dtype)


def figures(sums: Tensor) -> Mapping[str, float]:
    """Return means over tokens from summed SUMS.

    `sampler_ess` is the effective sample size of the importance weights trainer / sampler as a share of the tokens:
    (sum w)^2 / (n sum w^2), 1 where the two agree (Kong, 1992). `sampler_rejected` is the share of tokens that the
    `masked` correction takes out of the loss, 0 without it.
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
        "sampler_rejected": total["rejected"] / tokens,
    }
