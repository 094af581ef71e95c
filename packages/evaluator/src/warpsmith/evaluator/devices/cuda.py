"""An NVIDIA GPU as a device."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import cuda_regions, cuda_scrubbing
from warpsmith.evaluator.devices.base import Device, TensorMap
from warpsmith.evaluator.devices.cuda_health import DeviceHealth, probe_device
from warpsmith.evaluator.devices.cuda_kind import CUDA, ORDINAL
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.devices.memory import Shared
from warpsmith.evaluator.errors import JudgeUnavailableError

LARGE_SHARE: Final = 0.2
SHORT_SHARE: Final = 0.75
SCARCE_SHARE: Final = 0.5
FULL_SHARE: Final = 0.25
LITTLE_SHARE: Final = 1 / 256
"""Share of the device's memory below which releasing it is not worthwhile."""
MOST_SPARE: Final = 16
SMALL_BYTES: Final = 32 << 20
"""A reused buffer can be up to MOST_SPARE times as large as needed, or up to SMALL_BYTES."""
_SYNCHRONIZE: Final = torch.cuda.synchronize
"""torch's own: that of host code also notes which streams it waits for."""


class CudaDevice(Device):
    """An NVIDIA GPU. Memory is allocated through the driver, and other processes map it by file descriptor.

    Args:
        handle: the driver's, if it is open already.

    Raises:
        NativeError: there is no driver or no device.
        JudgeUnavailableError: torch cannot use it.
    """

    kind = CUDA
    torch_device = torch.device("cuda", ORDINAL)

    def __init__(self, handle: _native.Device | None = None) -> None:
        self.handle = handle or _native.Device.open(ORDINAL)
        if torch.version.cuda is None:
            raise JudgeUnavailableError(
                f"The machine has a GPU, but torch {torch.__version__} is a build without CUDA.",
                "Install a CUDA build of torch, or evaluate on the cpu device.",
            )
        torch.cuda.set_device(self.torch_device)
        # Create the context and torch's state now, not during the first evaluation.
        torch.zeros(1, device=self.torch_device)
        torch.cuda.synchronize()

    @property
    def title(self) -> str:
        """See `Device`."""
        return self.handle.name

    @property
    def uuid(self) -> str:
        """See `Device`."""
        return self.handle.uuid

    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> "Shared":
        """Return a new buffer of `size` bytes; the driver does not enforce `writable_by_peer` and ignores `name`."""
        self.handle.use()
        return _native.DeviceBuffer.create(self.handle, size)

    def map(self, fd: int, size: int, *, writable: bool) -> "Shared":
        """See `Device`."""
        self.handle.use()
        return _native.DeviceBuffer.map(self.handle, fd, size, writable)

    def region(self, size: int, *, read_only: bool = False) -> Region:
        """See `Device`; accesses beyond a region fault."""
        self.handle.use()
        return cuda_regions.on_device(self.handle, size, read_only=read_only)

    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """See `Device` and `cuda_scrubbing.py`."""
        return cuda_scrubbing.Scrub(self.handle, cuda_scrubbing.assembled(self.handle.arch), local_bytes)

    def buffer_bytes(self, size: int) -> int:
        """See `Device`: `size` rounded up to the driver's granularity."""
        return -(-size // self.handle.granularity) * self.handle.granularity

    def can_reuse(self, held: "Shared", size: int) -> bool:
        """See `Device`.

        A new buffer costs several driver calls, each of which waits while other processes create contexts. A buffer
        that is far too large is dropped, to free memory for others.
        """
        return size <= held.size <= max(MOST_SPARE * size, SMALL_BYTES)

    def as_default(self) -> AbstractContextManager[Any]:
        """See `Device`."""
        return self.torch_device

    def seed(self, seed: int) -> None:
        """See `Device`: seeds the generators of the host and of this GPU."""
        torch.default_generator.manual_seed(seed)
        # Not `torch.cuda.manual_seed`, which is patched to intercept a problem's own seeds.
        torch.cuda.default_generators[ORDINAL].manual_seed(seed)

    def initial_seeds(self) -> tuple[int, ...]:
        """See `Device`: of the host and of this GPU."""
        return *super().initial_seeds(), torch.cuda.default_generators[ORDINAL].initial_seed()

    def limit(self, share: float) -> None:
        """See `Device`."""
        torch.cuda.set_per_process_memory_fraction(share, self.torch_device)

    def current_stream(self) -> int:
        """See `Device`."""
        return int(torch.cuda.current_stream(self.torch_device).cuda_stream)

    def settle(self) -> None:
        """See `Device`."""
        _SYNCHRONIZE()

    def release(self) -> None:
        """See `Device`."""
        torch.cuda.empty_cache()

    def release_if_large(self) -> None:
        """See `Device`."""
        if torch.cuda.memory_reserved() > LARGE_SHARE * self.handle.total_bytes:
            self.release()

    def release_if_scarce(self) -> None:
        """See `Device`."""
        # Ask torch first: the driver's answer waits while other processes create contexts.
        held = torch.cuda.memory_reserved()
        if held > LITTLE_SHARE * self.handle.total_bytes and (
            self.handle.free_bytes() < SCARCE_SHARE * self.handle.total_bytes
        ):
            self.release()

    def is_short(self) -> bool:
        """See `Device`."""
        return self.handle.free_bytes() < SHORT_SHARE * self.handle.total_bytes

    def is_nearly_full(self) -> bool:
        """See `Device`."""
        return self.handle.free_bytes() < FULL_SHARE * self.handle.total_bytes

    def free_bytes(self) -> int:
        """See `Device`; asks the driver."""
        return self.handle.free_bytes()

    def target_arch(self, configured: int) -> int:
        """See `Device`: the GPU's own chip, whatever is configured."""
        return self.handle.arch

    def properties(self) -> Any:
        """See `Device`."""
        return torch.cuda.get_device_properties(self.torch_device)

    def health(self) -> DeviceHealth:
        """See `Device`: the GPU is probed after faults."""
        return DeviceHealth(partial(probe_device, self.torch_device))

    def load(self, code: bytes, symbol: str, shared_bytes: int) -> _native.Kernel:
        """See `Device`; NativeError if the driver rejects the code."""
        return _native.Kernel.load(self.handle, code, symbol, shared_bytes)

    def load_module(self, code: bytes) -> _native.Module:
        """See `Device`; NativeError if the driver rejects the code."""
        return _native.Module.load(self.handle, code)

    def tensor_map(self, wanted: TensorMap) -> bytes:
        """See `Device`; NativeError if the driver rejects the map."""
        return _native.encode_tensor_map(
            self.handle, wanted.address, wanted.element, wanted.item_bytes, wanted.swizzle,
            wanted.nan_outside, wanted.shape, wanted.strides, wanted.block,
        )  # fmt: skip

    def event(self) -> _native.Event:
        """See `Device`."""
        return _native.Event(self.handle)

    def gate(self) -> _native.Gate:
        """See `Device`."""
        return _native.Gate(self.handle)

    @property
    def l2_bytes(self) -> int:
        """See `Device`."""
        return self.handle.l2_bytes
