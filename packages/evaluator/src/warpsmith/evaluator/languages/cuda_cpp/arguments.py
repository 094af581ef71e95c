"""The arguments of a launch: the bytes that a kernel gets, and the tensors whose addresses stand in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES
from warpsmith.evaluator.languages.base import Described, MakeTensor

_WORD = 8


@dataclass(frozen=True)
class RawArgument:
    """One argument of a launch, as bytes, or the source of a copy to a variable.

    Attributes:
        content: its bytes, with zeros where pointers are.
        pointers: for each pointer to a tensor its offset in the bytes, and the tensor's bytes from there on.
    """

    content: bytes
    pointers: tuple[tuple[int, torch.Tensor], ...] = ()


@dataclass(frozen=True)
class Pointer:
    """An address in an argument: `beyond` bytes after the first one of a tensor."""

    offset: int
    tensor: torch.Tensor
    beyond: int = 0


@dataclass(frozen=True)
class DeviceArgument:
    """An argument whose tensors lie on the device.

    Attributes:
        content: its bytes, with zeros where pointers are.
        pointers: the addresses to put there.
    """

    content: bytes
    pointers: tuple[Pointer, ...]

    @property
    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors that it points to."""
        return (one.tensor for one in self.pointers)

    def packed(self) -> bytes:
        """Return the bytes that the kernel gets."""
        made = bytearray(self.content)
        for one in self.pointers:
            made[one.offset : one.offset + _WORD] = (one.tensor.data_ptr() + one.beyond).to_bytes(_WORD, "little")
        return bytes(made)


def on_device(described: Described, tensor: MakeTensor) -> DeviceArgument:
    """Return a recorded argument; WireError if it has another form."""
    match described:
        case ["raw", bytes(content), list(pointers)]:
            return DeviceArgument(content, tuple(_pointer(one, len(content), tensor) for one in pointers))
        case _:
            raise WireError(f"A kernel argument of kind {str(described)[:40]} cannot be replayed.")


def _pointer(described: Any, size: int, tensor: MakeTensor) -> Pointer:
    match described:
        case [int(offset), ["tensor", str(memory), int(start), str(dtype), [0], list(), int(first)]] if first > 0:
            # Right behind a tensor: there is no byte to take the address of.
            before = tensor(["tensor", memory, start, dtype, [1], [1], first - 1])
            found = Pointer(offset, before, ITEM_BYTES[dtype])
        case [int(offset), list(place)]:
            found = Pointer(offset, tensor(place))
        case _:
            raise WireError(f"{str(described)[:80]} is not a pointer in an argument.")
    if not 0 <= found.offset <= size - _WORD:
        raise WireError(f"An argument of {size} bytes has a pointer at byte {found.offset}.")
    return found
