"""Varies numbers that a problem draws one at a time: `[[random.gauss(0, 1) for _ in range(24)] for _ in range(10)]`.

A number is handed out before it is known which tensor it will become an element of. So the numbers of one place in the
source are a **stream**, and a run of `get_inputs` on plain numbers shows how many it has and which tensors they become.
In later runs, a block of such numbers is drawn as a tensor of that shape, varied like any tensor draw, and handed out
in order. The problem's code sees only the varied numbers, so what it computes from them is consistent.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy
import torch

LEAST_BLOCK: Final = 4
"""Streams of fewer numbers are not varied as a block: most are sizes, seeds or choices of a branch."""
MOST_BLOCK: Final = 1 << 20
"""Blocks of more numbers are left unchanged: drawing them one at a time takes seconds anyway."""


@dataclass(frozen=True)
class Block:
    """A tensor of a stream's numbers.

    Attributes:
        shape: its shape; of one dimension if the numbers become no tensor as they are.
        dtype: its dtype.
        becomes: whether the numbers become a tensor as they are, so that they can leave their range as in a draw.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    becomes: bool

    @property
    def numel(self) -> int:
        return torch.Size(self.shape).numel()

    @property
    def varies(self) -> bool:
        return LEAST_BLOCK <= self.numel <= MOST_BLOCK


SINGLE: Final = frozenset({torch.float32, torch.float64})
"""Dtypes whose numbers show which draw they come from."""
ROUNDINGS: Final = 8
"""Units of the last place by which computed numbers are off."""

Blocks = Mapping[str, tuple[Block, ...]]
"""The blocks of each stream, by its name."""


@dataclass
class _Stream:
    """The numbers of one place: those handed out since the last tensor of them, and those still to be handed out."""

    handed_out: list[Any] = field(default_factory=list)
    ahead: list[Any] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    begun: int = 0


class Streams:
    """The streams of one run of `get_inputs`.

    Attributes:
        known: the blocks that an earlier run found; None if there was none.
        met: whether this run drew a number from any stream.
    """

    def __init__(self, known: Blocks | None) -> None:
        self.known = known
        self.met = False
        self._streams: dict[str, _Stream] = {}

    def next(
        self,
        name: str,
        made: Any,
        again: Callable[[], Any],
        vary: Callable[[torch.Tensor, Block, str], Any],
        rare: Callable[[str, Any], Any] = lambda _, made: made,
    ) -> Any:
        """Return the next number of a stream, of the type of `made`.

        Args:
            name: the stream's name.
            made: a number that the original function just returned.
            again: calls that function again.
            vary: varies a block of the stream in place, given its site.
            rare: returns the new value, given its site, of a number in a short stream, which chooses a branch or a
                size.
        """
        self.met = True
        stream = self._streams.setdefault(name, _Stream())
        blocks = (self.known or {}).get(name, ())
        if not stream.ahead and blocks:
            block = blocks[min(stream.begun, len(blocks) - 1)]
            stream.begun += 1
            if block.numel < LEAST_BLOCK:
                made = rare(name, made)
            stream.ahead = _block(block, made, again, lambda tensor: vary(tensor, block, name))
        value = type(made)(stream.ahead.pop()) if stream.ahead else made
        stream.handed_out.append(value)
        return value

    def becomes(self, data: Any, made: torch.Tensor) -> set[str]:
        """Return the streams whose last numbers are the elements of a new tensor, in order; several may alternate.

        The elements of one stream may also be a number times each of its numbers plus another number: then no number
        chose a branch.
        """
        if not self.met or made.numel() < LEAST_BLOCK:
            return set()
        flat = list(_flat(data))
        for name, stream in self._streams.items():
            drawn = stream.handed_out[-len(flat) :]
            if flat == drawn or _are_scaled(flat, drawn, torch.float64):
                _take(stream, len(flat), Block(tuple(made.shape), made.dtype, becomes=True))
                return {name}
        counts = self._alternating(flat)
        for name, count in counts.items():
            _take(self._streams[name], count, Block((count,), made.dtype, becomes=True))
        return set(counts)

    def _alternating(self, flat: list[Any]) -> dict[str, int]:
        """Return how many of some floats each stream drew last, if each is the next one of some stream; else nothing.

        The next ones of a stream, from the last on.
        """
        counts: Counter[str] = Counter()
        for value in reversed(flat):
            names = (
                name
                for name, stream in self._streams.items()
                if counts[name] < len(stream.handed_out) and stream.handed_out[-1 - counts[name]] is value
            )
            found = next(names, None) if type(value) is float else None
            if found is None:
                return {}
            counts[found] += 1
        return {name: count for name, count in counts.items() if count}

    def fill(self, tensor: torch.Tensor) -> None:
        """Note that an input holds the numbers that a stream drew, if it does: code may have written each to it."""
        if not self.met or self.known is not None or tensor.dtype not in SINGLE or not tensor.numel() <= MOST_BLOCK:
            return
        flat = None
        for stream in self._streams.values():
            if len(stream.handed_out) == tensor.numel() >= LEAST_BLOCK:
                flat = flat or tensor.detach().flatten().tolist()
                if _are_scaled(flat, stream.handed_out, tensor.dtype):
                    _take(stream, len(flat), Block(tuple(tensor.shape), tensor.dtype, becomes=True))
                    return

    def blocks(self) -> Blocks:
        """Return the blocks of the streams of this run, in order."""
        return {name: (*stream.blocks, *_left(stream)) for name, stream in self._streams.items()}


def _take(stream: _Stream, count: int, block: Block) -> None:
    """Note that the last numbers of a stream became a block."""
    stream.handed_out = stream.handed_out[:-count]
    stream.blocks += [*_left(stream), block]
    stream.handed_out = []


def _are_scaled(made: list[Any], drawn: list[Any], dtype: torch.dtype) -> bool:
    """Whether numbers are drawn floats times a number plus another one, rounded to `dtype`."""
    if len(made) != len(drawn) or not all(isinstance(one, float) and math.isfinite(one) for one in (*made, *drawn)):
        return False
    (low, least), (high, most) = min(zip(drawn, made, strict=True)), max(zip(drawn, made, strict=True))
    factor = (most - least) / (high - low) if high > low else 0.0
    size = max(map(abs, made)) + abs(factor) * max(abs(low), abs(high))
    off = max(abs(least + factor * (x - low) - y) for x, y in zip(drawn, made, strict=True))
    return factor != 0 and off <= ROUNDINGS * torch.finfo(dtype).eps * size


def _left(stream: _Stream) -> Iterator[Block]:
    """Yield the block of the numbers that became no tensor since the last one."""
    if stream.handed_out:
        dtype = torch.int64 if isinstance(stream.handed_out[0], int | numpy.integer) else torch.float64
        yield Block((len(stream.handed_out),), dtype, becomes=False)


def _block(block: Block, made: Any, again: Callable[[], Any], vary: Callable[[torch.Tensor], Any]) -> list[Any]:
    """Draw a block and vary it; return its numbers in reverse. A block that does not vary has none."""
    if not block.varies:
        return []
    drawn = [made, *(again() for _ in range(block.numel - 1))]
    whole = isinstance(made, int | numpy.integer)
    tensor = torch.tensor(drawn, dtype=torch.int64 if whole else _wide(block.dtype)).reshape(block.shape)
    vary(tensor)
    numbers: list[Any] = tensor.flatten().tolist()
    return numbers[::-1]


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which a block is varied: a double tensor's numbers have all their bits."""
    return dtype if dtype.is_floating_point and not dtype.is_complex else torch.float64


def _flat(data: Any) -> Iterator[Any]:
    if isinstance(data, numpy.ndarray):
        yield from data.flatten().tolist()
    elif isinstance(data, list | tuple):
        for item in data:
            yield from _flat(item)
    else:
        yield data
