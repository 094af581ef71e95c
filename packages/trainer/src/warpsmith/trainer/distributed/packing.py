# ruff: noqa: N815  the suffix is the tensor's shape
"""Packs the rows of a micro-batch into one row without padding for the forward pass.

Only the model sees the packed row. Its log-probabilities are copied back to padded rows, so that loss and metrics do
not depend on packing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.logprobs import TokenFigures, token_figures
from warpsmith.policy.packing import check_packing, check_split
from warpsmith.policy.sequence_parallel import Split
from warpsmith.trainer.distributed.rows import PaddedRows
from warpsmith.trainer.errors import ConfigError


@dataclass(frozen=True)
class PackedRow:
    """B sequences of K tokens in total, as one row; int64.

    Attributes:
        ids_1K, mask_1K: as in the padded rows.
        positions_1K: restart at 0 at each sequence; only this separates the sequences.
        place_K: index of each token in the flattened padded rows.
        shape: (B, T) of the padded rows.
    """

    ids_1K: Tensor
    mask_1K: Tensor
    positions_1K: Tensor
    place_K: Tensor
    shape: torch.Size


def pack(rows: PaddedRows) -> PackedRow:
    """Concatenate right-padded rows without their padding."""
    place_K = rows.attention_BT.reshape(-1).nonzero().squeeze(1)
    return PackedRow(
        ids_1K=rows.ids_BT.reshape(-1)[place_K][None],
        mask_1K=rows.mask_BT.reshape(-1)[place_K][None],
        positions_1K=(place_K % rows.ids_BT.shape[1])[None],
        place_K=place_K,
        shape=rows.ids_BT.shape,
    )


def unpack(values_1K: Tensor, packed: PackedRow) -> Tensor:
    """Return a per-token figure as (B, T), 0 on padding; gradients flow through."""
    flat_N = values_1K.new_zeros(packed.shape.numel())
    return flat_N.index_copy(0, packed.place_K, values_1K[0]).reshape(packed.shape)


class Scorer:
    """Computes a model's log-probabilities of padded rows.

    Args:
        model: a transformers causal language model, bare or wrapped by DeepSpeed.
        packing: concatenate the rows for the forward pass.
        value_head: the model's value head; None without one.
        split: the ranks that share the rows; None if each has rows of its own.
    """

    def __init__(
        self, model: nn.Module, *, packing: bool, value_head: nn.Module | None = None, split: Split | None = None
    ) -> None:
        self._model = model
        self._split = split
        self._value_head = value_head
        self._packing = packing
        self._checked = False

    def logprobs(self, rows: PaddedRows, temperature: float) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies of the rows' completion tokens, (B, T) fp32 each; collective.

        Raises:
            ConfigError: packing is on, and the model would mix the rows; or ranks share rows, and it would not see the
                whole ones.
        """
        found = self.figures(rows, temperature)
        return found.logprobs_BT, found.entropy_BT

    def figures(self, rows: PaddedRows, temperature: float, *, greedy: bool = False) -> TokenFigures:
        """Return the same, plus the values before those tokens (value head) and the likeliest tokens (`greedy`)."""
        self._check(rows.ids_BT.device)
        if not self._packing:
            return token_figures(
                self._model,
                rows.ids_BT,
                rows.attention_BT,
                temperature,
                select_BT=rows.mask_BT,
                value_head=self._value_head,
                greedy=greedy,
                split=self._split,
            )
        packed = pack(rows)
        found = token_figures(
            self._model,
            packed.ids_1K,
            torch.ones_like(packed.ids_1K),
            temperature,
            packed.positions_1K,
            select_BT=packed.mask_1K,
            value_head=self._value_head,
            greedy=greedy,
            split=self._split,
        )
        value_BT = None if found.value_BT is None else unpack(found.value_BT, packed)
        greedy_BT = None if found.greedy_BT is None else unpack(found.greedy_BT, packed)
        return TokenFigures(unpack(found.logprobs_BT, packed), unpack(found.entropy_BT, packed), value_BT, greedy_BT)

    def _check(self, device: torch.device) -> None:
        """Check once, independently of the rows, that the model computes what is requested; every rank must call it."""
        if self._checked:
            return
        key = "zero.packing = false"
        try:
            if self._packing:
                check_packing(self._model, device)
            key = "parallel.sequence = 1"
            if self._split is not None:
                check_split(self._model, device, self._split)
        except UnsupportedModelError as error:
            raise ConfigError(error.message, f"Set {key}.") from error
        self._checked = True
