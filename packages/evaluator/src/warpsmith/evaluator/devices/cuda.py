"""A GPU of NVIDIA as a device."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import cuda_regions, cuda_scrubbing
from warpsmith.evaluator.devices.base import Device, TensorMap
from warpsmith.evaluator.devices.cuda_health import DeviceHealth, probe_device
from warpsmith.evaluator.devices.cuda_kind import CUDA
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.devices.memory import Shared
from warpsmith.evaluator.errors import JudgeUnavailableError

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


class CudaDevice(Device):
    """A GPU of NVIDIA: its memory is physical allocations of the driver, mapped by descriptor in each process.

    Raises:
        NativeError: there is no driver or no device.
        JudgeUnavailableError: torch cannot use it.
    """

    kind = CUDA
    torch_device = torch.device("cuda", ORDINAL)

    def __init__(self) -> None:
        self.handle = _native.Device.open(ORDINAL)
        if torch.version.cuda is None:
            raise JudgeUnavailableError(
                f"There is a GPU, and torch {torch.__version__} is a build without CUDA.",
                "Install torch's build for CUDA, or evaluate on the cpu device.",
            )
        torch.cuda.set_device(self.torch_device)
        # The context and torch's own state come into being now, not under the first evaluation.
        torch.zeros(1, device=self.torch_device)
        torch.cuda.synchronize()

    @property
    def title(self) -> str:
        """As of `Device`."""
        return self.handle.name

    @property
    def uuid(self) -> str:
        """As of `Device`."""
        return self.handle.uuid

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
        return cuda_regions.on_device(self.handle, size, read_only=read_only)

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

    def placing(self) -> AbstractContextManager[Any]:
        """Return a context in which tensors are made here that name no device."""
        return self.torch_device

    def seed(self, seed: int) -> None:
        """Seed torch's own generators of this process, of the host and of the device."""
        torch.default_generator.manual_seed(seed)
        # `torch.cuda.manual_seed` may be what a problem's own seeds are caught by.
        torch.cuda.default_generators[ORDINAL].manual_seed(seed)

    def limit(self, share: float) -> None:
        """Bound what torch may take of the memory."""
        torch.cuda.set_per_process_memory_fraction(share, self.torch_device)

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

    def free_bytes(self) -> int:
        """As of `Device`, as the driver tells it."""
        return self.handle.free_bytes()

    def target_arch(self, configured: int) -> int:
        """As of `Device`: the chip that is there, whatever is configured."""
        return self.handle.arch

    def properties(self) -> Any:
        """As of `Device`."""
        return torch.cuda.get_device_properties(self.torch_device)

    def health(self) -> DeviceHealth:
        """As of `Device`: it is probed after faults."""
        return DeviceHealth(partial(probe_device, self.torch_device))

    def load(self, code: bytes, symbol: str, shared_bytes: int) -> _native.Kernel:
        """As of `Device`; NativeError where the driver refuses the code."""
        return _native.Kernel.load(self.handle, code, symbol, shared_bytes)

    def tensor_map(self, wanted: TensorMap) -> bytes:
        """As of `Device`; NativeError where the driver makes no such map."""
        return _native.encode_tensor_map(
            self.handle, wanted.address, wanted.element, wanted.item_bytes, wanted.swizzle,
            wanted.nan_outside, wanted.shape, wanted.strides, wanted.block,
        )  # fmt: skip

    def event(self) -> _native.Event:
        """As of `Device`."""
        return _native.Event(self.handle)

    def gate(self) -> _native.Gate:
        """As of `Device`."""
        return _native.Gate(self.handle)

    @property
    def l2_bytes(self) -> int:
        """As of `Device`."""
        return self.handle.l2_bytes
