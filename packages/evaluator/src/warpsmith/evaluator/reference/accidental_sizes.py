"""Finds other sizes that torch accepts by accident: a forward broadcasts or clips where it does not with the sample's.

Boxes of three numbers, written `t[:, :2] - t[:, 2:]`, subtract one column from two. `x[:length]` of fewer rows than
`length`, or `x[-8:]` of five, is shorter than it says. The problem does not mean either, and no candidate can be
expected to compute the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from warpsmith.evaluator.operator_mode import OperatorMode

MOST: Final = 10_000
"""Operators of one run that are noted."""

Operation = tuple[str, frozenset[int]]
"""An elementwise operator, and the dimensions along which it broadcasts an operand; the last one is 0."""


@dataclass
class Run:
    """What a forward did that depends on how sizes relate.

    Attributes:
        operations: its elementwise operators in order.
        clipped: the dimensions, counted from the first, of which it takes a slice that begins or ends beyond them.
    """

    operations: list[Operation] = field(default_factory=list)
    clipped: set[int] = field(default_factory=set)


class RunObserver:
    """Notes elementwise operators and clipped slices of what runs inside it.

    Attributes:
        run: what was noted.
    """

    def __init__(self) -> None:
        self.run = Run()
        self._modes = ExitStack()

    def __enter__(self) -> Self:
        self._modes.enter_context(_Broadcasts(self.run))
        # Torch returns the tensor itself for a slice that holds all of it, so the dispatcher does not see `x[:20]`.
        self._modes.enter_context(_Slices(self.run))
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


class _Slices(TorchFunctionMode):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__getitem__:
            self._run.clipped.update(_clipped(*args))
        return func(*args, **(kwargs or {}))


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
    """Whether a run broadcasts or clips what the sample's run did not."""
    return bool(run.clipped - sample.clipped) or _broadcasts_more(run.operations, sample.operations)


def _broadcasts_more(run: Sequence[Operation], sample: Sequence[Operation]) -> bool:
    """Whether a run broadcasts what the sample's run did not.

    Operators are compared one by one. Where a run has others than the sample, as a loop over a size makes them, each
    is compared with all of the sample's.
    """
    if [name for name, _ in run] == [name for name, _ in sample]:
        return any(dims - before for (_, dims), (_, before) in zip(run, sample, strict=True))
    known = set(sample)
    return any(dims and (name, dims) not in known for name, dims in run)
