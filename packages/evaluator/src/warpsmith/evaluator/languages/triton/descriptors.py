"""Tensor descriptors that the host hands to a kernel: as plain values in a trace, and made of them again.

A description is `["descriptor", tensor, shape, strides, block, padding, rounded]`: the tensor as in `trace.py`, sizes
in elements, and the other fields as Triton's class has them. What a kernel is compiled for is the dtype and the block.
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
"""Truth values that a kernel takes of a descriptor where the chip has no unit for them: Triton 3.9 added one."""


def described(descriptor: Any, tensor: Callable[[torch.Tensor], list[Any]]) -> list[Any]:
    """Return a descriptor as plain values; `tensor` describes what it is on."""
    sides = [[int(side) for side in sides] for sides in (descriptor.shape, descriptor.strides, descriptor.block_shape)]
    return ["descriptor", tensor(descriptor.base), *sides, descriptor.padding, rounds(descriptor)]


def made(base: Any, rest: list[Any]) -> Any:
    """Return the descriptor of a description.

    Args:
        base: the tensor that it is on.
        rest: what stands behind the tensor in the description.

    Raises:
        WireError: it is none, or Triton makes no such descriptor.
    """
    match rest:
        case [list(shape), list(strides), list(block), str(padding), bool(rounded)]:
            further = {ROUNDED: rounded} if ROUNDED in _FIELDS else {}
        case _:
            raise WireError(f"{str(rest)[:80]} is no tensor descriptor of a trace.")
    try:
        return TensorDescriptor(base, shape, strides, block, padding, **further)
    except (AssertionError, TypeError, ValueError, IndexError) as error:
        raise WireError(f"A trace holds a tensor descriptor that Triton does not make: {error}.") from error


def refuses(error: BaseException) -> bool:
    """Whether it was Triton that made no descriptor of what it was given: sizes, alignment, padding."""
    return any(frame.f_code is _CHECKS for frame, _ in traceback.walk_tb(error.__traceback__))


def rounds(descriptor: Any) -> bool:
    """Whether loads through a descriptor round float32 to TF32."""
    return bool(getattr(descriptor, ROUNDED, False))


def reach(descriptor: Any) -> int:
    """Return how many elements lie from a descriptor's first to behind its last."""
    sizes = [int(side) for side in descriptor.shape]
    if 0 in sizes:
        return 0
    return 1 + sum((side - 1) * int(stride) for side, stride in zip(sizes, descriptor.strides, strict=True))
