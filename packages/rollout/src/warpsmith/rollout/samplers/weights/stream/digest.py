"""A 64-bit digest of a tensor's bytes, computed on its own device and equal on all devices.

The bytes are 32-bit words in rows. A row's digest is the sum of word times weight modulo 2^64, with a fixed odd random
weight for each column; so every change of a single word changes it, and a change of several words does, except by
chance. The row digests are mixed with their numbers and added up. It finds errors, not attacks.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_COLUMNS = 1 << 14
_ROWS_AT_ONCE = 1 << 11
"""Bounds the products in memory: 256 MiB."""

_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class DigestBatch:
    """Digests of several tensors of one device.

    A tensor costs two or three operations of its device when it is added; what mixes the rows costs one set of
    operations for all. A model has hundreds of small tensors, whose digests would otherwise wait for launches.
    """

    def __init__(self) -> None:
        self._rows: list[Tensor] = []
        self._counts: list[int] = []
        self._sizes: list[int] = []

    def add(self, tensor: "Tensor") -> None:
        """Compute the digests of a tensor's rows, in the order of its device's work; it may change afterwards."""
        import torch

        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if raw.storage_offset() % 4:
            # Words must be aligned; a parameter in the middle of a flat buffer may not be.
            raw = raw.clone()
        rows = list(_rows(raw))
        self._rows += rows
        self._counts.append(sum(row.numel() for row in rows))
        self._sizes.append(raw.numel())

    def digests(self) -> "Tensor":
        """Return the digests of all tensors added, int64 of shape (tensors,), on their device."""
        import torch

        counts = torch.tensor(self._counts, dtype=torch.int64)
        owners_R = torch.repeat_interleave(torch.arange(len(counts)), counts)
        numbers_R = torch.arange(1, len(owners_R) + 1) - (counts.cumsum(0) - counts)[owners_R]
        sizes = torch.tensor(self._sizes, dtype=torch.int64)
        if not self._rows:
            return _mixed(sizes)
        rows_R = torch.cat(self._rows)
        device = rows_R.device
        mixed_R = _mixed(rows_R + (numbers_R * _signed(_GOLDEN)).to(device))
        return _mixed(sizes.to(device).index_add_(0, owners_R.to(device), mixed_R))

    def read(self) -> list[int]:
        """Return the digests as numbers, with one wait for their device."""
        return [int(value) for value in self.digests().tolist()]


def digests_of(tensors: Iterable["Tensor"]) -> list[int]:
    """Return the digests of tensors of one device, with one wait for it."""
    batch = DigestBatch()
    for tensor in tensors:
        batch.add(tensor)
    return batch.read()


def _rows(raw: "Tensor") -> Iterator["Tensor"]:
    """Yield the digests of rows, the last of which can be shorter, and that of the last one to three bytes."""
    import torch

    whole = raw.numel() // 4 * 4
    words = raw[:whole].view(torch.int32)
    weights = _weights(str(raw.device))
    full = words.numel() // _COLUMNS
    table_RC = words[: full * _COLUMNS].view(full, _COLUMNS)
    for begin in range(0, full, _ROWS_AT_ONCE):
        yield (table_RC[begin : begin + _ROWS_AT_ONCE] * weights).sum(1)
    if rest := words.numel() - full * _COLUMNS:
        yield (words[-rest:] * weights[:rest]).sum().reshape(1)
    if whole < raw.numel():
        yield (_padded(raw[whole:]) * weights[:1]).sum().reshape(1)


def _padded(rest: "Tensor") -> "Tensor":
    """Return up to three bytes as one word, filled up with zeros."""
    import torch

    word = torch.zeros(4, dtype=torch.uint8, device=rest.device)
    word[: rest.numel()] = rest
    return word.view(torch.int32)


@lru_cache(maxsize=8)
def _weights(device: str) -> "Tensor":
    import torch

    numbers = torch.arange(1, _COLUMNS + 1)
    return (_mixed(numbers * _signed(_GOLDEN)) | 1).to(device)


def _mixed(values: "Tensor") -> "Tensor":
    """Return splitmix64's finisher of each value."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        values = (values ^ _shifted(values, shift)) * _signed(multiplier)
    return values ^ _shifted(values, 31)


def _shifted(values: "Tensor", by: int) -> "Tensor":
    """Shift right and fill with zeros: torch's own shift repeats the sign."""
    return (values >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
