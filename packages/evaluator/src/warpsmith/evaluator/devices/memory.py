"""The two kinds of memory that a judge shares with its workers: sealed files of the host, and memory of a GPU.

One protocol serves both: the judge creates a buffer, sends its descriptor, and the worker maps it, read-only where it
is not to write. On a GPU a read-only mapping catches accidents and is no boundary: a worker can change what it maps.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import cuda_regions, cuda_scrubbing
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.errors import JudgeUnavailableError

Shared: TypeAlias = _native.Buffer | _native.DeviceBuffer

LARGE_SHARE: Final = 0.2
SHORT_SHARE: Final = 0.75
SCARCE_SHARE: Final = 0.5
LITTLE_SHARE: Final = 1 / 256
"""Of a device's memory, what is not worth giving back."""
MOST_SPARE: Final = 16
SMALL_BYTES: Final = 32 << 20
"""What a buffer may be larger than its content, at most so many times or so many bytes."""
ORDINAL: Final = 0
"""The device's number in every process of an evaluator: none sees another device."""


def _nothing() -> None:
    """Scrub nothing."""


class HostMemory:
    """Memory of the host: sealed memfds."""

    device: Final = torch.device("cpu")

    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> "Shared":
        """Return a new buffer of `size` bytes, zeroes, writable here; its peer maps it writable only if told so."""
        return _native.Buffer.create(name, size, writable_by_peer)

    def map(self, fd: int, size: int, *, writable: bool) -> "Shared":
        """Return the mapping of a buffer that another process created."""
        return _native.Buffer.map(fd, size, writable)

    def region(self, size: int, *, read_only: bool = False) -> Region:
        """Return memory for one tensor; see `regions.py`. Nothing is protected here, so `read_only` binds nobody."""
        return cuda_regions.on_host(size)

    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """Return what scrubs a device's multiprocessors between two calls; here there are none."""
        return _nothing

    def roomy(self, size: int) -> int:
        """Return of how many bytes a buffer is to be that may be used again for others; here no buffer is."""
        return size

    def does_for(self, held: "Shared", size: int) -> bool:
        """Whether a buffer that is there already is to be used for `size` bytes of another form."""
        return False

    def generator(self, seed: int) -> torch.Generator:
        """Return a generator of random numbers on this device."""
        return torch.Generator().manual_seed(seed)

    def placing(self) -> AbstractContextManager[Any]:
        """Return a context in which tensors are made here that name no device."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed torch's own generators of this process.

        `torch.manual_seed` seeds those of all devices, and writes a stack trace for each: half a millisecond a call.
        """
        torch.default_generator.manual_seed(seed)

    def limit(self, share: float) -> None:
        """Bound what torch may take of the memory; here the process's limits do."""

    def settle(self) -> None:
        """Wait until all that was asked for is in memory: other processes know nothing of this one's streams."""

    def release(self) -> None:
        """Give back what this process holds and does not use."""

    def release_if_large(self) -> None:
        """Give it back where it is so much that others could want for it."""

    def release_if_scarce(self) -> None:
        """Give it back where there is little left for others; taking it again would cost time."""

    def is_short(self) -> bool:
        """Whether a large problem could want for memory; of the host's there is a limit for each process."""
        return False


class DeviceMemory:
    """Memory of a GPU: physical allocations of the driver, shared by descriptor and mapped in each process.

    Raises:
        NativeError: there is no driver or no device.
        JudgeUnavailableError: torch cannot use it.
    """

    device: Final = torch.device("cuda", ORDINAL)

    def __init__(self) -> None:
        self.handle = _native.Device.open(ORDINAL)
        if torch.version.cuda is None:
            raise JudgeUnavailableError(
                f"There is a GPU, and torch {torch.__version__} is a build without CUDA.",
                "Install torch's build for CUDA, or evaluate on the cpu device.",
            )
        torch.cuda.set_device(self.device)
        # The context and torch's own state come into being now, not under the first evaluation.
        torch.zeros(1, device=self.device)
        torch.cuda.synchronize()

    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> "Shared":
        """Return a new buffer of `size` bytes; `name` and `writable_by_peer` say what is meant and bind nobody."""
        self.handle.use()
        return _native.DeviceBuffer.create(self.handle, size)

    def map(self, fd: int, size: int, *, writable: bool) -> "Shared":
        """Return the mapping of a buffer that another process created."""
        self.handle.use()
        return _native.DeviceBuffer.map(self.handle, fd, size, writable)

    def region(self, size: int, *, read_only: bool = False) -> Region:
        """Return memory for one tensor, which kernels cannot leave; see `regions.py`. NativeError: none is left."""
        self.handle.use()
        return cuda_regions.on_device(self, size, read_only=read_only)

    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """Return what scrubs the multiprocessors between two calls, in stream order; see `scrubbing.py`."""
        return cuda_scrubbing.Scrub(self.handle, cuda_scrubbing.assembled(self.handle.arch), local_bytes)

    def roomy(self, size: int) -> int:
        """Return of how many bytes a buffer is to be that may be used again for others: all that it takes anyway."""
        return -(-size // self.handle.granularity) * self.handle.granularity

    def does_for(self, held: "Shared", size: int) -> bool:
        """Whether a buffer that is there already is to be used for `size` bytes of another form.

        To make and map another costs several calls of the driver, each of which waits for contexts that come into being
        elsewhere. A buffer that is far too large is let go of: others may want its memory.
        """
        return size <= held.size <= max(MOST_SPARE * size, SMALL_BYTES)

    def generator(self, seed: int) -> torch.Generator:
        """Return a generator of random numbers on this device."""
        return torch.Generator(self.device).manual_seed(seed)

    def placing(self) -> AbstractContextManager[Any]:
        """Return a context in which tensors are made here that name no device."""
        return self.device

    def seed(self, seed: int) -> None:
        """Seed torch's own generators of this process, of the host and of the device."""
        torch.default_generator.manual_seed(seed)
        # `torch.cuda.manual_seed` may be what a problem's own seeds are caught by.
        torch.cuda.default_generators[ORDINAL].manual_seed(seed)

    def limit(self, share: float) -> None:
        """Bound what torch may take of the memory."""
        torch.cuda.set_per_process_memory_fraction(share, self.device)

    def settle(self) -> None:
        """Wait until all that was asked for is in memory: other processes know nothing of this one's streams."""
        torch.cuda.synchronize()

    def release(self) -> None:
        """Give back what this process holds and does not use, so that the other processes can have it."""
        torch.cuda.empty_cache()

    def release_if_large(self) -> None:
        """Give it back where it is so much that others could want for it."""
        if torch.cuda.memory_reserved() > LARGE_SHARE * self.handle.total_bytes:
            self.release()

    def release_if_scarce(self) -> None:
        """Give it back where there is little left for others; taking it again would cost time."""
        # What is held here is known without the driver, whose answer waits for contexts that come into being elsewhere.
        held = torch.cuda.memory_reserved()
        if held > LITTLE_SHARE * self.handle.total_bytes and (
            self.handle.free_bytes() < SCARCE_SHARE * self.handle.total_bytes
        ):
            self.release()

    def is_short(self) -> bool:
        """Whether a large problem could want for memory."""
        return self.handle.free_bytes() < SHORT_SHARE * self.handle.total_bytes


def room(
    memory: "HostMemory | DeviceMemory",
    name: str,
    size: int,
    held: "Shared | None",
    *,
    same: bool = False,
    writable_by_peer: bool = False,
) -> "Shared":
    """Return a buffer for `size` bytes: what is held, if it was made for this form or does for others, or a new one."""
    if held is not None and (same or memory.does_for(held, size)):
        return held
    return memory.create(name, memory.roomy(size), writable_by_peer=writable_by_peer)


def memory_of(device: str) -> "HostMemory | DeviceMemory":
    """Return the memory of a device by the evaluator's name for it, opening it in this process.

    Raises:
        JudgeUnavailableError: there is no driver, no device, or no torch that can use it.
    """
    if device == "cpu":
        return HostMemory()
    try:
        return DeviceMemory()
    except _native.NativeError as error:
        raise JudgeUnavailableError(f"No GPU can be used here: {error.message}", error.remedy) from error
