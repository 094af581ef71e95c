"""What host code in C++ asks of tensors, answered by torch in the same process, where it is recorded."""

from collections.abc import Callable
from typing import Any, Final

import torch

from warpsmith.evaluator.languages.cuda_cpp.host_library import NUMBERS, Operation, Pointer

FORMATS: Final = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
Noted = Callable[[torch.Tensor], None]


def operations(note: Noted) -> dict[str, Operation]:
    """Return the operations that differ from torch's methods of the same name.

    Args:
        note: called with each tensor whose address host code gets.
    """

    def data_ptr(tensor: torch.Tensor) -> Pointer:
        note(tensor)
        return Pointer(tensor.data_ptr())

    return {
        "sizes": lambda tensor: list(tensor.shape),
        "strides": lambda tensor: list(tensor.stride()),
        "size": lambda tensor, axis: tensor.shape[axis],
        "scalar_type": _scalar_type,
        "is_cuda": lambda tensor: bool(tensor.is_cuda),
        "is_contiguous": lambda tensor, form: tensor.is_contiguous(memory_format=FORMATS[form]),
        "is_dense": lambda tensor: bool(torch.ops.aten.is_non_overlapping_and_dense(tensor)),
        "data_ptr": data_ptr,
        "contiguous_as": lambda tensor, form: tensor.contiguous(memory_format=FORMATS[form]),
        "to": lambda tensor, *how: tensor.to(*(part for part in how if part is not None)),
        "set_requires_grad": lambda tensor, *_: tensor,
        "requires_grad_": lambda tensor, *_: tensor,
        "slice": _slice,
        "unbind": lambda tensor, axis: list(tensor.unbind(axis)),
        "chunk": lambda tensor, count, axis: list(tensor.chunk(count, axis)),
        "split": lambda tensor, size, axis: list(tensor.split(size, axis)),
        "max": lambda tensor, *where: tensor.max(*where),
    }


def otherwise(name: str) -> Operation:
    """Return the operation of torch of a name: `torch.zeros`, or a method such as `transpose`.

    Raises:
        NotImplementedError: torch has none.
    """
    owner, _, function = name.rpartition(".")
    found = getattr(torch if owner else torch.Tensor, function, None)
    found = found or (getattr(torch.nn.functional, function, None) if owner else None)
    if found is None:
        raise NotImplementedError(f"{name} is not a function of torch")

    def call(*args: Any) -> Any:
        plain, named = _with_options(args)
        if function in _OPTIONAL_FORMAT and plain and isinstance(plain[-1], int) and len(plain) > 1:
            named["memory_format"] = FORMATS[plain.pop()]
        return found(*plain, **named)

    return call


_OPTIONAL_FORMAT: Final = frozenset({"empty"})


def _with_options(args: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Split tensor options, which are a pair of dtype and device, from the other arguments."""
    plain: list[Any] = []
    named: dict[str, Any] = {}
    for argument in args:
        match argument:
            case (None | torch.dtype() as dtype, None | torch.device() as device):
                named |= {"dtype": dtype} if dtype is not None else {}
                named |= {"device": device} if device is not None else {}
            case _:
                plain.append(argument)
    return plain, named


def _scalar_type(tensor: torch.Tensor) -> int:
    if tensor.dtype not in NUMBERS:
        raise NotImplementedError(f"host code in C++ has no {tensor.dtype} here")
    return NUMBERS[tensor.dtype]


def _slice(
    tensor: torch.Tensor, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> torch.Tensor:
    index: list[slice] = [slice(None)] * (axis % tensor.dim()) + [slice(start, end, step)]
    return tensor[tuple(index)]
