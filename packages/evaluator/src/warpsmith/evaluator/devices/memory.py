"""Buffers that the judge shares with its workers: what they are, and when one that is there is used again.

One protocol serves every device: the judge creates a buffer, sends its descriptor, and the worker maps it, read-only
where it is not to write. On a GPU a read-only mapping catches accidents and is no boundary: a worker can change what it
maps.
"""

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
) -> "Shared":
    """Return a buffer for `size` bytes: what is held, if it was made for this form or does for others, or a new one."""
    if held is not None and (same or device.does_for(held, size)):
        return held
    return device.create(name, device.roomy(size), writable_by_peer=writable_by_peer)
