"""Memory of one tensor alone: nothing else lies within reach of a kernel that is given it.

On a GPU a region is a mapping of its own at an address that nobody can foresee, with a gigabyte of unmapped addresses
on either side. The driver maps whole units (2 MiB), so that a region is as a rule larger than its tensor: the rest of
it, its slack, is rewritten like the tensor.
"""

import secrets
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from warpsmith.evaluator import _native
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT

HOST_UNIT: Final = 4096
"""Of a region on the host, where nothing protects it."""


def placed(size: int, unit: int, *, at_end: bool) -> tuple[int, int]:
    """Return of how many bytes a region for `size` bytes is, and where in it they begin: at one of its ends.

    The beginning is aligned as memory of a GPU is, so that up to `ALIGNMENT` bytes may lie behind them in any case.
    """
    room = -(-size // unit) * unit
    return room, (room - size) // ALIGNMENT * ALIGNMENT if at_end else 0


@dataclass
class Region:
    """One tensor's memory.

    Attributes:
        whole: all bytes of the region, as who prepares a call writes them: uint8 [bytes].
        content: the tensor's bytes, as kernels are given them: uint8 [size]. Its storage ends where the tensor does.
        start: of the content, in the whole.
    """

    whole: torch.Tensor
    content: torch.Tensor
    start: int
    _buffer: "_native.DeviceBuffer | None" = None

    @property
    def slack(self) -> list[torch.Tensor]:
        """What lies before and behind the content in the region."""
        return [self.whole[: self.start], self.whole[self.start + self.content.numel() :]]

    @property
    def within(self) -> torch.Tensor:
        """The content's bytes as who prepares a call writes them."""
        return self.whole[self.start : self.start + self.content.numel()]

    def seal(self) -> None:
        """Let nobody write here any more; a kernel that does faults. On the host nothing is protected."""
        if self._buffer is not None:
            self._buffer.protect()


def on_host(size: int) -> Region:
    """Return a region of the host's memory, for recordings that launch nothing."""
    total, start = placed(max(size, 1), HOST_UNIT, at_end=bool(secrets.randbits(1)))
    room = np.empty(total + ALIGNMENT, dtype=np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    whole = room[begin : begin + total]
    return Region(torch.from_numpy(whole), torch.from_numpy(whole[start : start + max(size, 1)]), start)


def on_device(handle: "_native.Device", size: int, *, read_only: bool) -> Region:
    """Return a region of a GPU's memory.

    Args:
        handle: the device.
        size: bytes of the tensor; 0 takes one byte.
        read_only: whether kernels that are given the content fault where they write. Who prepares a call writes through
            another mapping of the same memory.

    Raises:
        NativeError: the device has no memory left.
    """
    total, start = placed(max(size, 1), handle.granularity, at_end=bool(secrets.randbits(1)))
    buffer = _native.DeviceBuffer.create(handle, total, shareable=False)
    given = buffer.alias(writable=False) if read_only else buffer
    return Region(_tensor(buffer, 0, total), _tensor(given, start, max(size, 1)), start, buffer)


def _tensor(buffer: "_native.DeviceBuffer", start: int, size: int) -> torch.Tensor:
    made: Any = from_dlpack(buffer.dlpack(start, size))
    return made  # type: ignore[no-any-return]
