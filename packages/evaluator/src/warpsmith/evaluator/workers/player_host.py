"""Replays a trace with the kernels of a source and none of its host code: only the kernels make the output."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.uninitialized_memory import Garbage
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT, ITEM_BYTES, TensorSlot, contiguous
from warpsmith.evaluator.languages.base import InterpretedKernels
from warpsmith.evaluator.recordings import library_calls, movement

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_FRESH_BYTES: Final = 4 << 30


class Replay:
    """The memory and the kernels of one replay.

    Args:
        kernels: the candidate's kernels, by the names in launches.
        buffers: the arenas `inputs` and `state`, read-only.
        slots: the tensors in each of them; without any, a tensor can extend to the arena's end.
        poison: the initial byte of fresh memory; garbage if None.

    Attributes:
        bytes_moved: bytes that fills, copies and other movement of host code read and write so far; None once a library
            operator has run, whose traffic is unknown.
    """

    def __init__(
        self,
        kernels: InterpretedKernels,
        buffers: "dict[str, Shared]",
        slots: Mapping[str, Sequence[TensorSlot]] = MappingProxyType({}),
        *,
        poison: int | None = None,
    ) -> None:
        self._kernels = kernels
        self._buffers = buffers
        self._poison = poison
        self._ends = {
            (name, slot.offset - slot.lead): slot.offset + slot.nbytes for name in slots for slot in slots[name]
        }
        self._fresh: dict[int, torch.Tensor] = {}
        self._garbage = Garbage()
        self._unfilled: set[int] = set()
        self._left = MAX_FRESH_BYTES
        self.bytes_moved: int | None = 0
        self._steps: dict[str, Callable[..., None]] = {
            "alloc": self._allocate,
            "const": self._constant,
            "literal": self._constant,
            "fill": self._fill,
            "copy": self._copy,
            "call": self._call,
            "operator": self._operator,
            "launch": self._launch,
        }

    def run(self, events: list[Any]) -> None:
        """Perform every event in order; WireError if one is invalid."""
        for event in events:
            match event:
                case [str(kind), *rest] if kind in self._steps:
                    self._steps[kind](*rest)
                case _:
                    raise WireError(f"{str(event)[:80]} is not an event of a trace.")

    def _allocate(self, number: int, size: int) -> None:
        if not 0 <= size <= self._left:
            raise WireError(f"The trace allocates {size} bytes; 0 to {self._left} remain for the replay.")
        self._left -= size
        self._fresh[number] = _aligned(size)
        if self._poison is None:
            self._unfilled.add(number)
        else:
            self._fresh[number].fill_(self._poison)

    def _constant(self, number: int, content: bytes) -> None:
        self._fresh[number] = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)

    def _fill(self, tensor: Any, value: float) -> None:
        self._moved(self.tensor(tensor)).fill_(value)

    def _copy(self, to: Any, origin: Any) -> None:
        into, source = self.tensor(to), self.tensor(origin)
        if self._poison is None:
            movement.check_booleans(into, source)
        movement.copy(self._moved(into), self._moved(source))

    def _call(self, operator: str, arguments: list[Any], to: Any) -> None:
        values = [self._argument(argument) for argument in arguments]
        for value in values:
            if isinstance(value, torch.Tensor):
                self._moved(value)
        movement.call(operator, values, self._moved(self.tensor(to)))

    def _operator(self, name: str, arguments: list[Any], keywords: dict[str, Any], results: list[Any]) -> None:
        self.bytes_moved = None
        library_calls.repeated(name, arguments, keywords, results, self.tensor)()

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor's elements as moved once, and return it."""
        if self.bytes_moved is not None:
            self.bytes_moved += tensor.numel() * tensor.element_size()
        return tensor

    def tensor(self, described: Any) -> torch.Tensor:
        """Return the tensor that a trace describes; as_strided rejects a tensor outside its memory."""
        match described:
            case ["tensor", str(memory), int(start), str(dtype), list(shape), list(stride), int(offset)]:
                base = self._memory(memory, start, dtype)
                return base.as_strided(shape, stride, offset) if all(shape) else base.new_empty(shape)
            case _:
                raise WireError(f"{str(described)[:80]} is not a tensor of a trace.")

    def _memory(self, memory: str, start: int, dtype: str) -> torch.Tensor:
        kind, size = tensor_views.TORCH_DTYPES[dtype], ITEM_BYTES[dtype]
        if memory == "fresh":
            flat = self._fresh[start]
            typed = flat[: flat.numel() // size * size].view(kind)
            if start in self._unfilled:
                # The dtype, which determines the garbage, is known only now.
                self._unfilled.remove(start)
                self._garbage.fill(typed)
            return typed
        buffer = self._buffers[memory]
        # Only to the tensor's own end, so that an access beyond it is detected.
        end = self._ends.get((memory, start), buffer.size)
        return tensor_views.view(buffer, contiguous(dtype, ((end - start) // size,)).at(start))

    def _launch(self, kernel: str, grid: list[int], arguments: dict[str, Any], options: dict[str, Any]) -> None:
        values = {name: self._argument(value) for name, value in arguments.items()}
        # The interpreter takes no options; passed as arguments they could differ from the compiled ones.
        self._kernels[kernel][tuple(grid)](**values)

    def _argument(self, described: Any) -> Any:
        match described:
            case ["tensor", *_]:
                return self.tensor(described)
            case ["value", value]:
                return value
            case ["tuple", list(items)]:
                return tuple(self._argument(item) for item in items)
            case ["named", str(name), list(items)]:
                made = self._kernels.argument(["record", name], self.tensor)
                return made(*(self._argument(item) for item in items))
            case _:
                return self._kernels.argument(described, self.tensor)

    def deliver(self, outputs: list[Any], tree: codec.Value, arena: "Shared") -> None:
        """Copy the described outputs to the judge's buffer; WireError if their form is not the expected one."""
        for slot, tensor in paired(tree, [self.tensor(output) for output in outputs]):
            tensor_views.view(arena, slot).copy_(tensor)


def paired(tree: codec.Value, tensors: list[torch.Tensor]) -> list[tuple[TensorSlot, torch.Tensor]]:
    """Pair each expected slot with its tensor; WireError if the form is not the expected one."""
    slots = list(codec.slots(tree))
    if len(slots) != len(tensors):
        raise WireError(f"The trace has {len(tensors)} outputs; {len(slots)} were expected.")
    for slot, tensor in zip(slots, tensors, strict=True):
        if not tensor_views.slot_of(tensor).same_kind(slot):
            raise WireError(f"An output of the trace is {tensor_views.slot_of(tensor)}; {slot} was expected.")
    return list(zip(slots, tensors, strict=True))


def _aligned(size: int) -> torch.Tensor:
    """Return bytes aligned like GPU memory, at a multiple of `ALIGNMENT`."""
    room = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return torch.from_numpy(room[start : start + size])
