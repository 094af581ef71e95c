"""The highest rates that a device reaches: of memory, and of matrix products by dtype. A problem's bound uses them."""

import math
from collections.abc import Callable
from typing import Final

import torch

from warpsmith.evaluator.config import Precision
from warpsmith.evaluator.devices import precision as switches
from warpsmith.evaluator.devices.base import Device

SIDES: Final = {2: 8192, 4: 4096, 8: 4096}
"""Side of the square matrices, by bytes of an element: large enough for the full rate, and milliseconds a product."""
WARM_UPS: Final = 2
REPEATS: Final = 5
MATRIX_DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
_CACHES: Final = 8
"""Bytes read or copied, as a multiple of the L2 cache."""


def memory_rate(device: Device) -> float:
    """Return the faster of reading and of copying, in bytes per second; 0 if others hold the memory that it takes.

    The device must be leased alone.
    """
    try:
        return _memory_rate(device, _CACHES * device.l2_bytes // 4)
    except torch.OutOfMemoryError:
        return 0.0
    finally:
        device.release()


def _memory_rate(device: Device, numbers: int) -> float:
    source = torch.ones(numbers, dtype=torch.float32, device=device.torch_device)
    target = torch.empty_like(source)
    read = source.nbytes / _seconds(device, lambda: torch.sum(source))
    copied = 2 * source.nbytes / _seconds(device, lambda: target.copy_(source))
    return max(read, copied)


def matrix_rate(device: Device, dtype: str, precision: Precision) -> float | None:
    """Return the rate of torch's matrix product, in floating-point operations per second; None if it runs none.

    Args:
        device: leased alone.
        dtype: one of MATRIX_DTYPES.
        precision: of float32 products.
    """
    switches.apply(precision)
    kind = getattr(torch, dtype)
    side = SIDES[kind.itemsize]
    try:
        seconds = _product_seconds(device, kind, side)
    except RuntimeError:  # out of memory, or a dtype that the device does not multiply
        return None
    finally:
        device.release()
    return 2 * side**3 / seconds


def _product_seconds(device: Device, kind: torch.dtype, side: int) -> float:
    one, other = (torch.randn(side, side, device=device.torch_device).to(kind) for _ in range(2))
    return _seconds(device, lambda: torch.mm(one, other))


def _seconds(device: Device, work: Callable[[], object]) -> float:
    """Return the least time of one run, in seconds."""
    stream = torch.cuda.current_stream().cuda_stream
    events = [(device.event(), device.event()) for _ in range(WARM_UPS + REPEATS)]
    for start, end in events:
        start.record(stream)
        work()
        end.record(stream)
    device.settle()
    least = min(end.elapsed_ms(start) for start, end in events[WARM_UPS:]) / 1000
    return least if least > 0 else math.inf
