"""What the kernels of one call use of the chip, from what their compile workers report and the recorded grids."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.figures import KernelFigures
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.chips import Chip
from warpsmith.evaluator.languages.cuda_cpp.launches import SYMBOL
from warpsmith.evaluator.timing.occupancy import occupancy
from warpsmith.evaluator.verdict import well_formed

MOST_KERNELS: Final = 16
"""Maximum number of kernels in a verdict; those launched most often are kept."""
MOST: Final = 1 << 40
"""Upper bound on any reported number: anything larger is nonsense."""
_NUMBERS: Final = ("threads", "registers", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes")


def kernel_figures(events: list[Any], resources: Sequence[Any], chip: Chip) -> tuple[KernelFigures, ...]:
    """Return the kernels of a recording, each with its number of launches, in the order of their first launch.

    Args:
        events: of the recording; each launch of a kernel in it has its item in `resources`, in order. Where its options
            have `block` and `shared`, these are its threads and its dynamic shared memory.
        resources: of each launch: `name`, `threads`, `registers`, `spill_bytes`, `static_shared_bytes` and
            `dynamic_shared_bytes`. A compile worker reported them; what is malformed is left out.
        chip: the one that the kernels were compiled for.
    """
    launches = [event for event in events if event[:1] == ["launch"] and event[1] != SYMBOL]
    if len(launches) != len(resources):
        return ()
    counts = Counter(_readable(launches, resources))
    kept = {one for one, _ in counts.most_common(MOST_KERNELS)}
    return tuple(_figures(one, count, chip) for one, count in counts.items() if one in kept)


_Launch = tuple[str, tuple[int, int, int], tuple[int, ...]]
"""A kernel's name, its grid, and its _NUMBERS."""


def _readable(launches: list[Any], resources: Sequence[Any]) -> Iterator[_Launch]:
    for (_, _, grid, _, options), reported in zip(launches, resources, strict=True):
        try:
            fields = codec.Fields(reported | _chosen(options) if isinstance(reported, dict) else reported)
            numbers = tuple(fields.integer(name) for name in _NUMBERS)
            name = well_formed(fields.text("name", 200))
        except WireError:
            continue
        if all(0 <= number < MOST for number in numbers):
            yield name, _blocks(grid), numbers


def _chosen(options: Any) -> dict[str, Any]:
    """Return what a launch itself chooses, for a language whose launches choose."""
    match options:
        case {"block": [int(x), int(y), int(z)], "shared": int(shared)}:
            return {"threads": x * y * z, "dynamic_shared_bytes": shared}
        case _:
            return {}


def _blocks(grid: Any) -> tuple[int, int, int]:
    sides = [side for side in grid if isinstance(side, int)] if isinstance(grid, list) else []
    x, y, z = [*sides, 1, 1, 1][:3]
    return x, y, z


def _figures(launch: _Launch, count: int, chip: Chip) -> KernelFigures:
    name, grid, (threads, registers, spilled, static, dynamic) = launch
    share = occupancy(chip, threads, registers, static + dynamic)
    return KernelFigures(name, count, grid, threads, registers, spilled, static, dynamic, share)
