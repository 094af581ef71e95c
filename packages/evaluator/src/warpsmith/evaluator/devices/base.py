"""The interface of an open device: memory, contexts, launches and clocks, as judge and workers use them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from warpsmith.evaluator.devices.kinds import DeviceKind
from warpsmith.evaluator.devices.memory import Shared

if TYPE_CHECKING:
    from warpsmith.evaluator import _native
    from warpsmith.evaluator.devices.cuda_regions import Region


class Health(Protocol):
    """Whether a device still works after a candidate's fault."""

    def note(self, category: str | None) -> None:
        """Count a fault of that category, and look at the device."""

    def suspect(self) -> None:
        """Look at the device after a failure of the evaluator's own on it."""

    def check(self) -> None:
        """Raise DeviceQuarantinedError where the device is out of use."""


@dataclass(frozen=True)
class TensorMap:
    """What a kernel is to be told of a tensor that it reads by descriptor; see `_native.encode_tensor_map`."""

    address: int
    element: int
    item_bytes: int
    swizzle: int
    nan_outside: bool
    shape: Sequence[int]
    strides: Sequence[int]
    block: Sequence[int]


class Device(ABC):
    """One device, opened in this process.

    Attributes:
        kind: what is known of it before it is opened.
        torch_device: where torch puts tensors of it.
    """

    kind: ClassVar[DeviceKind]
    torch_device: ClassVar[torch.device]

    @property
    @abstractmethod
    def title(self) -> str:
        """What people and verdicts call it."""

    @property
    @abstractmethod
    def uuid(self) -> str:
        """What its driver calls it in every process; empty where it has no driver."""

    # Memory --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> Shared:
        """Return a new buffer of `size` bytes, writable here; its peer maps it writable only if told so."""

    @abstractmethod
    def map(self, fd: int, size: int, *, writable: bool) -> Shared:
        """Return the mapping of a buffer that another process created."""

    @abstractmethod
    def region(self, size: int, *, read_only: bool = False) -> "Region":
        """Return memory for one tensor of `size` bytes; see `cuda_regions.py`. NativeError: none is left."""

    @abstractmethod
    def roomy(self, size: int) -> int:
        """Return of how many bytes a buffer is to be that may be used again for others."""

    @abstractmethod
    def does_for(self, held: Shared, size: int) -> bool:
        """Whether a buffer that is there already is to be used for `size` bytes of another form."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory of the device nobody holds."""

    @abstractmethod
    def limit(self, share: float) -> None:
        """Bound the share of the memory that torch may take."""

    @abstractmethod
    def release(self) -> None:
        """Give back what this process holds and does not use, so that the other processes can have it."""

    @abstractmethod
    def release_if_large(self) -> None:
        """Give it back where it is so much that others could want for it."""

    @abstractmethod
    def release_if_scarce(self) -> None:
        """Give it back where there is little left for others; taking it again would cost time."""

    @abstractmethod
    def is_short(self) -> bool:
        """Whether a large problem could want for memory."""

    # Contexts ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def target_arch(self, configured: int) -> int:
        """Return the chip that kernels are compiled for: the device's own, or the configured one where it has none."""

    @abstractmethod
    def properties(self) -> Any:
        """Return what `torch.cuda.get_device_properties` tells of it; an object without attributes on the host."""

    @abstractmethod
    def health(self) -> Health:
        """Return what looks after the device; called once, in the judge."""

    @abstractmethod
    def placing(self) -> AbstractContextManager[Any]:
        """Return a context in which tensors are made here that name no device."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seed torch's own generators of this process.

        `torch.manual_seed` seeds those of all devices, and writes a stack trace for each: half a millisecond a call.
        """

    def generator(self, seed: int) -> torch.Generator:
        """Return a generator of random numbers on this device."""
        return torch.Generator(self.torch_device).manual_seed(seed)

    # Launches and clocks -------------------------------------------------------------------------------------------

    @abstractmethod
    def settle(self) -> None:
        """Wait until all that was asked for is in memory: other processes know nothing of this one's streams."""

    @abstractmethod
    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """Return what scrubs the multiprocessors between two calls, in stream order."""

    @abstractmethod
    def load(self, code: bytes, symbol: str, shared_bytes: int) -> "_native.Kernel":
        """Return a kernel of machine code, ready to be launched; RuntimeError where none can be."""

    @abstractmethod
    def tensor_map(self, wanted: TensorMap) -> bytes:
        """Return what a kernel takes for a tensor descriptor; RuntimeError where the chip has no unit that reads so."""

    @abstractmethod
    def event(self) -> "_native.Event":
        """Return an event that can be recorded in a stream; RuntimeError on a device that does not time."""

    @abstractmethod
    def gate(self) -> "_native.Gate":
        """Return what holds a stream until it is opened; RuntimeError on a device that does not time."""

    @property
    @abstractmethod
    def l2_bytes(self) -> int:
        """Bytes of the L2 cache."""
