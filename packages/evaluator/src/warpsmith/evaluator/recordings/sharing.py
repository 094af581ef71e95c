"""How outputs lie in memory that is not theirs alone: a caller who writes to one changes another tensor, or cannot.

A candidate may do so only where the problem does. Values alone do not show it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

STATE: Final = "state"
INPUT: Final = "input"
TWICE: Final = "twice"
EXPANDED: Final = "expanded"
MESSAGES: Final = {
    STATE: "forward returns a buffer of the module itself, which the next call overwrites, so that what a caller kept "
    "of earlier calls changes. The problem returns a tensor of its own: return a clone, or store into both.",
    INPUT: "forward returns an input itself, or a view of it, so that a caller who writes to the output changes the "
    "input. The problem returns a tensor of its own: store the numbers into one, or return a clone.",
    TWICE: "forward returns the same memory as two outputs, so that a caller who writes to one changes the other. The "
    "problem returns two tensors: store into both, or return a clone.",
    EXPANDED: "forward returns an expanded tensor, several of whose elements are one place in memory, so that a caller "
    "cannot write to it. The problem returns a tensor with a place for each element: store all of them.",
}
"""What a candidate hears of each way that the problem's own outputs do not have."""


def of_outputs(output: Any, buffers: Iterable[torch.Tensor], inputs: Iterable[Any]) -> set[str]:
    """Return how the tensors of an output share memory.

    Args:
        output: a tree of tensors and other values.
        buffers: of the module.
        inputs: of the call; values that are no tensors count for nothing.
    """
    tensors = [one for one in pytree.tree_leaves(output) if isinstance(one, torch.Tensor) and one.numel()]
    memory = {_memory(one) for one in tensors}
    found = {
        STATE: not memory.isdisjoint(map(_memory, buffers)),
        INPUT: not memory.isdisjoint(_memory(one) for one in inputs if isinstance(one, torch.Tensor)),
        TWICE: len({(one.data_ptr(), one.shape) for one in tensors}) < len(tensors),
        EXPANDED: any(_is_expanded(one.shape, one.stride()) for one in tensors),
    }
    return {name for name, is_so in found.items() if is_so}


def of_references(outputs: Sequence[Any]) -> set[str]:
    """Return the same of the outputs that a recording names, without what only its buffers show."""
    named = [(one[1:4], one[4], one[5], one[6]) for one in outputs if _names_memory(one)]
    found = {
        INPUT: any(place[0] == "inputs" for place, *_ in named),
        TWICE: any(one in named[:number] for number, one in enumerate(named)),
        EXPANDED: any(_is_expanded(shape, strides) for _, shape, strides, _ in named),
    }
    return {name for name, is_so in found.items() if is_so}


def _names_memory(output: Any) -> bool:
    match output:
        case ["tensor", str(), int(), str(), list(shape), list(), int()]:
            return 0 not in shape
        case _:
            return False


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_expanded(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True))
