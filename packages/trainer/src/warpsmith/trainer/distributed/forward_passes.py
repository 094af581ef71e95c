"""Forward passes without gradient, for row metrics that credit needs before the update; shared by the ranks."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warpsmith.trainer.config.sections import ZeroSection
from warpsmith.trainer.distributed.micro_batches import dealt_to, micro_batches_of
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import Reference
from warpsmith.trainer.distributed.rows import Floats, PaddedRows, Row, pad, pad_rows
from warpsmith.trainer.distributed.value_head import first_marked_value
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.loss.divergence import divergence
from warpsmith.trainer.loss.objective_spec import Divergence

Measure = Callable[[PaddedRows, Sequence[int]], Tensor]


def by_row(
    rows: Sequence[Row], chosen: NDArray[np.bool_], measure: Measure, *, ranks: Ranks, zero: ZeroSection
) -> NDArray[np.float64]:
    """Return a figure of each row on every rank, (N,); NaN for rows not chosen. Collective.

    Args:
        rows: all rows, the same on every rank.
        chosen: the rows to measure, (N,).
        measure: takes padded rows and their indices, returns (B,). A rank without rows left passes it a row of padding
            and no indices.
        ranks: the processes.
        zero: micro-batch size and packing.
    """
    numbers = np.flatnonzero(chosen)
    lengths = [len(rows[i]) for i in numbers]
    batches = micro_batches_of(lengths, zero, ranks)
    found_N = torch.zeros(len(rows), dtype=torch.float64)
    with torch.no_grad():
        for batch in dealt_to(ranks, batches) if len(numbers) else ():
            mine = [int(numbers[i]) for i in batch]
            values_B = measure(pad_rows([rows[i] for i in mine], ranks.device), mine)
            found_N[mine] = values_B[: len(mine)].double().cpu()
    return np.where(chosen, ranks.total(found_N).numpy(), np.nan)


def state_values(engine: ZeroEngine, rows: Sequence[Row], ranks: Ranks, zero: ZeroSection) -> NDArray[np.float64]:
    """Return the value head's value of the state before each row's first marked token, (N,); collective.

    Leaves the engine in evaluation mode: dropout would be noise in the values.

    Args:
        engine: an engine with a value head.
        rows: prompts, as `warpsmith.trainer.rollouts.batch.state_rows` makes them; an empty prompt has no value.
        ranks: the processes.
        zero: micro-batch size and packing.
    """

    def measure(padded: PaddedRows, _: Sequence[int]) -> Tensor:
        return first_marked_value(engine.figures(padded, 1.0).value_BT, padded.mask_BT).squeeze(1)

    engine.train(False)
    return by_row(rows, np.array([len(row) > 1 for row in rows], bool), measure, ranks=ranks, zero=zero)


def reference_divergence(
    reference: Reference,
    rows: Sequence[Row],
    sampler: Sequence[Floats],
    kind: Divergence,
    *,
    temperature: float,
    ranks: Ranks,
    zero: ZeroSection,
) -> NDArray[np.float64]:
    """Return each row's divergence from the reference policy summed over its marked tokens, (N,) in nats; collective.

    Args:
        reference: the frozen policy.
        rows: prompts and completions.
        sampler: log-probabilities of the sampling policy, aligned with the rows.
        kind: the estimator per token.
        temperature: the temperature they were sampled at.
        ranks: the processes.
        zero: micro-batch size and packing.
    """

    def measure(padded: PaddedRows, numbers: Sequence[int]) -> Tensor:
        reference_BT = reference.logprobs(padded, temperature)
        if not numbers:
            return reference_BT.sum(-1)
        sampler_BT = pad([sampler[i] for i in numbers], padded.ids_BT.shape[1], ranks.device)
        kl_BT = divergence(sampler_BT, reference_BT, kind)
        return torch.where(padded.mask_BT > 0, kl_BT, torch.zeros_like(kl_BT)).sum(-1)

    chosen = np.array([bool(row.mask.any()) for row in rows], bool)
    return by_row(rows, chosen, measure, ranks=ranks, zero=zero)
