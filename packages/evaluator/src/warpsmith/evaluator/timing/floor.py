"""The write bandwidth and kernel start-up time of a device: a lower bound of the time of any output."""

from dataclasses import dataclass
from typing import Final

import torch

from warpsmith.evaluator.devices.base import Device

KERNELS: Final = 200
LEAST_SHARE: Final = 0.5
"""Share of the time of torch's smallest kernel, back to back in a graph, that every kernel needs."""


@dataclass(frozen=True)
class Bandwidth:
    """Upper bounds of a device's speed.

    Attributes:
        cache: write bandwidth of its L2 cache, in bytes per second.
        memory: write bandwidth of its memory, in bytes per second.
        cache_bytes: size of the L2 cache.
        least_ms: shortest time of a kernel.
    """

    cache: float
    memory: float
    cache_bytes: int
    least_ms: float

    def floor_ms(self, written: int) -> float:
        """Return the shortest time in which that many bytes can be written, in milliseconds."""
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
    """Return the time of one smallest kernel, back to back with others in a graph, in milliseconds."""
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
