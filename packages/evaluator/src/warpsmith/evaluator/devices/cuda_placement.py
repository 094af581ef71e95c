"""Has torch make an operator's result in given memory, where the operator has no form that writes there.

A transposed convolution is one: torch allocates its result first, then its workspace. The call runs in a pool of
torch's caching allocator whose memory this module provides, and the pool's first segment is the given memory. The
allocator keeps it as a free block between calls, and finds it again by its size. If it does not, the result is copied.
"""

import ctypes
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import torch

from warpsmith.evaluator import _native

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.cuda_regions import Region

SEGMENT: Final = 2 << 20
"""torch's allocator asks for multiples of this many bytes."""
LEAST_BYTES: Final = 10 << 20
"""Below this, torch asks for a larger segment and divides it: its tail would lie behind the given memory."""
_CAPTURED: ContextVar[tuple[int, int] | None] = ContextVar("captured", default=None)
_Allocate: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_Free: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


@contextmanager
def capturing(pool: tuple[int, int]) -> Iterator[None]:
    """Let calls be placed while a graph is captured whose memory comes from a pool.

    Args:
        pool: its identifier, `torch.cuda.graph_pool_handle()`.
    """
    token = _CAPTURED.set(pool)
    try:
        yield
    finally:
        _CAPTURED.reset(token)


class Placement:
    """Where the result of one operator goes.

    Args:
        device: a GPU; its regions hold what the operator allocates besides its result.
        into: the tensor for the result. Its memory must be writable and outlive this.
    """

    def __init__(self, device: "Device", into: torch.Tensor) -> None:
        self._device = device
        self._into = into
        # A block belongs to the stream that it was allocated on, and captures have their own.
        self._pools: dict[int, tuple[torch.cuda.MemPool, _Segments]] = {}
        self._can = into.nbytes >= LEAST_BYTES and into.is_contiguous() and _pools_can_stay_undivided()

    def call(self, run: Callable[[], torch.Tensor]) -> None:
        """Run an operator and have its result in `into`; it is copied where torch put it elsewhere.

        Raises:
            ValueError: the result has another shape or dtype than `into`.
            torch.OutOfMemoryError: the device is out of memory.
        """
        found = self._found(run)
        if (found.shape, found.dtype) != (self._into.shape, self._into.dtype):
            raise ValueError(f"the result has shape {list(found.shape)} of {found.dtype}")
        if found.data_ptr() != self._into.data_ptr() or found.stride() != self._into.stride():
            self._can = False
            self._into.copy_(found)

    def _found(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        if not self._can or (torch.cuda.is_current_stream_capturing() and _CAPTURED.get() is None):
            return run()
        pool, segments = self._pool()
        with _routed(pool):
            found = run()
        # From the next call on, torch could take either for the result.
        self._can = not segments.alike
        return found

    def _pool(self) -> "tuple[torch.cuda.MemPool, _Segments]":
        stream = torch.cuda.current_stream().cuda_stream
        if stream not in self._pools:
            segments = _Segments(self._device, self._into)
            # Undivided, so that nothing else lies in the given memory.
            self._pools[stream] = torch.cuda.MemPool(segments.allocator(), no_split=True), segments
        return self._pools[stream]


def _pools_can_stay_undivided() -> bool:
    return "no_split" in inspect.signature(torch.cuda.MemPool).parameters


@contextmanager
def _routed(pool: torch.cuda.MemPool) -> Iterator[None]:
    """Have this thread allocate in a pool, also while a graph is captured, whose own pool would be first."""
    captured, ordinal = _CAPTURED.get(), torch.cuda.current_device()
    if captured:
        torch._C._cuda_endAllocateToPool(ordinal, captured)
    try:
        with torch.cuda.use_mem_pool(pool):
            yield
    finally:
        if captured:
            torch._C._cuda_beginAllocateCurrentThreadToPool(ordinal, captured)
            torch._C._cuda_releasePool(ordinal, captured)


class _Segments:
    """The memory of a pool: its first segment is a tensor's, all others are regions.

    Args:
        device: that has the regions.
        into: the tensor.

    Attributes:
        alike: whether another segment has the size of the first.
    """

    def __init__(self, device: "Device", into: torch.Tensor) -> None:
        self.alike = False
        self._device = device
        self._address = into.data_ptr()
        self._size = -(-into.nbytes // SEGMENT) * SEGMENT
        self._given = False
        self._regions: dict[int, Region] = {}

    def allocator(self) -> "torch._C._cuda_CUDAAllocator":
        """Return what torch takes for a pool."""
        functions = _Allocate(self._allocate), _Free(self._free)
        for one in functions:
            # torch may call them for as long as the process lives, whatever becomes of the pool.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        allocate, free = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions)
        return torch._C._cuda_customAllocator(allocate, free)

    def _allocate(self, size: int, _ordinal: int, _stream: int) -> int | None:
        if size == self._size and not self._given:
            self._given = True
            return self._address
        self.alike = self.alike or size == self._size
        try:
            region = self._device.region(size)
        except _native.NativeError:
            # torch says that memory lacks, or does with less.
            return None
        address = region.whole.data_ptr()
        self._regions[address] = region
        return address

    def _free(self, address: int, _size: int, _ordinal: int, _stream: int) -> None:
        if address == self._address:
            self._given = False
        self._regions.pop(address, None)
