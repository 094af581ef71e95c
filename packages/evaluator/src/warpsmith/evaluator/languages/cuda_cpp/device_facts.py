"""What the CUDA runtime says of the GPU that a candidate's process pretends to have; see `workers/gpu_stand_in.py`."""

from typing import Any, Final

import torch

from warpsmith.evaluator.languages.cuda_cpp.cubin import Kernel

_ATTRIBUTES: Final[dict[int, str]] = {
    1: "max_threads_per_block",
    8: "shared_memory_per_block",
    10: "warp_size",
    12: "regs_per_multiprocessor",
    13: "clock_rate",
    16: "multi_processor_count",
    18: "is_integrated",
    36: "memory_clock_rate",
    37: "memory_bus_width",
    38: "L2_cache_size",
    39: "max_threads_per_multi_processor",
    75: "major",
    76: "minor",
    81: "shared_memory_per_multiprocessor",
    82: "regs_per_multiprocessor",
    97: "shared_memory_per_block_optin",
}
"""Names in torch's device properties, by the number of a `cudaDeviceAttr`."""
_FIXED: Final[dict[int, int]] = {
    **{2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 9: 64 << 10, 31: 1, 78: 1, 83: 1, 89: 1, 95: 1},
    **{106: 32, 108: 0, 111: 1024, 115: 1, 120: 1},
}
"""What is the same on every chip that kernels are compiled for."""
MOST_BLOCKS: Final = 32
_REGISTERS_AT_ONCE: Final = 256
_WARP: Final = 32
RESERVED_BYTES: Final = 1024


def properties() -> Any:
    """Return torch's properties of the pretended GPU."""
    return torch.cuda.get_device_properties(0)


def attribute(number: int) -> int:
    """Return an attribute of the device; 0 for those that say what it lacks."""
    name = _ATTRIBUTES.get(number)
    return int(getattr(properties(), name)) if name else _FIXED.get(number, 0)


def blocks_at_once(kernel: Kernel, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel a multiprocessor runs at once."""
    if threads < 1 or threads > kernel.max_threads:
        return 0
    known, warps = properties(), -(-threads // _WARP)
    of_warp = -(-max(kernel.registers, 1) * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    by_registers = known.regs_per_multiprocessor // of_warp // warps
    by_threads = known.max_threads_per_multi_processor // (warps * _WARP)
    by_shared = known.shared_memory_per_multiprocessor // (shared + kernel.shared_bytes + RESERVED_BYTES)
    return int(min(by_registers, by_threads, by_shared, MOST_BLOCKS))
