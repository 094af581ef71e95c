"""How fast a device writes and starts kernels: below that no output can have come into being."""

from dataclasses import dataclass
from typing import Final

import torch

from warpsmith.evaluator.devices.base import Device

KERNELS: Final = 200
LEAST_SHARE: Final = 0.5
"""Of what torch's smallest kernel takes, one after the other in a graph: no kernel takes less."""


@dataclass(frozen=True)
class Bandwidth:
    """What a device does at most.

    Attributes:
        cache: bytes a second that it writes to its L2 cache.
        memory: the same of its memory.
        cache_bytes: of the L2 cache.
        least_ms: what a kernel takes at least.
    """

    cache: float
    memory: float
    cache_bytes: int
    least_ms: float

    def floor_ms(self, written: int) -> float:
        """Return the least time in which that many bytes can be written."""
        rate = self.cache if written <= self.cache_bytes else self.memory
        return 1000 * written / rate


def measure_bandwidth(device: Device) -> Bandwidth:
    """Measure with fills of a quarter of the L2 cache and of eight times its size."""
    cache = device.l2_bytes
    return Bandwidth(_rate(device, cache // 4), _rate(device, 8 * cache), cache, LEAST_SHARE * _kernel_ms(device))


def _rate(device: Device, size: int, repeats: int = 20) -> float:
    target = torch.empty(size, dtype=torch.uint8, device=device.torch_device)
    start, end = device.event(), device.event()
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(3):
        target.zero_()
    start.record(stream)
    for _ in range(repeats):
        target.zero_()
    end.record(stream)
    device.settle()
    return size * repeats / (end.elapsed_ms(start) / 1000)


def _kernel_ms(device: Device, repeats: int = 20) -> float:
    """Return what one of many smallest kernels takes that follow one another in a graph."""
    number = torch.zeros(1, device=device.torch_device)
    number.add_(1)
    graph = torch.cuda.CUDAGraph()
    # Other threads of this process may use the device meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(KERNELS):
            number.add_(1)
    graph.replay()
    start, end = device.event(), device.event()
    stream = torch.cuda.current_stream().cuda_stream
    start.record(stream)
    for _ in range(repeats):
        graph.replay()
    end.record(stream)
    device.settle()
    return end.elapsed_ms(start) / (repeats * KERNELS)
