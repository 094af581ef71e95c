"""Finds what a reference carries from step to step along an axis of its inputs, by changing early steps.

Memory is what inputs or parameters can lengthen: on plain numbers a change of the early steps has faded from the late
part of the answer, on others it has not. A convolution reaches as far on any numbers, an average always reaches
everything, and an elementwise function nothing. So no word of the source decides, and each trial that is to show a
memory is measured in the same way.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import FLOATING, TensorSlot
from warpsmith.evaluator.reference.draw_plan import MODERATE_TOO, NEAR_ONE, DrawPlan
from warpsmith.evaluator.reference.levels import ANYWHERE
from warpsmith.evaluator.reference.tolerated_changes import answer_on_inputs, tried_answer

if TYPE_CHECKING:
    from warpsmith.evaluator.reference.session import Answer, ReferenceSession

LEAST_STEPS: Final = 12
"""Steps below which no memory is looked for: plain numbers show what is left out of so few."""
PARTS: Final = 3
"""The first of so many parts of the steps is changed, the last one is compared: a part lies between the two."""
FADED: Final = 2.0**-10
"""Influence below which an answer does not show on plain numbers that early steps are left out."""
KEPT: Final = 2.0**-7
"""Influence of a memory that was kept: a hundred times the tolerance of single precision."""
ATTEMPTS: Final = 6
"""How many times numbers that keep a memory are drawn."""
MOST_AXES: Final = 4
MOST_SECONDS: Final = 1.0
"""Time after which no more axes are probed."""
MODES: Final = (MODERATE_TOO, NEAR_ONE)
"""A product overflows with moderate numbers; a gate is not kept open by numbers near one."""


@dataclass(frozen=True)
class Change:
    """A change of the first part of an input's slices along an axis, or of the last part (`backwards`)."""

    slot: int
    axis: int
    backwards: bool


@dataclass(frozen=True)
class Path:
    """Where a memory shows: a change, and the output that is compared.

    Attributes:
        change: what is changed.
        output: number of the output tensor.
        axis: its axis of as many slices, of which the part farthest from the change is compared; None for all of it.
    """

    change: Change
    output: int
    axis: int | None


@dataclass(frozen=True)
class Effect:
    """What a change does to an output.

    Attributes:
        influence: the largest difference in the part that is compared, relative to the element or, if that is smaller,
            to the mean magnitude of the whole output.
        reach: how many slices away from the changed end anything differs; 0 without an axis.
    """

    influence: float
    reach: int = 0


def lasting_plans(draws: Set[str], levels: Mapping[str, int]) -> list[DrawPlan]:
    """Return plans of input sets whose floating draws have slices that keep a memory, and are plain otherwise."""
    kept = {site: min(level, ANYWHERE) for site, level in levels.items() if site in draws}
    return [DrawPlan("lasting", kept, lasting=mode) for mode in MODES]


def learn(
    session: "ReferenceSession",
    rng: random.Random,
    remember: Callable[[], None],
    plans: Sequence[DrawPlan],
) -> tuple[Path, ...]:
    """Return the path on which the reference keeps a memory, at most one; leaves other inputs and parameters behind.

    Args:
        session: the problem, with its state as constructed.
        rng: draws the seeds.
        remember: gives the parameters numbers that keep a memory.
        plans: plans of inputs with such numbers, which take turns.
    """
    end = time.monotonic() + MOST_SECONDS
    faded = _faded(session, rng, end)
    for attempt in range(ATTEMPTS):
        if not faded or time.monotonic() > end:
            break
        remember()
        answer = tried_answer(session, rng, draws=plans[attempt % len(plans)], exact=False)
        effects = _effects(session, answer, faded) if answer is not None else {}
        kept = [path for path, effect in effects.items() if effect.influence > KEPT]
        if kept:
            return (kept[0],)
        # What reaches exactly as far on other numbers has a window, not a memory.
        windows = {
            path for path, effect in effects.items() if path.axis is not None and effect.reach == faded[path].reach
        }
        faded = {path: effect for path, effect in faded.items() if path not in windows}
    return ()


def keeps(session: "ReferenceSession", answer: "Answer", path: Path) -> bool:
    """Whether early steps show in the late part of the answer to the inputs in the arena."""
    return any(effect.influence > KEPT for effect in _effects(session, answer, [path]).values())


def _faded(session: "ReferenceSession", rng: random.Random, end: float) -> dict[Path, Effect]:
    """Return the paths on which plain inputs reach other steps, but not the farthest, with what they do there."""
    answer = tried_answer(session, rng, finite=False, exact=False)
    found: dict[Path, Effect] = {}
    for change in _changes(session) if answer is not None else ():
        if answer is None or time.monotonic() > end:
            break
        steps = session.inputs.slots[change.slot].shape[change.axis]
        for path, effect in _effects(session, answer, list(_paths(answer, change, steps))).items():
            spills = path.axis is None or effect.reach > steps // PARTS
            if spills and effect.influence < FADED:
                found[path] = effect
    return found


def _changes(session: "ReferenceSession") -> Iterator[Change]:
    """Yield the changes to probe: of the longest axes first, and of early steps before late ones."""
    slots = dict(enumerate(session.inputs.slots))
    floating = {number: slot for number, slot in slots.items() if slot.dtype in FLOATING}
    integers = {number: slot for number, slot in slots.items() if slot.dtype.startswith("int")}
    for backwards in (False, True):
        for number, slot in (floating or integers).items():
            axes = sorted(range(len(slot.shape)), key=slot.shape.__getitem__, reverse=True)
            for axis in axes[:MOST_AXES]:
                if slot.shape[axis] >= LEAST_STEPS:
                    yield Change(number, axis, backwards)


def _paths(answer: "Answer", change: Change, steps: int) -> Iterator[Path]:
    for output, one in enumerate(answer.expected):
        if not one.value.numel() or one.value.is_complex():
            continue
        axes = [axis for axis, size in enumerate(one.value.shape) if size == steps]
        yield from (Path(change, output, axis) for axis in axes)
        if not axes:
            yield Path(change, output, None)


def _effects(session: "ReferenceSession", answer: "Answer", paths: Iterable[Path]) -> dict[Path, Effect]:
    """Return what the changes of paths do to the answer to the inputs in the arena, where it is tolerated."""
    by_change: dict[Change, list[Path]] = {}
    for path in paths:
        by_change.setdefault(path.change, []).append(path)
    effects: dict[Path, Effect] = {}
    for change, same in by_change.items():
        with _applied(session, change):
            changed = answer_on_inputs(session, finite=False)
        if changed is not None and len(changed.expected) == len(answer.expected):
            steps = session.inputs.slots[change.slot].shape[change.axis]
            effects |= {path: _compared(answer, changed, path, steps) for path in same}
    return effects


@contextmanager
def _applied(session: "ReferenceSession", change: Change) -> Iterator[None]:
    """Context in which the numbers of a part are halved: no draw's range or sign forbids that."""
    slot: TensorSlot = session.inputs.slots[change.slot]
    tensor = tensor_views.view(session.inputs_buffer, slot)
    count = tensor.shape[change.axis] // PARTS
    part = tensor.narrow(change.axis, tensor.shape[change.axis] - count if change.backwards else 0, count)
    before = part.clone()
    part.copy_(before // 2 if slot.dtype not in FLOATING else (before.float() / 2).to(before.dtype))
    try:
        yield
    finally:
        part.copy_(before)


def _compared(answer: "Answer", changed: "Answer", path: Path, steps: int) -> Effect:
    one, other = (_numbers(each.expected[path.output].value) for each in (answer, changed))
    if one.shape != other.shape:
        return Effect(0.0)
    apart, mean = (other - one).abs().nan_to_num(0.0, 0.0, 0.0), one.abs().nan_to_num(0.0, 0.0, 0.0).mean()
    relative = apart / torch.maximum(one.abs(), mean).clamp(min=torch.finfo(one.dtype).tiny)
    relative = relative.nan_to_num(0.0, 0.0, 0.0)
    if path.axis is None:
        return Effect(float(relative.max()))
    by_slice = relative.movedim(path.axis, 0).flatten(1).amax(1)
    by_slice = by_slice.flip(0) if path.change.backwards else by_slice
    differs = by_slice.nonzero()
    return Effect(float(by_slice[-(steps // PARTS) :].max()), int(differs.max()) + 1 if len(differs) else 0)


def _numbers(value: torch.Tensor) -> Any:
    return tensor_views.computable(value).to(torch.float64 if value.dtype == torch.float64 else torch.float32)
