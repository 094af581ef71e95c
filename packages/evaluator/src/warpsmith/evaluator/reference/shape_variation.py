"""Inputs of other shapes than the sample's: which of a problem's sizes can change, and to what.

Sizes only shrink: a block or a grid sized for the sample is legitimate tuning, and stays valid for fewer elements.
Powers of two remain powers of two and multiples of 16 remain multiples, since blocks and alignment may rely on them.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.reference.draw_plan import PLAINLY, DrawPlan
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceSession
from warpsmith.evaluator.reference.tolerated_changes import tried_answer

COARSEST: Final = 16


@dataclass(frozen=True)
class Form:
    """The shapes of one input set and of the answer to it."""

    inputs: Placed
    output: tuple[TensorSlot, ...]
    buffers: dict[str, TensorSlot]

    @staticmethod
    def of(inputs: Placed, answer: Answer) -> "Form":
        return Form(inputs, tuple(codec.slots(answer.output)), answer.buffers)


@dataclass(frozen=True)
class Resizing:
    """Which sizes of a problem change together.

    Attributes:
        sample: the shapes of the sample.
        sizes: the sample's value, by name, of each size that changes.
        coarse: whether they stay multiples of a power of two, for problems that split or pool dimensions.
        kept: how much of their divisibility sizes keep beyond that. From 1 on, sizes up to 16 stay unchanged, since
            Triton multiplies no narrower blocks, and sizes that lie in a row stay multiples of the power of two up to
            16 that divides them, since tensor descriptors take rows of multiples of 16 bytes. From 2 on, all do.
    """

    sample: Form
    sizes: Mapping[str, int]
    coarse: bool = False
    kept: int = 0

    def draw(self, rng: random.Random) -> dict[str, int]:
        """Return other sizes, each an odd multiple of the step that it must keep if possible (see `smaller`)."""
        return {name: self._drawn(size, rng) for name, size in self.sizes.items()}

    def _drawn(self, size: int, rng: random.Random) -> int:
        if self.kept and size <= COARSEST:
            return size
        aligned = self.kept > 1 or (self.kept and self._lies_in_a_row(size))
        return smaller(size, math.gcd(size, COARSEST) if aligned else _step(size, self.coarse), rng)

    def _lies_in_a_row(self, size: int) -> bool:
        """Whether a dimension behind a tensor's first may be made of it: strides depend on those."""
        slots = (*self.sample.inputs.slots, *self.sample.output)
        return any(side % size == 0 for slot in slots for side in slot.shape[1:])

    def fits(self, inputs: Placed, answer: Answer) -> bool:
        """Whether an answer to other sizes has the form of the sample's answer with correspondingly changed dimensions.

        A model with a built-in size may accept others but compute something different.
        """
        found, placed = Form.of(inputs, answer), self.sample.inputs.slots
        if found.buffers != self.sample.buffers or not _no_larger(placed, inputs.slots):
            return False
        moved = _moved(placed, inputs.slots)
        return (
            any(after != {before} for before, after in moved.items())
            and all(_as_regular(before, after) for before, after in _dimensions(placed, inputs.slots))
            and _no_larger(self.sample.output, found.output)
            and all(
                after in moved.get(before, {after}) for before, after in _dimensions(self.sample.output, found.output)
            )
        )

    def describe(self, inputs: Placed) -> str:
        """Return a readable list of the changed shapes: `float32[40, 90] for float32[37, 113]`."""
        pairs = zip(inputs.slots, self.sample.inputs.slots, strict=True)
        changed = [f"{after} for {before}" for after, before in pairs if after.shape != before.shape]
        return ", ".join(dict.fromkeys(changed[:4]))


def smaller(size: int, step: int, rng: random.Random) -> int:
    """Return a multiple of `step` in [size/2, size), an odd multiple if possible; `size` if there is none.

    A power of two is halved, so that a kernel of whole blocks gets the same verdict every time.
    """
    if is_power_of_two(size):
        return size // 2
    least = -(-size // (2 * step))
    choices = range((least | 1) * step, size, 2 * step) or range(least * step, size, step)
    return choices[rng.randrange(len(choices))] if choices else size


def is_power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def _as_regular(before: int, after: int) -> bool:
    """Whether a power of two is still one, and another multiple of 16 still a multiple of 16."""
    return is_power_of_two(after) if is_power_of_two(before) else before % COARSEST != 0 or after % COARSEST == 0


def _step(size: int, coarse: bool) -> int:
    """Return the step of smaller sizes: 16 if it divides `size`, else 1, or the coarse step.

    The coarse step is the largest power of two, up to 16 and a quarter of `size`, that divides `size`.
    """
    if size % COARSEST == 0:
        return COARSEST
    step = 1
    while coarse and size % (2 * step) == 0 and 2 * step <= min(size // 4, COARSEST):
        step *= 2
    return step


def _no_larger(before: Sequence[TensorSlot], after: Sequence[TensorSlot]) -> bool:
    return (
        len(before) == len(after)
        and all(
            one.dtype == two.dtype and len(one.shape) == len(two.shape) and bool(one.numel) == bool(two.numel)
            for one, two in zip(before, after, strict=True)
        )
        and all(new <= old for old, new in _dimensions(before, after))
    )


def _dimensions(before: Sequence[TensorSlot], after: Sequence[TensorSlot]) -> Iterator[tuple[int, int]]:
    for one, two in zip(before, after, strict=True):
        yield from zip(one.shape, two.shape, strict=True)


def _moved(before: Sequence[TensorSlot], after: Sequence[TensorSlot]) -> dict[int, set[int]]:
    """Return the new sizes of each old size of a dimension."""
    moved: dict[int, set[int]] = {}
    for one, two in _dimensions(before, after):
        moved.setdefault(one, set()).add(two)
    return moved


def learn(session: ReferenceSession, rng: random.Random, sample: Form, *, finite: bool = True) -> Resizing | None:
    """Find by trial the sizes that a problem lets change: all at once, then one by one; None if there are none.

    Takes a few runs of the reference, once per session. `finite` says whether its answers must be finite.
    """
    if not session.sizes:
        return None
    return next(filter(None, _settings(session, sample, rng, finite=finite)), None)


def _settings(
    session: ReferenceSession, sample: Form, rng: random.Random, *, finite: bool
) -> Iterator[Resizing | None]:
    for coarse in (False, True):
        whole = Resizing(sample, session.sizes, coarse=coarse)
        yield whole if answer_to_others(session, whole, rng, finite=finite) else None
    kept: Resizing | None = None
    for name, size in session.sizes.items():
        more = Resizing(sample, {**(kept.sizes if kept else {}), name: size})
        kept = more if answer_to_others(session, more, rng, finite=finite) else kept
    yield kept


def answer_to_others(
    session: ReferenceSession, resizing: Resizing, rng: random.Random, draws: DrawPlan = PLAINLY, *, finite: bool = True
) -> Answer | None:
    """Make inputs of other sizes and return the answer to them, or None if the problem does not tolerate them.

    It does not if the reference rejects them, faults, runs out of memory or times out, or if the answer does not fit.
    """
    answer = tried_answer(session, rng, resizing.draw(rng), draws, finite=finite)
    return answer if answer is not None and resizing.fits(session.inputs, answer) else None
