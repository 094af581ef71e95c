"""The host as a device: kernels are interpreted on its processors, and judge and workers share sealed files."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import cuda_regions
from warpsmith.evaluator.devices.base import Device, TensorMap
from warpsmith.evaluator.devices.cuda_regions import Region
from warpsmith.evaluator.devices.host_kind import HOST
from warpsmith.evaluator.devices.memory import Shared


def _nothing() -> None:
    """Scrub nothing."""


class HostDevice(Device):
    """The host: its memory is sealed memfds, and its processors interpret kernels."""

    kind = HOST
    torch_device = torch.device("cpu")
    title = HOST.name
    uuid = ""

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

    def placing(self) -> AbstractContextManager[Any]:
        """Return a context in which tensors are made here that name no device."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed torch's own generators of this process."""
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

    def free_bytes(self) -> int:
        """As of `Device`: what the machine could give to new processes."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def target_arch(self, configured: int) -> int:
        """As of `Device`: no chip of its own is compiled for."""
        return configured

    def properties(self) -> Any:
        """As of `Device`: nothing is told."""
        return SimpleNamespace()

    def health(self) -> "AlwaysHealthy":
        """As of `Device`: no fault of a process puts the host out of use."""
        return AlwaysHealthy()

    def load(self, code: bytes, symbol: str, shared_bytes: int) -> NoReturn:
        """As of `Device`: there is no chip."""
        raise _not_here("load machine code")

    def tensor_map(self, wanted: TensorMap) -> NoReturn:
        """As of `Device`: there is no chip."""
        raise _not_here("encode a tensor descriptor")

    def event(self) -> NoReturn:
        """As of `Device`: a CPU's time is not judged."""
        raise _not_here("time calls")

    def gate(self) -> NoReturn:
        """As of `Device`: a CPU's time is not judged."""
        raise _not_here("time calls")

    @property
    def l2_bytes(self) -> int:
        """As of `Device`: a CPU's time is not judged."""
        raise _not_here("time calls")


class AlwaysHealthy:
    """The health of a device that no candidate's fault can spoil."""

    def note(self, category: str | None) -> None:
        """Nothing is to be seen."""

    def suspect(self) -> None:
        """Nothing is to be seen."""

    def check(self) -> None:
        """Raise nothing."""


def _not_here(action: str) -> RuntimeError:
    return RuntimeError(f"The cpu device cannot {action}; a device with a chip was expected.")
