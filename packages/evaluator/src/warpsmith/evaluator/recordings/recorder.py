"""A candidate's forward as data: what it allocated, filled, copied and launched, but nothing that it computed.

The trace is recorded in the candidate's process and replayed, on inputs that the candidate never saw, in a worker that
holds the extracted kernels but no host code (`workers/player.py`). A forged trace gains nothing: it can only move data
and launch kernels of the source.

An event is a list: `["alloc", id, bytes]`, `["const", id, content]`, `["literal", id, content]`,
`["fill", tensor, value]`, `["copy", to, from]`, `["call", operator, arguments, to]` (an operator of `movement.CALLED`),
`["operator", name, arguments, keywords, results]` (of `library_calls.py`) or
`["launch", kernel, grid, arguments, options]`. A `literal` is a tensor made from numbers in the call itself, such as
`torch.tensor([1, 2])`; a `const` was made before the call. A tensor is `["tensor", memory, start, dtype, shape, stride,
offset]`: `memory` is an arena's name and `start` a byte offset in it, or `fresh` and the id of an allocation; `offset`
is in elements. Other arguments of a launch are `["value", plain]`, `["tuple", arguments]`, `["named", class,
arguments]`, or of kinds of the language's own.
"""

import ctypes
import traceback
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.devices.tensor_views import NAMES
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES, TensorSlot
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.recordings import library_calls, movement
from warpsmith.evaluator.recordings.errors import MemorylessError
from warpsmith.evaluator.recordings.library_calls import LibraryCall
from warpsmith.evaluator.recordings.operators import ALLOCATES, CONSTRUCTS

MAX_EVENTS: Final = 5000
MAX_CONSTANT_BYTES: Final = 32 << 20

_FILLED: Final = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"}
)
_COPIED: Final = frozenset({"clone", "contiguous", "_to_copy", "to"})
_SCALAR_BYTES: Final = 16


_MAKES_NEW: Final = ALLOCATES | _FILLED | _COPIED | movement.COPIES.keys() | movement.CALLED


class UntraceableError(RuntimeError):
    """A forward cannot be traced: it does too much, or uses too much of its own data."""


class Recorder:
    """Records the trace of each call of a forward.

    Memory keeps its id from call to call as long as it is alive.

    Args:
        memory: the judge's arenas.
        language: describes launch arguments of its own types.
        may_change: whether host code can write to a storage unobserved. Its content is then recorded again wherever it
            is used.
    """

    def __init__(
        self,
        memory: Mappings,
        language: KernelLanguage,
        may_change: Callable[[torch.UntypedStorage], bool] = lambda _: False,
    ) -> None:
        self._may_change = may_change
        self.events: list[list[Any]] = []
        self._language = language
        self._memory = memory
        self._ids: dict[int, int] = {}
        # An address must not be reused unnoticed: `_held` keeps storages alive during a call, and `_kept` sees them end
        # after it.
        self._held: dict[int, torch.UntypedStorage] = {}
        self._kept: dict[int, StorageWeakRef] = {}
        self._next = 0
        self._left = MAX_CONSTANT_BYTES

    def begin(self) -> None:
        """Begin a call: forget the events, and memory that has been freed."""
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
        """Record what an allowed operator did to memory; called after it ran."""
        base = name.removeprefix("aten::")
        if base == "fill_" and isinstance(args[1], torch.Tensor):
            # Its value can depend on parameters or inputs.
            self._take_scalar(args[1])
            self._copy(args[0], args[1])
        elif base in {"fill_", "zero_"}:
            self._fill(args[0])
        elif base == "copy_":
            self._take_scalar(args[1])
            self._copy(args[0], args[1])
        elif isinstance(result, torch.Tensor) and (base in CONSTRUCTS or not _is_view(func)):
            self._made(base, args, result)
        elif isinstance(result, torch.Tensor) and func._overloadname.endswith("out"):
            self._filled_in(base, args, result)

    def _made(self, base: str, args: Any, result: torch.Tensor) -> None:
        storage = result.untyped_storage()
        _check_has_memory(storage)
        address = storage.data_ptr()
        if base not in CONSTRUCTS and args and isinstance(args[0], torch.Tensor) and _shares(args[0], address):
            # A cast to the same dtype, or a view whose schema does not say so (`_unsafe_view`).
            return
        self._ids.pop(address, None)
        if base in CONSTRUCTS:
            self._take_in("literal", storage, address)
        elif base in _MAKES_NEW:
            self._allocate(storage)
        self._filled_in(base, args, result)

    def _filled_in(self, base: str, args: Any, result: torch.Tensor) -> None:
        """Record what an operator wrote to its result."""
        if base in _FILLED:
            self._fill(result)
        elif base in _COPIED:
            self._copy(result, args[0])
        elif base in movement.COPIES and not movement.is_called(base, args):
            filling = movement.fill_before(base, args)
            if filling is not None and result.numel():
                self._add(["fill", self.tensor(result), filling])
            for to, origin in movement.COPIES[base](result, *args):
                self._copy(to, origin)
        elif base in movement.CALLED:
            self._add(["call", base, [self._argument(_hashable(value)) for value in args], self.tensor(result)])

    def library(self, call: LibraryCall, results: Sequence[torch.Tensor]) -> None:
        """Record a call of an operator that computes; called after it ran.

        Raises:
            UntraceableError: an argument is of a type that no recording can hold.
        """
        for tensor in (one for one in (*call.arguments, *call.keywords.values()) if isinstance(one, torch.Tensor)):
            self._take_scalar(tensor)
        try:
            arguments = [library_calls.described(one, self.tensor) for one in call.arguments]
            keywords = {name: library_calls.described(one, self.tensor) for name, one in call.keywords.items()}
        except TypeError as error:
            raise UntraceableError(f"forward calls {call.name} in a way that cannot be recorded: {error}.") from error
        if call.into is None:
            for tensor in results:
                self._ids.pop(tensor.untyped_storage().data_ptr(), None)
                self._allocate(tensor.untyped_storage())
        self._add(["operator", call.name, arguments, keywords, [self.tensor(tensor) for tensor in results]])

    def _copy(self, to: torch.Tensor, origin: torch.Tensor) -> None:
        if to.numel():
            self._add(["copy", self.tensor(to), self.tensor(origin)])

    def _take_scalar(self, tensor: torch.Tensor) -> None:
        """Record a number from Python: in `x[0] = 1.5` no dispatch mode sees how the tensor is made."""
        storage = tensor.untyped_storage()
        known = self._is_known(storage.data_ptr())
        if not tensor.dim() and not known and storage.nbytes() <= _SCALAR_BYTES:
            self._take_in("literal", storage, storage.data_ptr())

    def starts_as(self, tensor: torch.Tensor, slot: TensorSlot, shared: Container[int]) -> None:
        """Record that a tensor of the candidate starts as a copy of `slot` in the judge's parameters and buffers.

        Args:
            tensor: of the candidate's module.
            slot: in the judge's memory.
            shared: addresses of the storages that hold something else too, whose current values matter.
        """
        storage = tensor.untyped_storage()
        fills = torch.ops.aten.is_non_overlapping_and_dense(tensor) and storage.nbytes() == tensor.nbytes
        if (fills or storage.data_ptr() not in shared) and storage.data_ptr() not in self._held:
            self._allocate(storage)
        before = slot.lead // ITEM_BYTES[slot.dtype]
        origin = [
            "tensor", "state", slot.offset - slot.lead, slot.dtype, list(slot.shape), list(slot.stride), before,
        ]  # fmt: skip
        self._add(["copy", self.tensor(tensor), origin])

    def launch(self, kernel: str, arguments: dict[str, Any], options: dict[str, Any]) -> list[Any]:
        """Record a launch; returns the event, whose grid (its third item) the caller sets when it is known."""
        described = {name: self._argument(value) for name, value in arguments.items()}
        event = ["launch", kernel, [], described, options]
        self._add(event)
        return event

    def _argument(self, value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, tuple):
            items = [self._argument(item) for item in value]
            return ["named", type(value).__name__, items] if hasattr(value, "_fields") else ["tuple", items]
        return self._language.describe(value, self.tensor)

    def tensor(self, tensor: torch.Tensor) -> list[Any]:
        """Describe where a tensor's elements lie; memory that is new to the trace is recorded as a constant."""
        storage = tensor.untyped_storage()
        _check_has_memory(storage)
        memory, start = self._place(storage)
        form = [NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        return ["tensor", memory, start, *form]

    def _place(self, storage: torch.UntypedStorage) -> tuple[str, int]:
        address = storage.data_ptr()
        name = self._arena(address)
        if name is not None:
            return name, address - self._memory.buffers[name].address
        if self._may_change(storage):
            self._take_in("literal", storage, address)
        elif address not in self._ids:
            self._take_in("const", storage, address)
        return "fresh", self._ids[address]

    def _arena(self, address: int) -> str | None:
        """Return the name of the judge's arena that holds an address; None if there is none."""
        for name in ("inputs", "state"):
            buffer = self._memory.buffers[name]
            if buffer.address <= address < buffer.address + buffer.size:
                return name
        return None

    def _is_known(self, address: int) -> bool:
        return address in self._ids or self._arena(address) is not None

    def _take_in(self, kind: str, storage: torch.UntypedStorage, address: int) -> None:
        self._left -= storage.nbytes()
        if self._left < 0:
            raise UntraceableError(
                f"forward uses more than {MAX_CONSTANT_BYTES >> 20} MiB of tensors made before the call that are "
                "neither parameters nor buffers. Register them with register_buffer, or make them in forward."
            )
        content = _content(storage)
        self._held[address] = storage
        self._ids[address] = self._next
        self._next += 1
        self._add([kind, self._ids[address], content])

    def _allocate(self, storage: torch.UntypedStorage) -> None:
        address = storage.data_ptr()
        self._held[address] = storage
        self._kept.pop(address, None)
        self._ids[address] = self._next
        self._next += 1
        self._add(["alloc", self._ids[address], storage.nbytes()])

    def _fill(self, tensor: torch.Tensor) -> None:
        if tensor.is_complex():
            for part in torch.view_as_real(tensor).unbind(-1):
                self._fill(part)
        elif tensor.numel():
            first = tensor[(slice(1),) * tensor.dim()]
            self._add(["fill", self.tensor(tensor), first.item()])

    def _add(self, event: list[Any]) -> None:
        if len(self.events) >= MAX_EVENTS:
            much = f"forward allocates, copies and launches more than {MAX_EVENTS} times."
            raise UntraceableError(f"{much} {_TIMED_BY_ITSELF if _is_timing() else _MORE_IN_EACH}")
        self.events.append(event)


_MORE_IN_EACH: Final = "Do more in each launch: loop in the kernel, or over a larger grid."
_TIMED_BY_ITSELF: Final = (
    "It times its own launches, and recorded host code sees no times of a chip. Call no do_bench and no timer in "
    "forward: let @triton.autotune(configs=[...], key=[...]) choose among configurations, or use a fixed one."
)
_DEVICES: Final = frozenset({"cpu", "cuda"})
_TIMERS: Final = frozenset({"triton.testing", "timeit", "torch.utils.benchmark.utils.timer"})


def _is_timing() -> bool:
    """Whether a function that measures times is calling."""
    return any(frame.f_globals.get("__name__") in _TIMERS for frame, _ in traceback.walk_stack(None))


def _check_has_memory(storage: torch.UntypedStorage) -> None:
    """Raise MemorylessError for a tensor without memory, as on torch's device `meta`: all these share one address."""
    if storage.device.type not in _DEVICES:
        raise MemorylessError(
            f"forward uses a tensor on the device {storage.device.type}, which has no memory for its elements. Make "
            "tensors where the inputs are: torch.empty_like(x), or device=x.device."
        )


def makes_memory(func: Any, base: str) -> bool:
    """Whether an operator's result is memory that a recording allocates, and not a view or a constant."""
    return base in _MAKES_NEW and not _is_view(func) and not func._overloadname.endswith("out")


def _shares(tensor: torch.Tensor, address: int) -> bool:
    return bool(address) and tensor.untyped_storage().data_ptr() == address


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
