"""What the CUDA runtime says about a GPU, by torch's properties of it: the one in use, or the pretended one.

A detached process pretends to have one; see `workers/gpu_stand_in.py`.
"""

from typing import Any, Final

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
_OF_H100: Final[dict[str, int]] = {
    "max_threads_per_block": 1024,
    "warp_size": 32,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
    "clock_rate": 1980000,
    "memory_clock_rate": 2619000,
    "memory_bus_width": 5120,
    "L2_cache_size": 50 << 20,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
}
"""What not every version of torch reports."""
MOST_BLOCKS: Final = 32
_REGISTERS_AT_ONCE: Final = 256
_WARP: Final = 32
RESERVED_BYTES: Final = 1024


def fact(properties: Any, name: str) -> int:
    """Return a property; that of an H100 if torch's version does not report it."""
    return int(getattr(properties, name, _OF_H100.get(name, 0)))


def attribute(properties: Any, number: int) -> int:
    """Return an attribute of the device; 0 for those that say what it lacks."""
    name = _ATTRIBUTES.get(number)
    return fact(properties, name) if name else _FIXED.get(number, 0)


def blocks_at_once(properties: Any, kernel: Kernel, threads: int, shared: int) -> int:
    """Return how many blocks of a kernel a multiprocessor runs at once."""
    if threads < 1 or threads > kernel.max_threads:
        return 0
    warps = -(-threads // _WARP)
    of_warp = -(-max(kernel.registers, 1) * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    by_registers = fact(properties, "regs_per_multiprocessor") // of_warp // warps
    by_threads = fact(properties, "max_threads_per_multi_processor") // (warps * _WARP)
    of_block = shared + kernel.shared_bytes + RESERVED_BYTES
    by_shared = fact(properties, "shared_memory_per_multiprocessor") // of_block
    return min(by_registers, by_threads, by_shared, MOST_BLOCKS)
