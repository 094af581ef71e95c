"""Absolute figures of a verdict: the problem's bound on this device, what kernels use of it, its clock. Torch-free."""

from dataclasses import dataclass
from typing import Literal

Limit = Literal["memory", "compute", "launch"]
"""What bounds a problem's time: moving its bytes, its operations, or the time of the smallest kernel."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time of a problem on a device, as far as bytes and operations tell.

    Attributes:
        bytes: of inputs, parameters and buffers, and outputs, each moved once.
        flops: floating-point operations of the reference's matrix products, convolutions and attention, as torch's
            FlopCounterMode counts them; other operators count nothing. None if they could not be counted.
        memory_ms: time of moving the bytes at the device's measured bandwidth; None where nothing is timed.
        compute_ms: time of the operations at the measured rate of its matrix products, in their dtype; None likewise,
            or where no rate is known.
        ms: the longest of these two and of the smallest kernel's time.
        limited_by: which one that is.
    """

    bytes: int
    flops: int | None = None
    memory_ms: float | None = None
    compute_ms: float | None = None
    ms: float | None = None
    limited_by: Limit | None = None


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """What one kernel uses of the chip that it was compiled for.

    Attributes:
        name: the kernel's.
        launches: in one call of forward, with this grid and these resources.
        grid: blocks along x, y and z.
        threads: of a block.
        registers: of a thread.
        spill_bytes: local memory of a thread: registers that were spilled, and arrays that do not fit into registers.
        static_shared_bytes: of a block, fixed in the code.
        dynamic_shared_bytes: of a block, asked for at the launch.
        occupancy: theoretical: the share of a multiprocessor's warps that registers, shared memory and block size
            allow, 0 to 1; None for a chip whose limits are unknown.
    """

    name: str
    launches: int
    grid: tuple[int, int, int]
    threads: int
    registers: int
    spill_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    occupancy: float | None


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of the multiprocessors while the candidate was timed, in MHz.

    Attributes:
        median_mhz: median of a few looks between timed calls.
        least_mhz: the lowest.
        max_mhz: the highest that the device allows.
    """

    median_mhz: float
    least_mhz: float
    max_mhz: float
