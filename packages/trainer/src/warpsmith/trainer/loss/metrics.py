"""Metrics of an update as sums, so that micro-batches and ranks add up to the metrics of the whole batch.

`token_sums` sums over all tokens of a micro-batch, `row_sums` over each row.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warpsmith.trainer.loss import correction
from warpsmith.trainer.loss.divergence import divergence
from warpsmith.trainer.loss.objective_spec import ObjectiveSpec
from warpsmith.trainer.loss.policy_loss import MicroBatch
from warpsmith.trainer.loss.ratio import log_ratio
from warpsmith.trainer.loss.value_loss import ValueBatch

SUMS = (
    "tokens", "entropy", "clipped", "ratio", "kl_old", "kl_reference",
    "sampler_k3", "sampler_weight", "sampler_weight_squared", "sampler_gap", "rejected", "clipped_high",
)  # fmt: skip

ROW_SUMS = ("tokens", "ratio", "ratio_max", "clipped", "kl_reference")
"""All sum over ranks, because each row is on only one of them; over epochs `ratio_max` is the maximum."""

CRITIC_SUMS = ("rows", "target", "target_squared", "error", "error_squared", "value")
"""Of the value head, over turns; `error` is target - V."""

# Limit of a log-ratio: beyond it the exponential is meaningless and could overflow.
_LOG_RATIO_LIMIT = 20.0

# Limit of the targets' variance: below it they differ only by rounding.
_NO_SPREAD = 1e-12


def token_sums(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return the sums named by SUMS over the completion tokens of counted rows, fp64, without gradient."""
    with torch.no_grad():
        used_BT = (batch.mask_BT > 0) & (batch.weight_B1 > 0)
        ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
        gap_BT = batch.logprobs_BT - batch.sampler_BT
        weight_BT = _sampler_ratio(batch)
        low_BT, high_BT = spec.clip.active(ratio_BT, batch.advantage_B1)
        kl_BT = torch.zeros_like(gap_BT)
        if batch.reference_BT is not None:
            kl_BT = divergence(batch.logprobs_BT, batch.reference_BT, "k3")
        columns = (
            torch.ones_like(gap_BT),
            batch.entropy_BT,
            (low_BT | high_BT).to(gap_BT.dtype),
            ratio_BT,
            # The tokens come from the old policy and the sampler, so they can estimate only the KLs old || new and
            # sampler || trainer.
            divergence(batch.old_BT, batch.logprobs_BT, "k3"),
            kl_BT,
            divergence(batch.sampler_BT, batch.logprobs_BT, "k3"),
            weight_BT,
            weight_BT.square(),
            gap_BT.abs(),
            _rejected(batch, spec),
            high_BT.to(gap_BT.dtype),
        )
        return torch.stack([column_BT[used_BT].double().sum() for column_BT in columns])


def row_sums(batch: MicroBatch, spec: ObjectiveSpec) -> Tensor:
    """Return ROW_SUMS of each row's completion tokens, (B, len(ROW_SUMS)) in fp64, without gradient.

    The ratio is trainer to sampler, per token; `clipped` counts where the clip is active, as in `token_sums`.
    """
    with torch.no_grad():
        used_BT = batch.mask_BT > 0
        ratio_BT = _sampler_ratio(batch)
        spec_ratio_BT = log_ratio(batch.logprobs_BT, batch.old_BT, batch.mask_BT, spec.ratio).exp()
        kl_BT = torch.zeros_like(ratio_BT)
        if batch.reference_BT is not None:
            kl_BT = divergence(batch.logprobs_BT, batch.reference_BT, "k3")
        low_BT, high_BT = spec.clip.active(spec_ratio_BT, batch.advantage_B1)
        clipped_BT = (low_BT | high_BT).to(ratio_BT.dtype)

        def total(column_BT: Tensor) -> Tensor:
            return torch.where(used_BT, column_BT, torch.zeros_like(column_BT)).double().sum(-1)

        largest_B = torch.where(used_BT, ratio_BT, torch.zeros_like(ratio_BT)).double().amax(-1)
        return torch.stack(
            [total(torch.ones_like(ratio_BT)), total(ratio_BT), largest_B, total(clipped_BT), total(kl_BT)], dim=-1
        )


def row_figures(sums: Tensor, *, reference: bool) -> Mapping[str, NDArray[np.float64]]:
    """Return the ratio columns of `credits` from summed ROW_SUMS of N rows, each (N,); NaN if nothing was computed.

    Args:
        sums: (N, len(ROW_SUMS)); rows that were in no micro-batch are 0.
        reference: whether there was a reference policy; otherwise `kl_mean` is NaN.
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
    """Return 1 for each token that the correction removes from the loss, (B, T)."""
    if spec.correction is None:
        return torch.zeros_like(batch.logprobs_BT)
    gone_BT = correction.rejected(batch.old_BT, batch.sampler_BT, batch.mask_BT, spec.correction)
    return gone_BT.expand_as(batch.mask_BT).to(batch.logprobs_BT.dtype)


def critic_sums(batch: ValueBatch) -> Tensor:
    """Return CRITIC_SUMS over counted turns, fp64, without gradient."""
    with torch.no_grad():
        used_B = (batch.weight_B1 > 0).squeeze(1)
        value_B, target_B = (column_B1.squeeze(1)[used_B].double() for column_B1 in (batch.value_B1, batch.target_B1))
        error_B = target_B - value_B
        columns = (
            torch.ones_like(value_B), target_B, target_B.square(), error_B, error_B.square(), value_B,
        )  # fmt: skip
        return torch.stack([column_B.sum() for column_B in columns])


def critic_figures(sums: Tensor) -> Mapping[str, float]:
    """Return means over turns from summed CRITIC_SUMS.

    `value_explained` is 1 - Var(target - V) / Var(target): 1 if the value head predicts the targets exactly, 0 if it is
    no better than a constant; omitted if all targets are equal.
    """
    total = dict(zip(CRITIC_SUMS, sums.tolist(), strict=True))
    rows = total["rows"]
    if rows == 0:
        return {}
    spread = total["target_squared"] / rows - (total["target"] / rows) ** 2
    unexplained = total["error_squared"] / rows - (total["error"] / rows) ** 2
    found = {
        "value_loss": 0.5 * total["error_squared"] / rows,
        "value_mean": total["value"] / rows,
        "value_target_mean": total["target"] / rows,
    }
    return found | ({"value_explained": 1.0 - unexplained / spread} if spread > _NO_SPREAD else {})


def figures(sums: Tensor) -> Mapping[str, float]:
    """Return means over tokens from summed SUMS.

    `sampler_ess` is the effective sample size of the importance weights trainer / sampler as a share of the tokens:
    (sum w)^2 / (n sum w^2), 1 if the two agree (Kong, 1992). `sampler_rejected` is the share of tokens that the
    correction removes from the loss, 0 without a correction. `clip_fraction_high` is the part of `clip_fraction` at
    the upper bound.
    """
    total = dict(zip(SUMS, sums.tolist(), strict=True))
    tokens = total["tokens"]
    if tokens == 0:
        return {}
    squared = total["sampler_weight_squared"]
    return {
        "entropy": total["entropy"] / tokens,
        "clip_fraction": total["clipped"] / tokens,
        "clip_fraction_high": total["clipped_high"] / tokens,
        "ratio_mean": total["ratio"] / tokens,
        "kl_old": total["kl_old"] / tokens,
        "kl_reference": total["kl_reference"] / tokens,
        "sampler_kl": total["sampler_k3"] / tokens,
        "sampler_ess": total["sampler_weight"] ** 2 / (tokens * squared) if squared > 0 else 0.0,
        "sampler_gap": total["sampler_gap"] / tokens,
        "sampler_rejected": total["rejected"] / tokens,
    }
