"""Sizes of problems for a GPU: bytes drawn log-uniformly, then shapes that touch about as many.

Half of the shapes are awkward: no powers of two, odd rows.
"""

import math
import random
from dataclasses import dataclass
from typing import Final

from warpsmith.records.errors import UsageError

FLOAT_BYTES: Final = 4
_LEAST_COLUMNS: Final = 32
_LEAST_ROWS: Final = 16
_MANY_ROWS: Final = 512
"""Enough rows that one program per row fills a GPU of 132 multiprocessors."""
_NARROW: Final = 512
_MULTIPLE: Final = 48
"""Sizes that are a multiple of it stay aligned to 16 and are not powers of two."""


@dataclass(frozen=True)
class ByteRange:
    """Bytes that a problem reads and writes at least: every input once, every output once.

    Args:
        least: the smallest problem, in bytes.
        most: the largest problem, in bytes; at least four times `least`.

    Raises:
        UsageError: the range is too narrow for every shape, or below 8 KiB.
    """

    least: int
    most: int

    def __post_init__(self) -> None:
        if self.least < 8192 or self.most < 4 * self.least:
            raise UsageError(
                f"A problem of {self.least:,} to {self.most:,} bytes leaves too few sizes to draw.",
                "Begin at 8,192 bytes or more, and end at four times as many or more.",
            )

    def draw(self, rng: random.Random) -> int:
        """Return a number of bytes, log-uniform."""
        return round(math.exp(rng.uniform(math.log(self.least), math.log(self.most))))


GPU_BYTES: Final = ByteRange(1 << 20, 1 << 28)
"""1 MiB, where launching still counts, to 256 MiB, far beyond the L2 cache of an H100 (50 MB)."""


@dataclass(frozen=True)
class Budget:
    """The bytes of one problem.

    Args:
        target: about how many it touches.
        within: what it must not leave.
    """

    target: int
    within: ByteRange

    def elements(self, tensors: int) -> int:
        """Return about how many fp32 elements each of `tensors` equal tensors has."""
        return self.target // (FLOAT_BYTES * tensors)

    def count(self, rng: random.Random, each: int, fixed: int = 0) -> int:
        """Return a number of items (rows, batches) of `each` bytes that, with `fixed` bytes more, fit the budget."""
        fewest = max(1, -(-(self.within.least - fixed) // each))
        most = (self.within.most - fixed) // each
        wanted = styled(rng, max(1, (self.target - fixed) // each))
        return max(fewest, min(most, wanted))


def styled(rng: random.Random, size: int) -> int:
    """Return a size near `size`: a power of two, a multiple of 48, or, half of the time, any number."""
    style = rng.random()
    if style < 0.5 or size < _MULTIPLE:
        return size
    return 1 << (size.bit_length() - 1) if style < 0.75 else size - size % _MULTIPLE


def draw_columns(rng: random.Random, budget: Budget, tensors: int, widest: int) -> int:
    """Return the length of a row, log-uniform: up to `widest`, and never so long that few rows remain.

    Args:
        rng: draws it.
        budget: the problem's bytes.
        tensors: how many tensors of the matrix' size it touches.
        widest: the longest row.
    """
    elements = budget.elements(tensors)
    most = min(widest, max(elements // _MANY_ROWS, min(elements // _LEAST_ROWS, _NARROW)))
    low, high = math.log(min(_LEAST_COLUMNS, most)), math.log(most)
    return styled(rng, round(math.exp(rng.uniform(low, high))))
