"""The host as a device: kernels are interpreted on the CPU, and judge and workers share sealed memory files."""

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
    """The host: its memory is sealed memfds, and its CPU interprets kernels."""

    kind = HOST
    torch_device = torch.device("cpu")
    title = HOST.name
    uuid = ""

    def create(self, name: str, size: int, *, writable_by_peer: bool = False) -> "Shared":
        """See `Device`; the buffer holds zeros."""
        return _native.Buffer.create(name, size, writable_by_peer)

    def map(self, fd: int, size: int, *, writable: bool) -> "Shared":
        """See `Device`."""
        return _native.Buffer.map(fd, size, writable)

    def region(self, size: int, *, read_only: bool = False) -> Region:
        """See `Device`; nothing is protected on the host, so `read_only` has no effect."""
        return cuda_regions.on_host(size)

    def scrub(self, local_bytes: int) -> Callable[[], None]:
        """See `Device`; there is nothing to scrub."""
        return _nothing

    def buffer_bytes(self, size: int) -> int:
        """See `Device`: `size` itself, since buffers are not reused."""
        return size

    def can_reuse(self, held: "Shared", size: int) -> bool:
        """See `Device`: never."""
        return False

    def as_default(self) -> AbstractContextManager[Any]:
        """See `Device`."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """See `Device`."""
        torch.default_generator.manual_seed(seed)

    def limit(self, share: float) -> None:
        """See `Device`; does nothing, since the process has limits of its own."""

    def current_stream(self) -> int:
        """See `Device`: there are no streams."""
        return 0

    def settle(self) -> None:
        """See `Device`; does nothing, since calls are synchronous."""

    def release(self) -> None:
        """See `Device`; does nothing."""

    def release_if_large(self) -> None:
        """See `Device`; does nothing."""

    def release_if_scarce(self) -> None:
        """See `Device`; does nothing."""

    def is_short(self) -> bool:
        """See `Device`: never, since each process has a memory limit of its own."""
        return False

    def free_bytes(self) -> int:
        """See `Device`: the memory available to new processes."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def target_arch(self, configured: int) -> int:
        """See `Device`: the configured chip."""
        return configured

    def properties(self) -> Any:
        """See `Device`: an object without attributes."""
        return SimpleNamespace()

    def health(self) -> "AlwaysHealthy":
        """See `Device`: no fault of a process puts the host out of use."""
        return AlwaysHealthy()

    def load(self, code: bytes, symbol: str, shared_bytes: int) -> NoReturn:
        """See `Device`: always raises, since there is no chip."""
        raise _not_here("load machine code")

    def load_module(self, code: bytes) -> NoReturn:
        """See `Device`: always raises, since there is no chip."""
        raise _not_here("load machine code")

    def tensor_map(self, wanted: TensorMap) -> NoReturn:
        """See `Device`: always raises, since there is no chip."""
        raise _not_here("encode a tensor descriptor")

    def event(self) -> NoReturn:
        """See `Device`: always raises, since nothing is timed on a CPU."""
        raise _not_here("time calls")

    def gate(self) -> NoReturn:
        """See `Device`: always raises, since nothing is timed on a CPU."""
        raise _not_here("time calls")

    @property
    def l2_bytes(self) -> int:
        """See `Device`: always raises, since nothing is timed on a CPU."""
        raise _not_here("time calls")


class AlwaysHealthy:
    """The health of a device that no candidate's fault can damage."""

    def note(self, category: str | None) -> None:
        """Do nothing."""

    def suspect(self) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Do nothing."""


def _not_here(action: str) -> RuntimeError:
    return RuntimeError(f"The cpu device cannot {action}; a device with a chip was expected.")
