"""A worker's mappings of the judge's memory, by name."""

import os

from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.memory import Shared


class Mappings:
    """The worker's mappings of the judge's arenas, by name. A new descriptor replaces the mapping of that name."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.buffers: dict[str, Shared] = {}

    def receive(self, name: str, size: int, fds: list[int], *, writable: bool) -> Shared:
        """Map the first of `fds` under `name`; without a descriptor, return the existing mapping."""
        if fds:
            self.buffers[name] = self.device.map(fds[0], size, writable=writable)
            os.close(fds.pop(0))
        return self.buffers[name]

    def is_read_only(self, address: int) -> bool:
        return any(
            not buffer.writable and buffer.address <= address < buffer.address + buffer.size
            for buffer in self.buffers.values()
        )
