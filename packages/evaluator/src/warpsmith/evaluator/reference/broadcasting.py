"""Finds tensors of other sizes that a forward broadcasts though it does not broadcast them in the sample's sizes.

Boxes of three numbers, written `t[:, :2] - t[:, 2:]`, subtract one column from two. Torch accepts that, but the problem
does not mean it, and no candidate can be expected to compute the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MOST: Final = 10_000
"""Operators of one run that are noted."""

Operation = tuple[str, frozenset[int]]
"""An elementwise operator, and the dimensions along which it broadcasts an operand; the last one is 0."""


class BroadcastFinder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the elementwise operators of a run.

    Attributes:
        operations: all of them in order.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping this for its compiler, which takes seconds to import and is not used here."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.pointwise in func.tags and len(self.operations) < MOST:
            operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            self.operations.append((str(func.name()), frozenset(_broadcast(one.shape for one in operands))))
        return func(*args, **(kwargs or {}))


def _broadcast(shapes: Iterable[Sequence[int]]) -> Iterator[int]:
    """Yield the dimensions, counted from the last, in which one shape has 1 and another one does not."""
    sides: dict[int, set[int]] = {}
    for shape in shapes:
        for dim, side in enumerate(reversed(shape)):
            sides.setdefault(dim, set()).add(side)
    yield from (dim for dim, found in sides.items() if 1 in found and len(found) > 1)


def broadcasts_more(run: Sequence[Operation], sample: Sequence[Operation]) -> bool:
    """Whether a run broadcasts what the sample's run did not.

    Operators are compared one by one. Where a run has others than the sample, as a loop over a size makes them, each
    is compared with all of the sample's.
    """
    if [name for name, _ in run] == [name for name, _ in sample]:
        return any(dims - before for (_, dims), (_, before) in zip(run, sample, strict=True))
    known = set(sample)
    return any(dims and (name, dims) not in known for name, dims in run)
