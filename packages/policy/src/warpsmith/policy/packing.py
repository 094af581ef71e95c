# ruff: noqa: N815  the suffix is the tensor's shape
"""Whether a model separates the sequences of a packed row: tested on the model before it is used.

Most transformers models do so where positions restart. Those whose layers carry a state along the row, or that make
their mask without looking at the positions, do not, and say nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.logprobs import token_logprobs, unwrap

TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.1}
"""Largest mean gap of log-probabilities, in nats, that rounding explains, by the dtype of the weights."""

_LENGTHS = (9, 12)
# Neighbours of an arithmetic sequence with this step are far from each other in any vocabulary.
_STRIDE = 7919


class _Asked(NamedTuple):
    """The same two sequences one a row, and both in one row."""

    apart_BT: Tensor
    attention_BT: Tensor
    packed_1K: Tensor
    positions_1K: Tensor


def check_packing(model: nn.Module, device: torch.device) -> None:
    """Refuse a model whose log-probabilities depend on the rest of the row.

    Two short sequences go through it one a row, and both in one row. Two forward passes without gradient, in
    evaluation mode; under ZeRO stage 3 every rank has to call it.

    Args:
        model: a transformers causal language model, bare or wrapped.
        device: where its inputs are expected.

    Raises:
        UnsupportedModelError: the second sequence has other log-probabilities after the first than alone.
    """
    base = unwrap(model)
    was_training = base.training
    model.eval()
    try:
        gap = _gap(model, _asked(int(base.config.get_text_config().vocab_size), device))
    finally:
        model.train(was_training)
    # Written so that a NaN is refused too.
    if not gap <= TOLERANCE[base.dtype]:
        raise UnsupportedModelError(
            f"{type(base).__name__} does not separate the sequences of a packed row: after another sequence, the "
            f"log-probabilities of a sequence change by {gap:.3g} on average; rounding explains "
            f"{TOLERANCE[base.dtype]:g}.",
            "Use one sequence for each row, padded on the right.",
        )


def _gap(model: nn.Module, asked: _Asked) -> float:
    first, second = _LENGTHS
    with torch.no_grad():
        apart_BT, _ = token_logprobs(model, asked.apart_BT, asked.attention_BT)
        packed_1K, _ = token_logprobs(
            model, asked.packed_1K, torch.ones_like(asked.packed_1K), position_ids_BT=asked.positions_1K
        )
    return float((packed_1K[0, first:] - apart_BT[1, :second]).abs().mean())


def _asked(vocabulary: int, device: torch.device) -> _Asked:
    ids_K = torch.arange(1, sum(_LENGTHS) + 1, device=device) * _STRIDE % vocabulary
    rows = [ids_K[: _LENGTHS[0]], ids_K[_LENGTHS[0] :]]
    positions = [torch.arange(len(row), device=device) for row in rows]
    return _Asked(
        apart_BT=nn.utils.rnn.pad_sequence(rows, batch_first=True),
        attention_BT=nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
        packed_1K=ids_K[None],
        positions_1K=torch.cat(positions)[None],
    )
