# ruff: noqa: N815  the suffix is the tensor's shape
"""Rows of tokens as right-padded tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One row: token ids, which of them carry loss, and where each sequence in it begins.

    Attributes:
        ids: (T,) token ids.
        mask: (T,) 1 on tokens that carry loss.
        positions: (T,) restarting at 0 for every sequence of a packed row; None for a single sequence.
    """

    ids: Ints
    mask: Ints
    positions: Ints | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PaddedRows:
    """B rows, right-padded to the longest; every tensor (B, T), int64."""

    ids_BT: Tensor
    attention_BT: Tensor
    mask_BT: Tensor
    positions_BT: Tensor | None


def pad_rows(rows: Sequence[Row], device: torch.device) -> PaddedRows:
    """Pad rows on the right; no rows at all become one of two tokens that carry no loss.

    That row lets a rank with nothing to do take part in the collectives of a forward and a backward pass.
    """
    rows = rows or [Row(np.zeros(2, np.int64), np.zeros(2, np.int64))]
    width = max(len(row) for row in rows)
    positions = None
    if any(row.positions is not None for row in rows):
        positions = pad([_positions(row) for row in rows], width, device)
    return PaddedRows(
        ids_BT=pad([row.ids for row in rows], width, device),
        attention_BT=pad([np.ones_like(row.ids) for row in rows], width, device),
        mask_BT=pad([row.mask for row in rows], width, device),
        positions_BT=positions,
    )


def pad(values: Sequence[NDArray[np.generic]], width: int, device: torch.device) -> Tensor:
    """Return `values` as rows of one tensor, zeros on the right."""
    out = np.zeros((len(values), width), dtype=values[0].dtype)
    for row, value in enumerate(values):
        out[row, : len(value)] = value
    return torch.from_numpy(out).to(device)


def _positions(row: Row) -> Ints:
    return np.arange(len(row), dtype=np.int64) if row.positions is None else row.positions
