"""The interface of an open device: memory, contexts, launches and clocks, for judge and workers."""

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


OnDevice = Callable[[], AbstractContextManager[None]]
"""Returns a context in which work may run on the device, and which ends once that work has."""


class Health(Protocol):
    """Tracks whether a device still works after candidates' faults."""

    def note(self, category: str | None) -> None:
        """Count a fault of that category, and probe the device."""

    def suspect(self) -> None:
        """Probe the device after a failure of the evaluator's own."""

    def check(self) -> None:
        """Raise DeviceQuarantinedError if the device is out of use."""


@dataclass(frozen=True)
class TensorMap:
    """Describes a tensor that a kernel reads through a descriptor; see `_native.encode_tensor_map`."""

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
        kind: its properties that are known before it is opened.
        torch_device: torch's name of it.
    """

    kind: ClassVar[DeviceKind]
    torch_device: ClassVar[torch.device]

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in messages and verdicts."""

    @property
    @abstractmethod
    def uuid(self) -> str:
        """The driver's UUID, the same in every process; empty without a driver."""

    # Memory --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> Shared:
        """Return a new buffer of `size` bytes, writable here; others can only read it unless `writable_by_peer`."""

    @abstractmethod
    def map(self, fd: int, size: int, *, writable: bool) -> Shared:
        """Return the mapping of a buffer that another process created."""

    @abstractmethod
    def region(self, size: int, *, read_only: bool = False) -> "Region":
        """Return memory for one tensor of `size` bytes; see `cuda_regions.py`. NativeError: out of memory."""

    @abstractmethod
    def buffer_bytes(self, size: int) -> int:
        """Return the size in bytes to allocate for a reusable buffer that must hold `size` bytes."""

    @abstractmethod
    def can_reuse(self, held: Shared, size: int) -> bool:
        """Whether to reuse an existing buffer for `size` bytes of another form."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the device's free memory in bytes."""

    @abstractmethod
    def limit(self, share: float) -> None:
        """Limit the share of the memory that torch can allocate in this process."""

    @abstractmethod
    def release(self) -> None:
        """Return cached memory of this process to the device, for other processes."""

    @abstractmethod
    def release_if_large(self) -> None:
        """Return cached memory if it is so much that others could run short."""

    @abstractmethod
    def release_if_scarce(self) -> None:
        """Return cached memory if little is left for others; otherwise keep it, since allocating again takes time."""

    @abstractmethod
    def is_short(self) -> bool:
        """Whether free memory is too scarce for a large problem."""

    def is_nearly_full(self) -> bool:
        """Whether little memory is free, so that even small problems could find none."""
        return False

    # Contexts ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def target_arch(self, configured: int) -> int:
        """Return the chip to compile kernels for: the device's own, or the configured one if it has none."""

    @abstractmethod
    def properties(self) -> Any:
        """Return the result of `torch.cuda.get_device_properties`; on the host an object without attributes."""

    @abstractmethod
    def health(self) -> Health:
        """Return the device's health tracker; called once, in the judge."""

    @abstractmethod
    def as_default(self) -> AbstractContextManager[Any]:
        """Return a context in which torch creates tensors on this device by default."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seed torch's default generators in this process.

        `torch.manual_seed` is slower: it records a stack trace for each kind of device, half a millisecond a call.
        """

    def initial_seeds(self) -> tuple[int, ...]:
        """Return what torch's default generators in this process were last seeded with."""
        return (torch.default_generator.initial_seed(),)

    def generator(self, seed: int) -> torch.Generator:
        """Return a random number generator on this device."""
        return torch.Generator(self.torch_device).manual_seed(seed)

    # Launches and clocks -------------------------------------------------------------------------------------------

    @abstractmethod
    def current_stream(self) -> int:
        """Return the handle of torch's current stream in this process; 0 on a device without streams."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all work is complete: other processes cannot wait for this one's streams."""

    @abstractmethod
    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """Return a function that scrubs the multiprocessors between two calls, in stream order."""

    @abstractmethod
    def load(self, code: bytes, symbol: str, shared_bytes: int) -> "_native.Kernel":
        """Return a launchable kernel from machine code; RuntimeError if the device runs none."""

    @abstractmethod
    def load_module(self, code: bytes) -> "_native.Module":
        """Return a module from machine code, for all its kernels; RuntimeError if the device runs none."""

    @abstractmethod
    def tensor_map(self, wanted: TensorMap) -> bytes:
        """Return the encoded tensor descriptor for a kernel; RuntimeError if the chip has no such unit."""

    @abstractmethod
    def event(self) -> "_native.Event":
        """Return an event to record in a stream; RuntimeError on a device that does not time."""

    @abstractmethod
    def gate(self) -> "_native.Gate":
        """Return a gate, which holds a stream until it is opened; RuntimeError on a device that does not time."""

    @property
    @abstractmethod
    def l2_bytes(self) -> int:
        """Size of the L2 cache in bytes."""
