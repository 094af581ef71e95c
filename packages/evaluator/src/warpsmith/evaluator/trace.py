"""A candidate's forward as data: what it allocated, filled, copied and launched, with nothing of what it computed.

The trace is recorded in the candidate's process and replayed, on inputs that the candidate never saw, in a worker that
holds the extracted kernels and none of its host code (`replay.py`). A forged trace gains nothing: what it can say is
limited to moving data and launching the kernels of the source.

An event is a list: `["alloc", id, bytes]`, `["const", id, content]`, `["fill", tensor, value]`,
`["copy", to, from]` or `["launch", kernel, grid, arguments, options]`. A tensor is
`["tensor", memory, start, dtype, shape, stride, offset]`: `memory` is an arena's name with `start` a byte in it, or
`fresh` with `start` an id of an allocation; the offset is in elements.
"""

import ctypes
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator import descriptors
from warpsmith.evaluator.arenas import NAMES
from warpsmith.evaluator.interpreting import describe_argument
from warpsmith.evaluator.layout import TensorSlot
from warpsmith.evaluator.operators import ALLOCATES, CONSTRUCTS
from warpsmith.evaluator.worker import Memory

MAX_EVENTS: Final = 5000
MAX_CONSTANT_BYTES: Final = 32 << 20

_FILLED: Final = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"}
)
_COPIED: Final = frozenset({"clone", "contiguous", "_to_copy", "to"})


class UntraceableError(RuntimeError):
    """A forward cannot be written down as a trace: it does too much, or carries too much data of its own."""


class Recorder:
    """Writes the trace of each call of a forward.

    Memory keeps its number from call to call, as long as somebody keeps the memory.
    """

    def __init__(self, memory: Memory) -> None:
        self.events: list[list[Any]] = []
        self._memory = memory
        self._ids: dict[int, int] = {}
        # No address that is known comes to mean other memory: during a call it is held, and after it its end is seen.
        self._held: dict[int, torch.UntypedStorage] = {}
        self._kept: dict[int, StorageWeakRef] = {}
        self._next = 0
        self._left = MAX_CONSTANT_BYTES

    def begin(self) -> None:
        """Begin a call: forget the events, and the memory that is gone."""
        self.events = []
        self._left = MAX_CONSTANT_BYTES
        self._kept |= {
            address: StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            for address, storage in self._held.items()
        }
        self._held.clear()
        for address, kept in list(self._kept.items()):
            if kept.expired():  # type: ignore[no-untyped-call]
                del self._kept[address]
                self._ids.pop(address, None)

    def operator(self, func: Any, name: str, args: Any, result: Any) -> None:
        """Note what an allowed operator did to memory; called after it ran."""
        base = name.removeprefix("aten::")
        if base == "fill_" and isinstance(args[1], torch.Tensor):
            # What it holds may hang on parameters or inputs.
            self._add(["copy", self.tensor(args[0]), self.tensor(args[1])])
        elif base in {"fill_", "zero_"}:
            self._fill(args[0])
        elif base == "copy_":
            self._add(["copy", self.tensor(args[0]), self.tensor(args[1])])
        elif isinstance(result, torch.Tensor) and (base in CONSTRUCTS or not _is_view(func)):
            self._made(base, args, result)

    def _made(self, base: str, args: Any, result: torch.Tensor) -> None:
        address = result.untyped_storage().data_ptr()
        if base in _COPIED and isinstance(args[0], torch.Tensor) and args[0].untyped_storage().data_ptr() == address:
            return
        self._ids.pop(address, None)
        if base in ALLOCATES | _FILLED | _COPIED:
            self._allocate(result.untyped_storage())
        if base in _FILLED:
            self._fill(result)
        if base in _COPIED:
            self._add(["copy", self.tensor(result), self.tensor(args[0])])

    def starts_as(self, tensor: torch.Tensor, slot: TensorSlot) -> None:
        """Note that a tensor of the candidate's begins as what lies at `slot` of the judge's parameters and buffers."""
        storage = tensor.untyped_storage()
        if tensor.is_contiguous() and storage.nbytes() == tensor.numel() * tensor.element_size():
            # Nothing else is in its memory, so that what it holds by now is of no account.
            self._allocate(storage)
        origin = ["tensor", "state", slot.offset, slot.dtype, list(slot.shape), list(slot.stride), 0]
        self._add(["copy", self.tensor(tensor), origin])

    def launch(self, kernel: str, arguments: dict[str, Any], options: dict[str, Any]) -> list[Any]:
        """Note a launch; returns the event, whose grid (its third item) the caller sets once it is known."""
        described = {name: self._argument(value) for name, value in arguments.items()}
        event = ["launch", kernel, [], described, options]
        self._add(event)
        return event

    def _argument(self, value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, tuple):
            return ["tuple", [self._argument(item) for item in value]]
        if isinstance(value, TensorDescriptor):
            return descriptors.described(value, self.tensor)
        return describe_argument(value)

    def tensor(self, tensor: torch.Tensor) -> list[Any]:
        """Describe where a tensor's elements lie; memory that the trace does not know yet is taken in as a constant."""
        storage = tensor.untyped_storage()
        memory, start = self._place(storage)
        form = [NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        return ["tensor", memory, start, *form]

    def _place(self, storage: torch.UntypedStorage) -> tuple[str, int]:
        address = storage.data_ptr()
        for name in ("inputs", "state"):
            buffer = self._memory.buffers[name]
            if buffer.address <= address < buffer.address + buffer.size:
                return name, address - buffer.address
        if address not in self._ids:
            self._constant(storage, address)
        return "fresh", self._ids[address]

    def _constant(self, storage: torch.UntypedStorage, address: int) -> None:
        self._left -= storage.nbytes()
        if self._left < 0:
            raise UntraceableError(f"forward uses more than {MAX_CONSTANT_BYTES >> 20} MiB of tensors made before it")
        content = _content(storage)
        self._held[address] = storage
        self._ids[address] = self._next
        self._next += 1
        self._add(["const", self._ids[address], content])

    def _allocate(self, storage: torch.UntypedStorage) -> None:
        address = storage.data_ptr()
        self._held[address] = storage
        self._kept.pop(address, None)
        self._ids[address] = self._next
        self._next += 1
        self._add(["alloc", self._ids[address], storage.nbytes()])

    def _fill(self, tensor: torch.Tensor) -> None:
        if tensor.numel():
            self._add(["fill", self.tensor(tensor), tensor.flatten()[0].item()])

    def _add(self, event: list[Any]) -> None:
        if len(self.events) >= MAX_EVENTS:
            raise UntraceableError(f"forward allocates, copies and launches more than {MAX_EVENTS} times")
        self.events.append(event)


def _content(storage: torch.UntypedStorage) -> bytes:
    if not storage.nbytes():
        return b""
    if storage.device.type == "cpu":
        return ctypes.string_at(storage.data_ptr(), storage.nbytes())
    on_host = storage.cpu()  # type: ignore[no-untyped-call]
    return ctypes.string_at(on_host.data_ptr(), on_host.nbytes())


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and returns[0].alias_info is not None
