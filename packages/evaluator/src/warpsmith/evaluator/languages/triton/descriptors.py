"""Tensor descriptors that the host passes to a kernel: converts them to plain values for a trace, and back.

A description is `["descriptor", tensor, shape, strides, block, padding, rounded]`: the tensor as in `recorder.py`,
sizes in elements, the other fields as in Triton's class. Compiled code depends on the dtype and the block only.
"""

import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.errors import WireError

ROUNDED: Final = "round_f32_to_tf32"
_FIELDS: Final = frozenset(field.name for field in fields(TensorDescriptor))

_CHECKS: Final = TensorDescriptor.__post_init__.__code__

FLAGS: Final = 2 if ROUNDED in _FIELDS else 1
"""Boolean arguments per descriptor of a kernel for a chip without a unit for them; Triton 3.9 added one."""


def described(descriptor: Any, tensor: Callable[[torch.Tensor], list[Any]]) -> list[Any]:
    """Return a descriptor as plain values; `tensor` describes its tensor."""
    sides = [[int(side) for side in sides] for sides in (descriptor.shape, descriptor.strides, descriptor.block_shape)]
    return ["descriptor", tensor(descriptor.base), *sides, descriptor.padding, rounds(descriptor)]


def made(base: Any, rest: list[Any]) -> Any:
    """Return the descriptor from a description.

    Args:
        base: its tensor.
        rest: the description's items after the tensor.

    Raises:
        WireError: the description is malformed, or Triton rejects it.
    """
    match rest:
        case [list(shape), list(strides), list(block), str(padding), bool(rounded)]:
            further = {ROUNDED: rounded} if ROUNDED in _FIELDS else {}
        case _:
            raise WireError(f"{str(rest)[:80]} is not a tensor descriptor of a trace.")
    try:
        return TensorDescriptor(base, shape, strides, block, padding, **further)
    except (AssertionError, TypeError, ValueError, IndexError) as error:
        raise WireError(f"A trace holds a tensor descriptor that Triton does not make: {error}.") from error


def refuses(error: BaseException) -> bool:
    """Whether Triton raised the error because it rejected a descriptor's sizes, alignment or padding."""
    return any(frame.f_code is _CHECKS for frame, _ in traceback.walk_tb(error.__traceback__))


def rounds(descriptor: Any) -> bool:
    """Whether loads through a descriptor round float32 to TF32."""
    return bool(getattr(descriptor, ROUNDED, False))


def reach(descriptor: Any) -> int:
    """Return the number of elements from a descriptor's first to its last, both included."""
    sizes = [int(side) for side in descriptor.shape]
    if 0 in sizes:
        return 0
    return 1 + sum((side - 1) * int(stride) for side, stride in zip(sizes, descriptor.strides, strict=True))
