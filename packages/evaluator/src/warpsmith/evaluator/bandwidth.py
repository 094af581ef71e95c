"""How fast a device writes: below that no output can have come into being."""

from dataclasses import dataclass

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.memory import DeviceMemory


@dataclass(frozen=True)
class Bandwidth:
    """What a device writes in a second, bytes: to its L2 cache and to its memory."""

    cache: float
    memory: float
    cache_bytes: int

    def floor_ms(self, written: int) -> float:
        """Return the least time in which that many bytes can be written."""
        rate = self.cache if written <= self.cache_bytes else self.memory
        return 1000 * written / rate


def measure_bandwidth(memory: DeviceMemory) -> Bandwidth:
    """Measure with fills of a quarter of the L2 cache and of eight times its size."""
    cache = memory.handle.l2_bytes
    return Bandwidth(_rate(memory, cache // 4), _rate(memory, 8 * cache), cache)


def _rate(memory: DeviceMemory, size: int, repeats: int = 20) -> float:
    target = torch.empty(size, dtype=torch.uint8, device=memory.device)
    start, end = _native.Event(memory.handle), _native.Event(memory.handle)
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(3):
        target.zero_()
    start.record(stream)
    for _ in range(repeats):
        target.zero_()
    end.record(stream)
    memory.settle()
    return size * repeats / (end.elapsed_ms(start) / 1000)
