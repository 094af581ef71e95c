"""Memory of detached tensors that this process cannot read: any read of it, on whatever path, ends the process.

A detached tensor has a form but no content, as on a GPU its content is not in the host's memory. So while host code
runs, the pages of the judge's arenas and of what operators allocate are mapped without access. Only the operators
themselves open the pages of their arguments, for as long as they run. A process that reads such a page crashes, and its
host code is then recorded on the device, where a content that decides anything is found.

`ReadWatch` finds the usual ways first, in memory of any kind, and names them in an error.
"""

import ctypes
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch.overrides import TorchFunctionMode

from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.recordings.operators import OperatorWatch, kernel_of, stays_for
from warpsmith.evaluator.recordings.recorder import makes_memory

READS: Final = frozenset({"__reduce_ex__", "__repr__", "__format__"})
"""Functions that read a tensor's values without an operator: serialisation (`pickle`, `torch.save`) and texts."""

_PROT_NONE: Final = 0
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Unreadable:
    """The pages of a process that host code cannot read while it runs.

    Args:
        memory: the judge's arenas.
    """

    def __init__(self, memory: Mappings) -> None:
        self._memory = memory
        self._own: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()
        self._closed: set[int] = set()
        self._closes = False

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Close all pages while host code runs; open them for the judge's own code after it."""
        self._closes = True
        try:
            self._close(self._regions())
            yield
        finally:
            self._closes = False
            self._open(self._regions())

    @contextmanager
    def opened(self, arguments: Any) -> Iterator[None]:
        """Open the pages of the tensors among `arguments`."""
        regions = self._regions()
        addresses = {start for tensor in _tensors(arguments) if (start := self._start(tensor, regions)) is not None}
        opened = {start: regions[start] for start in addresses & self._closed}
        self._open(opened)
        try:
            yield
        finally:
            if self._closes:
                self._close(opened)

    def move(self, tensors: Sequence[torch.Tensor]) -> None:
        """Move new tensors to pages of their own, which close when the operator that made them ends.

        Of a content only the first element moves: a recording needs what a tensor is filled with.
        """
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if not storage.nbytes() or not tensor.numel():
                continue
            pages = mmap.mmap(-1, storage.nbytes(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            flat = torch.frombuffer(pages, dtype=torch.uint8, count=storage.nbytes())
            moved = torch.empty(0, dtype=tensor.dtype).set_(
                flat.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )
            first = (slice(1),) * tensor.dim()
            moved[first].copy_(tensor[first])
            tensor.data = moved
            self._own[flat.data_ptr()] = pages

    def close_new(self) -> None:
        """Close the pages of `move`."""
        if self._closes:
            own = {start: (len(pages), True) for start, pages in list(self._own.items())}
            self._close({start: region for start, region in own.items() if start not in self._closed})

    def _regions(self) -> dict[int, tuple[int, bool]]:
        """Return the size of each region by its start, and whether it is writable."""
        arenas = {one.address: (one.size, one.writable) for one in self._memory.buffers.values()}
        return arenas | {start: (len(pages), True) for start, pages in list(self._own.items())}

    def _start(self, tensor: torch.Tensor, regions: Mapping[int, tuple[int, bool]]) -> int | None:
        address = tensor.untyped_storage().data_ptr()
        if address in regions:
            return address
        arenas = ((one.address, one.size) for one in self._memory.buffers.values())
        return next((start for start, size in arenas if start <= address < start + size), None)

    def _close(self, regions: Mapping[int, tuple[int, bool]]) -> None:
        for start, (size, _) in regions.items():
            _protect(start, size, _PROT_NONE)
        self._closed |= regions.keys()

    def _open(self, regions: Mapping[int, tuple[int, bool]]) -> None:
        for start, (size, writable) in regions.items():
            _protect(start, size, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        self._closed -= regions.keys()


class UnreadableWatch(OperatorWatch):
    """An `OperatorWatch` whose operators alone can read the memory of tensors.

    Attributes:
        unreadable: that memory; None where contents can be read.
    """

    unreadable: Unreadable | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.unreadable is None or kernel_of(func) is not None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self.unreadable.opened((*args, *(kwargs or {}).values())):
            try:
                return super().__torch_dispatch__(func, types, args, kwargs)
            finally:
                self.unreadable.close_new()


class ReadWatch(TorchFunctionMode):
    """Calls `on_read` with the name of a function of torch that reads a tensor's content."""

    def __init__(self, on_read: Callable[[str], None]) -> None:
        super().__init__()
        self._on_read = on_read

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(getattr(func, "__name__", ""))
        if name in READS:
            self._on_read(f"Tensor.{name}")
        with stays_for(self, func):
            return func(*args, **(kwargs or {}))


def new_memory(func: Any, name: str, args: Any, result: Any) -> list[torch.Tensor]:
    """Return the results of an operator that are memory of their own, as a recording allocates it."""
    if not isinstance(result, torch.Tensor) or not makes_memory(func, name.removeprefix("aten::")):
        return []
    known = {tensor.untyped_storage().data_ptr() for tensor in _tensors(args)}
    return [] if result.untyped_storage().data_ptr() in known else [result]


def _tensors(arguments: Any) -> Iterator[torch.Tensor]:
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, list | tuple):
        for one in arguments:
            yield from _tensors(one)


def _protect(start: int, size: int, protection: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), protection):
        raise OSError(ctypes.get_errno(), "mprotect of a tensor's pages")
