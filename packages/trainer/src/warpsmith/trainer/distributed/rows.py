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
    """One sequence: token ids, and which of them count in the loss.

    Attributes:
        ids: (T,) token ids.
        mask: (T,) 1 on tokens that count in the loss.
    """

    ids: Ints
    mask: Ints

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PaddedRows:
    """B rows, right-padded to the longest; every tensor (B, T), int64."""

    ids_BT: Tensor
    attention_BT: Tensor
    mask_BT: Tensor


def pad_rows(rows: Sequence[Row], device: torch.device) -> PaddedRows:
    """Pad rows on the right; no rows become one row of two tokens that do not count in the loss.

    With that row a rank without work takes part in the collectives of a forward and a backward pass.
    """
    rows = rows or [Row(np.zeros(2, np.int64), np.zeros(2, np.int64))]
    width = max(len(row) for row in rows)
    return PaddedRows(
        ids_BT=pad([row.ids for row in rows], width, device),
        attention_BT=pad([np.ones_like(row.ids) for row in rows], width, device),
        mask_BT=pad([row.mask for row in rows], width, device),
    )


def pad(values: Sequence[NDArray[np.generic]], width: int, device: torch.device) -> Tensor:
    """Return `values` as rows of one tensor, padded with zeros on the right."""
    out = np.zeros((len(values), width), dtype=values[0].dtype)
    for row, value in enumerate(values):
        out[row, : len(value)] = value
    return torch.from_numpy(out).to(device)
