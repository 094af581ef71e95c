"""Memory for one tensor alone: a kernel that gets it can reach nothing else.

On a GPU a region is a mapping of its own at an unpredictable address, with a gigabyte of unmapped addresses on either
side. The driver maps whole units (2 MiB), so a region is usually larger than its tensor: the rest of it, its slack, is
rewritten like the tensor.
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
"""Unit of a region on the host, in bytes; nothing protects it there."""


def placed(size: int, unit: int, *, at_end: bool) -> tuple[int, int]:
    """Return the size in bytes of a region for `size` bytes, and the content's offset: at one of the region's ends.

    The offset is aligned like GPU memory, so up to `ALIGNMENT` bytes of slack can follow content at the end.
    """
    room = -(-size // unit) * unit
    return room, (room - size) // ALIGNMENT * ALIGNMENT if at_end else 0


@dataclass
class Region:
    """One tensor's memory.

    Attributes:
        whole: all bytes of the region, always writable, for preparing calls: uint8 [bytes].
        content: the tensor's bytes, for kernels: uint8 [size]. Its storage ends where the tensor ends.
        start: offset of the content in the region, in bytes.
    """

    whole: torch.Tensor
    content: torch.Tensor
    start: int
    _buffer: "_native.DeviceBuffer | None" = None

    @property
    def slack(self) -> list[torch.Tensor]:
        """The bytes before and behind the content in the region."""
        return [self.whole[: self.start], self.whole[self.start + self.content.numel() :]]

    @property
    def within(self) -> torch.Tensor:
        """The content's bytes, always writable, for preparing calls."""
        return self.whole[self.start : self.start + self.content.numel()]

    def seal(self) -> None:
        """Make the region read-only: a kernel that writes to it faults. Does nothing on the host."""
        if self._buffer is not None:
            self._buffer.protect()


def on_host(size: int) -> Region:
    """Return a region in host memory, for recordings that launch nothing."""
    total, start = placed(max(size, 1), HOST_UNIT, at_end=bool(secrets.randbits(1)))
    room = np.empty(total + ALIGNMENT, dtype=np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    whole = room[begin : begin + total]
    return Region(torch.from_numpy(whole), torch.from_numpy(whole[start : start + max(size, 1)]), start)


def on_device(handle: "_native.Device", size: int, *, read_only: bool) -> Region:
    """Return a region in GPU memory.

    Args:
        handle: the device.
        size: bytes of the tensor; 0 takes one byte.
        read_only: whether kernels fault that write to `content`. `whole` and `within` stay writable through another
            mapping of the same memory.

    Raises:
        NativeError: the device is out of memory.
    """
    total, start = placed(max(size, 1), handle.granularity, at_end=bool(secrets.randbits(1)))
    buffer = _native.DeviceBuffer.create(handle, total, shareable=False)
    given = buffer.alias(writable=False) if read_only else buffer
    return Region(_tensor(buffer, 0, total), _tensor(given, start, max(size, 1)), start, buffer)


def _tensor(buffer: "_native.DeviceBuffer", start: int, size: int) -> torch.Tensor:
    made: Any = from_dlpack(buffer.dlpack(start, size))
    return made  # type: ignore[no-any-return]
