"""Operators that only move data, as events of a recording: fills, and copies between strided views.

`COPIES` gives what an operator copied into its result. What views cannot express (a flip runs backwards) is the event
`["call", operator, arguments, to]`, and `call` lets torch do the same in a player. What is moved depends only on shapes
and plain arguments.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import torch

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.recordings.errors import BooleanBytesError

Copies = Iterator[tuple[torch.Tensor, torch.Tensor]]

CALLED: Final = frozenset({
    "arange", "linspace", "eye", "flip", "roll", "rot90", "diag_embed", "im2col",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d",
})  # fmt: skip
"""Operators (without `aten::`) that a player calls."""
MAKES: Final = frozenset({"arange", "linspace", "eye"})
"""Operators that must not get a tensor: `linspace` between two values from tensors would compute."""
MOST_ARGUMENTS: Final = 8


INDEX_BYTES: Final = 4
"""Integers can be narrowed to this many bytes: indices and sizes fit."""


def computes(to: torch.dtype, origin: torch.dtype) -> bool:
    """Whether a copy from dtype `origin` to dtype `to` is a computation.

    Float to integer truncates. Number to boolean compares with zero. Integer to fewer than 32 bits, or to fewer
    unsigned ones, is a remainder: `.to(torch.uint32)` is `& 0xFFFFFFFF`.
    """
    if to.is_floating_point or to.is_complex or origin == torch.bool:
        return False
    if origin.is_floating_point or origin.is_complex or to == torch.bool:
        return True
    least = INDEX_BYTES if to.is_signed else origin.itemsize
    return to.itemsize < min(origin.itemsize, least)


def copy(to: torch.Tensor, origin: torch.Tensor) -> None:
    """Perform a recorded copy in a player.

    Raises:
        WireError: the copy would compute.
    """
    if computes(to.dtype, origin.dtype):
        raise WireError(f"A recording copies {origin.dtype} to {to.dtype}, which computes.")
    _bytes_of(to).copy_(_bytes_of(origin))


def check_booleans(to: torch.Tensor, origin: torch.Tensor) -> None:
    """Check what a recorded copy casts; it moves the bytes of booleans as they are.

    Raises:
        BooleanBytesError: a boolean is neither 0 nor 1. torch casts it to 1, a test for zero that no kernel made.
    """
    if origin.dtype == torch.bool and to.dtype != torch.bool and bool((_bytes_of(origin) > 1).any()):
        raise BooleanBytesError(
            "host code casts booleans, some of which hold another byte than 0 and 1 (a view of other memory as "
            "torch.bool, or what a kernel stored). That is a test for zero: a kernel has to make it."
        )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return booleans as bytes: in a view of other memory one can be neither 0 nor 1, and torch would copy it as 1."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _cat(result: torch.Tensor, tensors: Sequence[torch.Tensor], dim: int = 0) -> Copies:
    start = 0
    for tensor in tensors:
        # torch.cat accepts empty tensors of one dimension among any others.
        if tensor.numel():
            yield result.narrow(dim, start, tensor.shape[dim]), tensor
            start += tensor.shape[dim]


def _stack(result: torch.Tensor, tensors: Sequence[torch.Tensor], dim: int = 0) -> Copies:
    for place, tensor in enumerate(tensors):
        yield result.select(dim, place), tensor


def _constant_pad(result: torch.Tensor, tensor: torch.Tensor, pad: Sequence[int], value: float = 0) -> Copies:
    inner, kept = result, tensor
    for place in range(len(pad) // 2):
        dim = tensor.dim() - 1 - place
        before, after = pad[2 * place], pad[2 * place + 1]
        width = tensor.shape[dim] + min(before, 0) + min(after, 0)
        inner = inner.narrow(dim, max(before, 0), width)
        kept = kept.narrow(dim, max(-before, 0), width)
    yield inner, kept


def _repeat(result: torch.Tensor, tensor: torch.Tensor, repeats: Sequence[int]) -> Copies:
    own = [1] * (len(repeats) - tensor.dim()) + list(tensor.shape)
    sides = [side for pair in zip(repeats, own, strict=True) for side in pair]
    to = result.view(sides)
    yield to, tensor.reshape([side for size in own for side in (1, size)]).expand(sides)


def _roll(result: torch.Tensor, tensor: torch.Tensor, shifts: Any, dims: Any = ()) -> Copies:
    by = dict.fromkeys(range(tensor.dim()), 0)
    for shift, dim in zip(shifts, dims, strict=True):
        by[dim % tensor.dim()] += shift
    rolled = [(dim, shift % tensor.shape[dim]) for dim, shift in by.items() if tensor.shape[dim]]
    moved = [(dim, shift, tensor.shape[dim]) for dim, shift in rolled if shift]
    for wraps in product((False, True), repeat=len(moved)):
        to, origin = result, tensor
        for (dim, shift, size), wrapped in zip(moved, wraps, strict=True):
            width = shift if wrapped else size - shift
            to = to.narrow(dim, 0 if wrapped else shift, width)
            origin = origin.narrow(dim, size - shift if wrapped else 0, width)
        yield to, origin


def _narrow(result: torch.Tensor, tensor: torch.Tensor, dim: int, start: int, length: int) -> Copies:
    yield result, tensor.narrow(dim, start, length)


def _complex(result: torch.Tensor, real: torch.Tensor, imaginary: torch.Tensor) -> Copies:
    yield from zip(torch.view_as_real(result).unbind(-1), (real, imaginary), strict=True)


COPIES: Final[dict[str, Callable[..., Copies]]] = {
    "cat": _cat,
    "stack": _stack,
    "constant_pad_nd": _constant_pad,
    "repeat": _repeat,
    "roll": _roll,
    "narrow_copy": _narrow,
    "complex": _complex,
}
"""By operator (without `aten::`), the copies into its result as pairs (to, from)."""


def is_called(name: str, args: Sequence[Any]) -> bool:
    """Whether a player calls the operator of `COPIES`: a roll without dimensions treats its tensor as one row."""
    return name == "roll" and not (len(args) > 2 and args[2])


def fill_before(name: str, args: Sequence[Any]) -> Any:
    """Return the value with which an operator of `COPIES` fills what it does not copy; None if it copies everything."""
    return (args[2] if len(args) > 2 else 0) if name == "constant_pad_nd" else None


def call(name: str, arguments: Sequence[Any], to: torch.Tensor) -> None:
    """Repeat a recorded call of an operator of `CALLED` in a player.

    Raises:
        WireError: there is no such operator, or it does not take these arguments.
    """
    if name not in CALLED or len(arguments) > MOST_ARGUMENTS:
        raise WireError(f"{name[:40]} is not an operator of recordings; expected one of {', '.join(sorted(CALLED))}.")
    if name in MAKES and any(isinstance(argument, torch.Tensor) for argument in arguments):
        raise WireError(f"A recording calls {name} with a tensor; expected plain numbers.")
    plain = [_bytes_of(argument) if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    to = _bytes_of(to)
    try:
        copy(to, getattr(torch.ops.aten, name)(*plain, **_form(name, to)))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise WireError(f"A recording calls {name} with arguments that it does not take: {error}.") from error


def _form(name: str, to: torch.Tensor) -> dict[str, Any]:
    """Return the dtype and device arguments of an operator without tensors."""
    return {"dtype": to.dtype, "device": to.device} if name in MAKES else {}
