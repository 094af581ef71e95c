"""A verdict's absolute figures as lines of text, for a terminal and for a model that has to improve on them."""

import re
from collections.abc import Iterator
from typing import Final

from warpsmith.evaluator.figures import Bound
from warpsmith.evaluator.recordings.library_policy import FAMILIES, LISTED
from warpsmith.evaluator.verdict import Verdict

LIMITS: Final = {
    "memory": "moving its bytes at the device's bandwidth",
    "compute": "its floating-point operations at the device's matrix rate",
    "launch": "starting one kernel",
}
CLOSE: Final = 0.9
"""Share of the bound from which little is left to gain without a cheaper algorithm."""


def baseline_lines(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each baseline besides the one that counts: its speedup, or why it has none."""
    for name, speedup in verdict.speedups.items():
        if name != verdict.baseline:
            yield f"Speedup over {reference_name(name)}: {speedup:.3g}x ({verdict.references_ms[name]:.4g} ms)"
    for note in verdict.baseline_notes:
        first = next(iter(note.message.strip().splitlines()), "")
        yield f"No speedup over {reference_name(note.baseline)} ({note.kind.replace('_', ' ')}): {first}"


def workload_lines(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each workload of a problem that has several: its status, and its speedup if it was timed."""
    for one in verdict.workloads:
        speedup = "" if one.speedup is None else f", {one.speedup:.3g}x ({one.runtime_ms:.4g} ms)"
        yield f"Workload {one.name}: {one.status}{speedup}"


def operator_lines(verdict: Verdict) -> Iterator[str]:
    """Yield which option allows the operators for which a candidate was rejected, if the list of libraries' has one."""
    if verdict.policy != "none" or "torch_fallback" not in verdict.flags:
        return
    used = re.findall(r"aten::(\w+)", verdict.error_message or "")
    if {name.split(".")[1] for name in LISTED}.intersection(used):
        yield f"--operators library allows {', '.join(FAMILIES)} beside kernels. It is the default of bench."


def reference_name(baseline: str) -> str:
    """Return the name of a baseline in a sentence."""
    return {
        "eager": "PyTorch",
        "compile": "torch.compile",
        "compile_max_autotune": "torch.compile with tuning",
    }.get(baseline, baseline)


def bound_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what the problem takes at least, and how close the candidate is."""
    bound = verdict.bound
    if bound is None:
        return
    work = f"{size(bound.bytes)} to move"
    if bound.flops:
        work += f", {scaled(bound.flops)} floating-point operations in products"
    yield f"Work of the problem: {work}"
    if bound.ms is not None and bound.limited_by is not None:
        yield f"Least time on this device: {bound.ms:.4g} ms, for {LIMITS[bound.limited_by]}"
    share = verdict.bound_share
    if share is not None:
        yield f"Share of that bound reached: {share:.0%}{_remark(bound, share)}"


def _remark(bound: Bound, share: float) -> str:
    if share > 1:
        return " (less work than the reference does, or data that stayed in a cache)"
    if bound.limited_by == "launch":
        return " (too small for more than the launches to matter: launch fewer kernels)"
    return " (little is left to gain)" if share >= CLOSE else ""


def traffic_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what a call moves where that is counted, and how often it moves what must be moved once."""
    moved, bound = verdict.bytes_moved, verdict.bound
    if moved is None:
        return
    times = f", {moved / bound.bytes:.2f} times the problem's bytes" if bound is not None and bound.bytes else ""
    yield f"Bytes moved: {size(moved)}{times}"


def kernel_lines(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each kernel: what it uses of the chip, and what limits it."""
    for kernel in verdict.kernels:
        times = f" x{kernel.launches}" if kernel.launches > 1 else ""
        blocks = " x ".join(map(str, kernel.grid))
        parts = [f"{blocks} blocks of {kernel.threads} threads", f"{kernel.registers} registers"]
        if kernel.spill_bytes:
            parts.append(f"{kernel.spill_bytes} bytes spilled per thread")
        parts.append(f"{size(kernel.static_shared_bytes + kernel.dynamic_shared_bytes)} shared memory")
        if kernel.occupancy is not None:
            parts.append(f"occupancy {kernel.occupancy:.0%}")
        yield f"Kernel {kernel.name}{times}: {', '.join(parts)}"


def clock_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the clock while the candidate was timed."""
    clock = verdict.clock
    if clock is not None:
        low = f", at times {clock.least_mhz:.0f}" if clock.least_mhz < clock.median_mhz else ""
        yield f"SM clock: {clock.median_mhz:.0f} of {clock.max_mhz:.0f} MHz{low}"


def size(count: int) -> str:
    """Return a number of bytes in a unit of its own size."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"


def scaled(count: int) -> str:
    """Return a number with a prefix: 2.1 G."""
    value, prefix = float(count), ""
    for larger in ("k", "M", "G", "T"):
        if value < 1000:
            break
        value, prefix = value / 1000, larger
    return f"{value:.3g} {prefix}".strip()
