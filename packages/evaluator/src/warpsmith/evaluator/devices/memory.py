"""Buffers that the judge shares with its workers, and when one is reused.

The protocol is the same for every device: the judge creates a buffer and sends its descriptor, and the worker maps it,
read-only unless it must write. On a GPU a read-only mapping catches accidents but is no security boundary: a worker can
change its mappings.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from warpsmith.evaluator import _native

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device

Shared: TypeAlias = _native.Buffer | _native.DeviceBuffer


def room(
    device: "Device",
    name: str,
    size: int,
    held: "Shared | None",
    *,
    same: bool = False,
    writable_by_peer: bool = False,
    driving: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> "Shared":
    """Return a buffer for `size` bytes: `held` if of the same form or reusable by the device, otherwise a new one.

    `driving`: the context in which one is made.
    """
    if held is not None and (same or device.can_reuse(held, size)):
        return held
    with driving():
        return device.create(name, device.buffer_bytes(size), writable_by_peer=writable_by_peer)
