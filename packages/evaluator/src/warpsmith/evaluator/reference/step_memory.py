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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import FLOATING
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
ATTEMPTS: Final = 10
"""How many times numbers that keep a memory are drawn."""
LEAST_PROBES: Final = 8
MOST_PROBES: Final = 16
MOST_SECONDS: Final = 1.0
"""Changes that are always probed, changes after which no further one is, and the time after which none is."""
MODES: Final = (MODERATE_TOO, NEAR_ONE)
"""A product overflows with moderate numbers; a gate is not kept open by numbers near one."""


@dataclass(frozen=True)
class Change:
    """A change of every second slice in the first part of an input along an axis, the last part, or both.

    An input may be a reversed recurrence's, and a product of plain numbers underflow before it leaves a part.
    """

    slot: int
    axis: int
    part: Literal["first", "last", "both"]


@dataclass(frozen=True)
class Path:
    """Where a memory shows: a change, and the output that is compared.

    Attributes:
        change: what is changed.
        output: number of the output tensor.
        axis: its axis of as many slices, of which the part farthest from the change is compared; None for all of it.
        mode: which slices of draws kept the memory when it was found.
    """

    change: Change
    output: int
    axis: int | None
    mode: int = MODERATE_TOO


@dataclass(frozen=True)
class Effect:
    """What a change does to an output.

    Attributes:
        influence: the largest difference in the part that is compared, relative to the element or, if that is smaller,
            to the mean magnitude of the whole output.
        reach: how many slices away from the changed end anything differs; 0 without an axis.
        whole: whether that is all of them.
        spills: whether a slice differs that was not changed.
    """

    influence: float
    reach: int = 0
    whole: bool = False
    spills: bool = False


def lasting_plans(draws: Set[str], levels: Mapping[str, int], modes: Sequence[int] = MODES) -> list[DrawPlan]:
    """Return plans of input sets whose floating draws have slices that keep a memory, and are plain otherwise."""
    kept = {site: min(level, ANYWHERE) for site, level in levels.items() if site in draws}
    return [DrawPlan("lasting", kept, lasting=mode) for mode in modes]


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
    faded = _faded(session, rng)
    for attempt in range(ATTEMPTS):
        if not faded:
            break
        remember()
        answer = tried_answer(session, rng, draws=plans[attempt % len(plans)], exact=False)
        effects = _effects(session, answer, faded) if answer is not None else {}
        kept = [path for path, effect in effects.items() if effect.influence > KEPT]
        if kept:
            return (replace(kept[0], mode=plans[attempt % len(plans)].lasting),)
        faded = {
            path: plain
            for path, plain in faded.items()
            if path not in effects or not _is_window(path, plain, effects[path], attempt)
        }
    return ()


def _is_window(path: Path, plain: Effect, effect: Effect, attempt: int) -> bool:
    """Whether a change reaches as far on other numbers as on plain ones, short of all steps: no number lengthens that.

    Without an axis, a change that twice made no difference at all is taken for one of numbers that are not used.
    """
    if path.axis is None:
        return attempt > 0 and effect.influence == plain.influence == 0
    return effect.reach == plain.reach and not effect.whole


def keeps(session: "ReferenceSession", answer: "Answer", path: Path) -> bool:
    """Whether early steps show in the late part of the answer to the inputs in the arena."""
    return any(effect.influence > KEPT for effect in _effects(session, answer, [path]).values())


def _faded(session: "ReferenceSession", rng: random.Random) -> dict[Path, Effect]:
    """Return the paths on which plain inputs reach other steps, but not the farthest, and what they do there.

    Either end is changed alone only along axes where a change of both spills to any other step.
    """
    end = time.monotonic() + MOST_SECONDS
    answer = tried_answer(session, rng, finite=False, exact=False)
    found: dict[Path, Effect] = {}
    left = _changes(session) if answer is not None else []
    for probe in range(MOST_PROBES):
        if answer is None or not left or (probe >= LEAST_PROBES and time.monotonic() > end):
            break
        change = left.pop(0)
        steps = session.inputs.slots[change.slot].shape[change.axis]
        effects = _effects(session, answer, list(_paths(answer, change, steps)))
        if change.part == "both":
            spills = any(effect.spills for effect in effects.values())
            whole = any(path.axis is None for path in effects)
            left += [replace(change, part="first")] if spills or whole else []
            left += [replace(change, part="last")] if spills else []
            continue
        found |= {
            path: effect
            for path, effect in effects.items()
            if effect.influence < FADED and (effect.spills or path.axis is None)
        }
    return found


def _changes(session: "ReferenceSession") -> list[Change]:
    """Return the changes of both ends to probe: of floating inputs, if there are any, and of long axes first.

    An expanded input has one number for several places, so no part of it changes alone.
    """
    slots = {number: slot for number, slot in enumerate(session.inputs.slots) if not tensor_views.overlaps(slot)}
    floating = {number: slot for number, slot in slots.items() if slot.dtype in FLOATING}
    integers = {number: slot for number, slot in slots.items() if slot.dtype.startswith("int")}
    axes = [
        (number, axis, steps)
        for number, slot in (floating or integers).items()
        for axis, steps in enumerate(slot.shape)
        if steps >= LEAST_STEPS and slot.numel
    ]
    return [Change(number, axis, "both") for number, axis, _ in sorted(axes, key=lambda one: -one[2])]


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
    slot = session.inputs.slots[change.slot]
    tensor = tensor_views.view(session.inputs_buffer, slot)
    slices = [tensor.movedim(change.axis, 0)[part] for part in _changed_steps(change, slot.shape[change.axis])]
    before = [part.clone() for part in slices]
    for part, numbers in zip(slices, before, strict=True):
        part.copy_(numbers.float() / 2 if slot.dtype in FLOATING else numbers // 2)
    try:
        yield
    finally:
        for part, numbers in zip(slices, before, strict=True):
            part.copy_(numbers)


def _changed_steps(change: Change, steps: int) -> list[slice]:
    parts = {"first": slice(0, steps // PARTS, 2), "last": slice(steps - steps // PARTS, steps, 2)}
    return [part for name, part in parts.items() if change.part in {name, "both"}]


def _compared(answer: "Answer", changed: "Answer", path: Path, steps: int) -> Effect:
    one, other = (_numbers(each.expected[path.output].value) for each in (answer, changed))
    if one.shape != other.shape:
        return Effect(0.0)
    apart, size = (number.abs().nan_to_num(0.0, 0.0, 0.0) for number in (other - one, one))
    relative = (apart / torch.maximum(size, size.mean()).clamp(min=torch.finfo(one.dtype).tiny)).nan_to_num(0.0)
    if path.axis is None:
        return Effect(float(relative.max()))
    by_slice = relative.movedim(path.axis, 0).reshape(steps, -1).amax(1)
    others = by_slice.clone()
    for part in _changed_steps(path.change, steps):
        others[part] = 0.0
    by_distance = by_slice.flip(0) if path.change.part == "last" else by_slice
    differs = by_distance.nonzero()
    reach = int(differs.max()) + 1 if len(differs) else 0
    return Effect(float(by_distance[-(steps // PARTS) :].max()), reach, reach == steps, bool(others.any()))


def _numbers(value: torch.Tensor) -> Any:
    return tensor_views.computable(value).to(torch.float64 if value.dtype == torch.float64 else torch.float32)
