"""Theoretical occupancy: how many of a multiprocessor's warps a kernel's resources allow. Torch-free.

Source of the limits: CUDA C++ Programming Guide, technical specifications per compute capability.
"""

from dataclasses import dataclass
from typing import Final

WARP: Final = 32
REGISTERS: Final = 65_536
"""Of a multiprocessor."""
_PARTITIONS: Final = 4
_REGISTERS_AT_ONCE: Final = 256
"""Registers are given to warps in such units, by each of four partitions for its own warps."""
_SHARED_AT_ONCE: Final = 128


@dataclass(frozen=True)
class _Chip:
    """Limits of a multiprocessor: threads and blocks at once, shared memory, and what of it each block loses."""

    threads: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024


_CHIPS: Final = {
    75: _Chip(1024, 16, 64 << 10, 0),
    80: _Chip(2048, 32, 164 << 10),
    86: _Chip(1536, 16, 100 << 10),
    87: _Chip(1536, 16, 164 << 10),
    89: _Chip(1536, 24, 100 << 10),
    90: _Chip(2048, 32, 228 << 10),
    100: _Chip(2048, 32, 228 << 10),
    103: _Chip(2048, 32, 228 << 10),
    120: _Chip(1536, 24, 100 << 10),
    121: _Chip(1536, 24, 100 << 10),
}


def occupancy(chip: int | str, threads: int, registers: int, shared_bytes: int) -> float | None:
    """Return the share of a multiprocessor's warps that can be resident at once, 0 to 1.

    Args:
        chip: 90 for sm_90; AMD's have names.
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block, static and dynamic.

    Returns:
        None for a chip whose limits are unknown, 0 for a block that does not fit.
    """
    limits = _CHIPS.get(chip) if isinstance(chip, int) else None
    if limits is None:
        return None
    warps = -(-max(threads, 1) // WARP)
    of_warp = _up(max(registers, 1) * WARP, _REGISTERS_AT_ONCE)
    by_registers = REGISTERS // _PARTITIONS // of_warp * _PARTITIONS // warps
    shared = _up(shared_bytes, _SHARED_AT_ONCE) + limits.reserved_bytes
    by_shared = limits.shared_bytes // shared if shared else limits.blocks
    blocks = min(by_registers, by_shared, limits.threads // (warps * WARP), limits.blocks)
    return blocks * warps * WARP / limits.threads


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
