"""Finds other sizes that torch accepts by accident: code broadcasts, clips or cuts in ways that the sample's do not.

Boxes of three numbers, written `t[:, :2] - t[:, 2:]`, subtract one column from two. `x[:length]` of fewer rows than
`length`, or `x[-8:]` of five, is shorter than written. The last third of `x.chunk(3, -1)` is shorter than the others
where 3 does not divide the side. The problem does not mean any of these, and no candidate can be expected to compute
the same. All this holds for `get_inputs` as well as `forward`: queries, keys and values cut from one tensor have one
shape.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from warpsmith.evaluator.operator_mode import OperatorMode

MOST: Final = 10_000
"""Maximum number of operators noted in one run."""
MOST_CUTS: Final = 64
"""Maximum number of sides noted as cut into equal pieces."""
CUTS_BY_COUNT: Final = frozenset({"chunk", "unsafe_chunk", "tensor_split", "hsplit", "vsplit", "dsplit"})
"""Functions that cut a tensor into a number of pieces."""
CUTS: Final = CUTS_BY_COUNT | {"split", "unsafe_split"}

Operation = tuple[str, frozenset[int]]
"""An elementwise operator, and the dimensions along which it broadcasts an operand; the last one is 0."""


class AccidentalSizesError(Exception):
    """Inputs of these sizes exist only by accident."""


@dataclass
class Run:
    """What code did that depends on how sizes relate.

    Attributes:
        operations: its elementwise operators in order.
        clipped: the dimensions, counted from the first, that it slices beyond their begin or end.
        uneven: the dimensions that it cuts into pieces, one of them shorter, other than by a list of sizes.
        pieces: for each side that it cuts into a number of equal pieces, that number; for several numbers, their common
            multiple.
    """

    operations: list[Operation] = field(default_factory=list)
    clipped: set[int] = field(default_factory=set)
    uneven: set[int] = field(default_factory=set)
    pieces: dict[int, int] = field(default_factory=dict)

    def note_cut(self, whole: torch.Tensor, pieces: Sequence[torch.Tensor], *, by_count: bool) -> None:
        """Note that `whole` was cut into `pieces`: into the requested number if `by_count`, else by their side."""
        cut = [dim for dim, side in enumerate(whole.shape) if side != pieces[0].shape[dim]]
        self.uneven.update(dim for dim in cut if len({piece.shape[dim] for piece in pieces}) > 1)
        if by_count and len(cut) == 1 and cut[0] not in self.uneven and len(self.pieces) < MOST_CUTS:
            side = whole.shape[cut[0]]
            self.pieces[side] = math.lcm(self.pieces.get(side, 1), len(pieces))


class RunObserver:
    """Notes elementwise operators, clipped slices and cuts of what runs inside it.

    Attributes:
        run: what was noted.
    """

    def __init__(self) -> None:
        self.run = Run()
        self._modes = ExitStack()

    def __enter__(self) -> Self:
        self._modes.enter_context(_Broadcasts(self.run))
        # torch returns the tensor itself for a slice that holds all of it, so the dispatcher does not see `x[:20]`.
        self._modes.enter_context(PartsObserver(self.run))
        return self

    def __exit__(self, *_: object) -> None:
        self._modes.close()


class _Broadcasts(OperatorMode):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.pointwise in func.tags and len(self._run.operations) < MOST:
            operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            self._run.operations.append((str(func.name()), frozenset(_broadcast(one.shape for one in operands))))
        return func(*args, **(kwargs or {}))


class PartsObserver(TorchFunctionMode):
    """Notes clipped slices and cuts of what runs inside it.

    Attributes:
        run: what was noted.
    """

    def __init__(self, run: Run | None = None) -> None:
        super().__init__()
        self.run = Run() if run is None else run

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__getitem__:
            self.run.clipped.update(_clipped(*args))
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        given = [*args, *(kwargs or {}).values()]
        # A cut by a list of sizes or positions is always as written.
        if name in CUTS and len(result) > 1 and not any(isinstance(one, list | tuple) for one in given):
            whole = next(one for one in given if isinstance(one, torch.Tensor))
            self.run.note_cut(whole, result, by_count=name in CUTS_BY_COUNT)
        return result


def pieces_of(reported: Mapping[str, Any]) -> dict[int, int]:
    """Return `Run.pieces` as a reference worker reported them; drop malformed entries."""
    some = list(reported.items())[:MOST_CUTS]
    return {int(side): count for side, count in some if side.isdecimal() and type(count) is int and count > 0}


def _clipped(tensor: torch.Tensor, index: Any) -> Iterator[int]:
    """Yield the dimensions in which an index is a slice that begins or ends beyond them."""
    items = index if isinstance(index, tuple) else (index,)
    left = tensor.ndim - sum(map(_dimensions, items))
    dim = 0
    for item in items:
        if isinstance(item, slice) and dim < tensor.ndim and _is_beyond(item, tensor.shape[dim]):
            yield dim
        dim += left if item is Ellipsis else _dimensions(item)


def _dimensions(item: Any) -> int:
    """Return how many dimensions a part of an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, torch.Tensor) and item.dtype == torch.bool else 1


def _is_beyond(part: slice, size: int) -> bool:
    return any(end is not None and not -size <= int(end) <= size for end in (part.start, part.stop))


def _broadcast(shapes: Iterable[Sequence[int]]) -> Iterator[int]:
    """Yield the dimensions, counted from the last, in which one shape has 1 and another one does not."""
    sides: dict[int, set[int]] = {}
    for shape in shapes:
        for dim, side in enumerate(reversed(shape)):
            sides.setdefault(dim, set()).add(side)
    yield from (dim for dim, found in sides.items() if 1 in found and len(found) > 1)


def is_accident(run: Run, sample: Run) -> bool:
    """Whether a run broadcasts, clips or cuts unevenly where the sample's run did not."""
    parts = bool(run.clipped - sample.clipped or run.uneven - sample.uneven)
    return parts or _broadcasts_more(run.operations, sample.operations)


def _broadcasts_more(run: Sequence[Operation], sample: Sequence[Operation]) -> bool:
    """Whether a run broadcasts where the sample's run did not.

    Operators are compared one by one. If a run has other operators than the sample's, for example from a loop over a
    size, each is compared with all of the sample's.
    """
    if [name for name, _ in run] == [name for name, _ in sample]:
        return any(dims - before for (_, dims), (_, before) in zip(run, sample, strict=True))
    known = set(sample)
    return any(dims and (name, dims) not in known for name, dims in run)
