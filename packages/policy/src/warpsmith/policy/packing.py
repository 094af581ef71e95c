# ruff: noqa: N815  the suffix is the tensor's shape
"""Tests whether a model separates the sequences of a packed row, and whether ranks can share a row, before it is used.

Most transformers models do if positions restart. Those whose layers carry state along the row, or whose mask ignores
positions, silently do not.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.logprobs import token_figures, token_logprobs, unwrap
from warpsmith.policy.sequence_parallel import Split

TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.1}
"""Largest mean difference of log-probabilities, in nats, that rounding explains, by the dtype of the weights."""

_LENGTHS = (9, 12)
# Neighbours in an arithmetic sequence with this step are far apart in any vocabulary.
_STRIDE = 7919


class _Pair(NamedTuple):
    """The same two sequences as separate rows, and both in one row."""

    separate_BT: Tensor
    attention_BT: Tensor
    packed_1K: Tensor
    positions_1K: Tensor


def check_packing(model: nn.Module, device: torch.device) -> None:
    """Reject a model whose log-probabilities depend on the rest of the row.

    Two short sequences are run as separate rows and in one row: two forward passes without gradient, in evaluation
    mode; under ZeRO stage 3 every rank must call it.

    Args:
        model: a transformers causal language model, bare or wrapped.
        device: where its inputs are expected.

    Raises:
        UnsupportedModelError: the second sequence has different log-probabilities after the first than alone.
    """
    base = unwrap(model)
    was_training = base.training
    model.eval()
    try:
        gap = _gap(model, _pair(int(base.config.get_text_config().vocab_size), device))
    finally:
        model.train(was_training)
    # Written so that NaN is rejected too.
    if not gap <= TOLERANCE[base.dtype]:
        raise UnsupportedModelError(
            f"{type(base).__name__} does not separate the sequences of a packed row: after another sequence, the "
            f"log-probabilities of a sequence change by {gap:.3g} on average; rounding explains "
            f"{TOLERANCE[base.dtype]:g}.",
            "Use one sequence per row, padded on the right.",
        )


def check_split(model: nn.Module, device: torch.device, split: Split) -> None:
    """Reject a model whose log-probabilities depend on how many ranks share a row.

    A model does if a layer other than attention looks at other tokens, or if it does not pass on to attention what its
    caller passes. Two sequences in one row, whose border is not that of the parts, are run whole on each rank, and
    then shared: two forward passes without gradient, in evaluation mode; every rank must call it.

    Args:
        model: a transformers causal language model with `varlen` attention, bare or wrapped.
        device: where its inputs are expected.
        split: the ranks that share a row.

    Raises:
        UnsupportedModelError: the log-probabilities differ.
    """
    base = unwrap(model)
    was_training = base.training
    model.eval()
    try:
        pair = _pair(int(base.config.get_text_config().vocab_size), device)
        row = (pair.packed_1K, torch.ones_like(pair.packed_1K), 1.0, pair.positions_1K)
        with torch.no_grad():
            alone, shared = token_figures(model, *row), token_figures(model, *row, split=split)
    finally:
        model.train(was_training)
    gap = float((shared.logprobs_BT - alone.logprobs_BT).abs().mean())
    if not gap <= TOLERANCE[base.dtype]:
        raise UnsupportedModelError(
            f"{type(base).__name__} gives other log-probabilities where {split.size} ranks share a row: they differ by "
            f"{gap:.3g} on average; rounding explains {TOLERANCE[base.dtype]:g}.",
            "Let each rank have whole rows.",
        )


def _gap(model: nn.Module, pair: _Pair) -> float:
    first, second = _LENGTHS
    with torch.no_grad():
        separate_BT, _ = token_logprobs(model, pair.separate_BT, pair.attention_BT)
        packed_1K, _ = token_logprobs(
            model, pair.packed_1K, torch.ones_like(pair.packed_1K), position_ids_BT=pair.positions_1K
        )
    return float((packed_1K[0, first:] - separate_BT[1, :second]).abs().mean())


def _pair(vocabulary: int, device: torch.device) -> _Pair:
    ids_K = torch.arange(1, sum(_LENGTHS) + 1, device=device) * _STRIDE % vocabulary
    rows = [ids_K[: _LENGTHS[0]], ids_K[_LENGTHS[0] :]]
    positions = [torch.arange(len(row), device=device) for row in rows]
    return _Pair(
        separate_BT=nn.utils.rnn.pad_sequence(rows, batch_first=True),
        attention_BT=nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
        packed_1K=ids_K[None],
        positions_1K=torch.cat(positions)[None],
    )
