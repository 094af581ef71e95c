"""A 64-bit digest of a tensor's bytes, computed on its own device and equal on all devices.

The bytes are 32-bit words in rows. A row's digest is the sum of word times weight modulo 2^64, with a fixed odd random
weight for each column; so every change of a single word changes it, and one of several words does but for chance. The
row digests are mixed with their numbers and added up. It finds errors, not attacks.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_COLUMNS = 1 << 14
_ROWS_AT_ONCE = 1 << 11
"""Bounds the products in memory: 256 MiB."""

_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def digest_of(tensor: "Tensor") -> "Tensor":
    """Return the digest of a tensor's bytes and their number, an int64 scalar on its device.

    Nothing waits for the device; read several digests at once with `read`.
    """
    import torch

    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    if raw.storage_offset() % 4:
        # Words must be aligned; a parameter in the middle of a flat buffer may not be.
        raw = raw.clone()
    whole = raw.numel() // 4 * 4
    words = raw[:whole].view(torch.int32)
    parts = [*_rows(words), _row(_padded(raw[whole:]))]
    rows_R = torch.cat(parts)
    numbers_R = torch.arange(1, rows_R.numel() + 1, device=raw.device)
    total = _mixed(rows_R + numbers_R * _signed(_GOLDEN)).sum()
    return _mixed(total + raw.numel())


def read(digests: Iterable["Tensor"]) -> list[int]:
    """Return digests as numbers, with one wait for their device."""
    import torch

    found = list(digests)
    return torch.stack(found).tolist() if found else []


def _rows(words: "Tensor") -> Iterable["Tensor"]:
    full = words.numel() // _COLUMNS
    table_RC = words[: full * _COLUMNS].view(full, _COLUMNS)
    for begin in range(0, full, _ROWS_AT_ONCE):
        yield (table_RC[begin : begin + _ROWS_AT_ONCE] * _weights(str(words.device))).sum(1)
    yield _row(words[full * _COLUMNS :])


def _row(words: "Tensor") -> "Tensor":
    return (words * _weights(str(words.device))[: words.numel()]).sum().reshape(1)


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
