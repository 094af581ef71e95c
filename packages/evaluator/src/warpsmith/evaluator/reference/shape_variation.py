"""Inputs of other shapes than the sample's: which of a problem's sizes can change, and to what.

Sizes only shrink: a block or a grid sized for the sample is legitimate tuning, and stays valid for fewer elements.
`learn` returns several ways, the freest first. In the freest no size stays a power of two or a multiple of 16, equal
sizes become different, and sometimes there is a batch of one. A candidate that refuses such shapes gets the next way,
such as rows that a tensor descriptor takes with any number of them;
in the last, powers of two and multiples of 16 stay such, since blocks and alignment may rely on them.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.reference.draw_plan import PLAINLY, DrawPlan
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.named_sizes import part
from warpsmith.evaluator.reference.session import (
    Answer,
    MadeWith,
    ReferenceFailedError,
    ReferenceFaultError,
    ReferenceSession,
)
from warpsmith.evaluator.reference.tolerated_changes import device_is_lost, tried_answer

COARSEST: Final = 16
MOST_OCCURRENCES: Final = 8
"""A literal that is written more often is one size: it would have too many sets of occurrences to try."""
MOST_SPLITS: Final = 40
"""Maximum splits tried to find out which equal sizes can differ."""
MOST_STEPS: Final = 24
"""Maximum ways tried to find out which sizes need not be as coarse as the others."""
MOST_TRIED_ELEMENTS: Final = 1 << 22
"""Input elements above which equal sizes stay equal and no batch is one: trying it would take too long."""
DRAWS_OF_PIECES: Final = 3
"""Sizes that a way is tried with where a problem cuts a side into pieces: three divides one size in three by chance."""
MOST_UNREAD: Final = 8
"""Maximum dimensions of a problem's inputs tested for being read to their end."""
SAMPLE: Final = MadeWith(seed=1)
BATCHES_OF_ONE: Final = 1 / 3
DISTINCT_ATTEMPTS: Final = 8
OTHER_PARITY: Final = 2 / 3
"""How often an odd size becomes even."""
TELLING: Final = 1 / 2
"""How often a size is one that the candidate's source names, or next to one."""
UNINFORMATIVE: Final = 4
"""Multiples of it reveal nothing: a block may cover them exactly."""


@dataclass(frozen=True)
class AnsweredForm:
    """The shapes of one input set and of the answer to it."""

    inputs: Form
    output: tuple[TensorSlot, ...]
    buffers: dict[str, TensorSlot]

    @staticmethod
    def of(inputs: Form, answer: Answer) -> "AnsweredForm":
        return AnsweredForm(inputs, tuple(codec.slots(answer.output)), answer.buffers)

    def resembles(self, other: "AnsweredForm") -> bool:
        """Whether all tensors have the same form; plain arguments may differ."""
        return (self.inputs.slots, self.output, self.buffers) == (other.inputs.slots, other.output, other.buffers)


@dataclass(frozen=True)
class Resizing:
    """Which sizes of a problem change together.

    Attributes:
        sample: the shapes of the sample.
        sizes: the sample's value, by name, of each size that changes.
        coarse: whether they stay multiples of a power of two, for problems that split or pool dimensions.
        keeps_narrow: whether sizes up to 16 stay unchanged, since Triton multiplies no narrower blocks.
        aligned: which sizes stay multiples of the power of two up to 16 that divides them, besides the multiples of 16
            of regular ones: those of dimensions after a tensor's first (`rows`), or all. Tensor descriptors take rows
            of multiples of 16 bytes.
        regular: whether powers of two stay powers of two, and multiples of 16 multiples of 16.
        parts: groups of occurrences of one literal; each group takes its own size.
        batches: names of sizes that can be 1: leading dimensions.
        pieces: for sizes that the problem cuts into a number of equal pieces, that number; coarse sizes keep it.
        steps: for sizes that need not be as coarse as the others, by name, what they stay multiples of.
        mixed: whether, of regular powers of two, every second one keeps its size.
    """

    sample: AnsweredForm
    sizes: Mapping[str, int]
    coarse: bool = False
    keeps_narrow: bool = False
    aligned: Literal["none", "rows", "all"] = "none"
    regular: bool = True
    parts: tuple[tuple[str, ...], ...] = ()
    batches: tuple[str, ...] = ()
    pieces: Mapping[int, int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    mixed: bool = False

    def draw(self, rng: random.Random, written: Sequence[float] = ()) -> dict[str, int]:
        """Return other sizes, each an odd multiple of the step that it must keep if possible (see `smaller`).

        Half of those that can be are one of the numbers `written` in the candidate's source, or next to one. Names with
        equal sizes get different ones if possible, unless the sizes are regular. Of regular ones, every second power of
        two keeps its size if they are `mixed`: halved together, two of them could still be exchanged, or one taken for
        half of the other.
        """
        drawn: dict[str, int] = {}
        telling_names: set[str] = set()
        taken: dict[int, set[int]] = {}
        groups: list[tuple[tuple[str, ...], int]] = [((name,), size) for name, size in self.sizes.items()]
        groups += [(group, self.sizes[_whole(group[0])]) for group in self.parts]
        powers = [names[0] for names, size in groups if is_power_of_two(size)]
        kept = _every_second(powers, rng) if self.mixed else set()
        for names, size in groups:
            telling = self._telling(size, written, rng) if self.is_free else []
            telling_names.update(names if telling else ())
            other = size if names[0] in kept else self._other(names[0], taken.setdefault(size, set()), rng, telling)
            taken.setdefault(size, set()).add(other)
            drawn |= dict.fromkeys(names, other)
        batches = [name for name in self.batches if name not in telling_names]
        if batches and rng.random() < BATCHES_OF_ONE:
            batch = rng.choice(batches)
            drawn = {name: size for name, size in drawn.items() if _whole(name) != batch} | {batch: 1}
        return self.with_bounds(drawn)

    def with_bounds(self, drawn: Mapping[str, int]) -> dict[str, int]:
        """Return sizes with those that bound others: with n rows, `randint(0, n + 1)` makes offsets into them."""
        return {**drawn, **{name: drawn[below] + 1 for name, below in self.bounds.items() if below in drawn}}

    @property
    def bounds(self) -> dict[str, str]:
        """The sizes that are not a side of an input but one more than a side, each with that side."""
        sides = {side for slot in self.sample.inputs.slots for side in slot.shape}
        names = {size: name for name, size in self.sizes.items()}
        return {
            name: names[size - 1]
            for name, size in self.sizes.items()
            if size not in sides and size - 1 in sides & names.keys()
        }

    @property
    def is_free(self) -> bool:
        """Whether a size need not stay a multiple of anything."""
        return not (self.coarse or self.keeps_narrow or self.regular) and self.aligned == "none"

    def _telling(self, size: int, written: Sequence[float], rng: random.Random) -> list[int]:
        """Return the sizes that the candidate's source compares with, at which it may act differently."""
        if rng.random() >= TELLING:
            return []
        beside = [number + side for number in written if type(number) is int for side in (0, 0, -1, 1)]
        return [one for one in beside if -(-size // 2) <= one < size and one % UNINFORMATIVE]

    def _other(self, name: str, taken: set[int], rng: random.Random, telling: Sequence[int] = ()) -> int:
        size = self.sizes[_whole(name)]
        if self.keeps_narrow and size <= COARSEST:
            return size
        step = self.step(name)
        if self._keeps_alignment(size):
            step = math.lcm(step, math.gcd(size, COARSEST))
        found = [smaller(size, step, rng, halves=self.regular) for _ in range(DISTINCT_ATTEMPTS)]
        found = [*rng.sample(telling, len(telling)), *found]
        return next((other for other in found if other not in taken), found[0])

    def step(self, name: str) -> int:
        """Return what a size stays a multiple of: 1, or what keeps it regular, coarse or in equal pieces."""
        name, size = _whole(name), self.sizes[_whole(name)]
        if name in self.steps:
            return self.steps[name]
        coarse = self.pieces.get(size, 1) if self.coarse else 1
        return math.lcm(_step(size, self.coarse, self.regular), coarse)

    def _keeps_alignment(self, size: int) -> bool:
        if self.aligned != "rows":
            return self.aligned == "all"
        slots = (*self.sample.inputs.slots, *self.sample.output)
        return any(side % size == 0 for slot in slots for side in slot.shape[1:])

    def fits(self, inputs: Form, answer: Answer) -> bool:
        """Whether an answer to other sizes has the form of the sample's answer with correspondingly changed dimensions.

        A model with a built-in size may accept others but compute something different.
        """
        found, placed = AnsweredForm.of(inputs, answer), self.sample.inputs.slots
        if found.buffers != self.sample.buffers or not _no_larger(placed, inputs.slots):
            return False
        moved = _moved(placed, inputs.slots)
        as_regular = (_as_regular(before, after) for before, after in _dimensions(placed, inputs.slots))
        return (
            any(after != {before} for before, after in moved.items())
            and (not self.regular or all(as_regular))
            and _no_larger(self.sample.output, found.output)
            and all(_follows(moved, *one) for one in _dimensions(self.sample.output, found.output))
        )

    def describe(self, inputs: Form) -> str:
        """Return a readable list of the changed shapes: `float32[40, 90] for float32[37, 113]`."""
        pairs = zip(inputs.slots, self.sample.inputs.slots, strict=True)
        changed = [f"{after} for {before}" for after, before in pairs if after.shape != before.shape]
        return ", ".join(dict.fromkeys(changed[:4]))


def _whole(name: str) -> str:
    """Return the name of the literal that a part belongs to, or the name itself."""
    return name.partition(part("", 0)[:-1])[0]


def _every_second(names: Sequence[str], rng: random.Random) -> set[str]:
    """Return every second name, from the first or the second on; none of a single one."""
    return set(names[rng.randrange(2) :: 2]) if len(names) > 1 else set()


def smaller(size: int, step: int, rng: random.Random, *, halves: bool = True) -> int:
    """Return a multiple of `step` in [size/2, size); `size` if there is none.

    It is an odd multiple if possible, but most often an even number for an odd `size`: a kernel that is right for odd
    sizes only must see an even one. With `halves`, a power of two is halved, so that a kernel of whole blocks gets the
    same verdict every time.
    """
    if halves and is_power_of_two(size):
        return size // 2
    least = -(-size // (2 * step))
    every = range(least * step, size, step)
    odd, even = range((least | 1) * step, size, 2 * step), range((least + least % 2) * step, size, 2 * step)
    of_other_parity = even if size % 2 and step == 1 and rng.random() < OTHER_PARITY else odd
    choices = of_other_parity or every
    return choices[rng.randrange(len(choices))] if choices else size


def is_power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def _as_regular(before: int, after: int) -> bool:
    """Whether a power of two is still one, and another multiple of 16 still a multiple of 16."""
    return is_power_of_two(after) if is_power_of_two(before) else before % COARSEST != 0 or after % COARSEST == 0


def _step(size: int, coarse: bool, regular: bool) -> int:
    """Return the step of smaller sizes: 16 if they are regular and it divides `size`, else 1, or the coarse step.

    The coarse step is the largest power of two, up to 16 and a quarter of `size`, that divides `size`.
    """
    if regular and size % COARSEST == 0:
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


def _follows(moved: Mapping[int, set[int]], before: int, after: int) -> bool:
    """Whether a side of an output may follow from the sides of inputs, each given with its new value.

    It equals one, or comes from one by a sum or a product: 64 of 66 is not that of another input with 64 columns.
    """
    if after in moved.get(before, {after}):
        return True
    changes = ((one, other) for one, others in moved.items() for other in others if one != other)
    return any(after - before == other - one or after * one == before * other for one, other in changes)


def learn(
    session: ReferenceSession, rng: random.Random, sample: AnsweredForm, *, finite: bool = True
) -> tuple[Resizing, ...]:
    """Find by trial how a problem's sizes can change, the freest way first; empty if they cannot.

    Takes some runs of the reference, once per session. `finite` says whether its answers must be finite.
    """
    trial = _Trial(session, rng, finite)
    start = Resizing(sample, {}, pieces=session.pieces)
    ways: list[Resizing] = []
    for regular in (False, True) if session.sizes else ():
        ways += [way for way in _settings(session.sizes, replace(start, regular=regular), trial) if way]
    if not ways:
        return ()
    first, *others = ways
    if first.regular:
        return tuple(ways)
    rows = replace(first, keeps_narrow=True, aligned="rows")
    if sum(slot.numel for slot in sample.inputs.slots) > MOST_TRIED_ELEMENTS:
        # A trial skips a way that the problem does not tolerate.
        return (first, rows, *others)
    first = _freed(first, trial)
    split = _split(first, trial)
    return (
        _with_batches(split, trial),
        *([first] if split.parts else []),
        *([rows] if trial.tolerates(rows) else []),
        *others,
    )


class _Trial:
    """Tries whether a problem tolerates other sizes."""

    def __init__(self, session: ReferenceSession, rng: random.Random, finite: bool) -> None:
        self.session, self.rng, self.finite = session, rng, finite

    def tolerates(self, way: Resizing) -> bool:
        """Whether the problem answers for sizes drawn in this way; several, if chance may make equal pieces."""
        draws = DRAWS_OF_PIECES if self.session.pieces else 1
        return all(answer_to_others(self.session, way, self.rng, finite=self.finite) is not None for _ in range(draws))

    def tolerates_sizes(self, way: Resizing, sizes: Mapping[str, int]) -> bool:
        answer = tried_answer(self.session, self.rng, sizes, finite=self.finite, exact=False)
        return answer is not None and way.fits(self.session.inputs, answer)

    def can_differ(self, way: Resizing, names: Sequence[str], rest: Sequence[str], size: int, other: int) -> bool:
        """Whether some occurrences of a size can become another one while the rest stays.

        If they are sides of one tensor, a square, the rest must be able to do so too: if torch takes more columns than
        rows but never fewer, as when `range(x.shape[0])` indexes both, the matrix is square by meaning.
        """
        if not self.tolerates_sizes(way, dict.fromkeys(names, other)) or not self.reads_all(size):
            return False
        tensors = zip(way.sample.inputs.slots, self.session.inputs.slots, strict=True)
        squares = (
            before.shape.count(size) > 1 and 0 < after.shape.count(size) < before.shape.count(size)
            for before, after in tensors
        )
        return not any(squares) or self.tolerates_sizes(way, dict.fromkeys(rest, other))

    def reads_all(self, size: int) -> bool:
        """Whether the problem reads the last slices of the dimensions of the current inputs that still have a size.

        If `k` has more rows than a loop over those of `q` reads, torch accepts it. But the problem means the two to be
        equal, and a candidate may use one size for both.
        """
        session = self.session
        sides = [
            (number, dim)
            for number, slot in enumerate(session.inputs.slots)
            for dim, side in enumerate(slot.shape)
            if side == size
        ]
        unread = self._unread(sides[:MOST_UNREAD], session.made_with)
        return not unread or self._unread(unread, SAMPLE) == unread

    def _unread(self, places: list[tuple[int, int]], made_with: MadeWith) -> list[tuple[int, int]]:
        """Return the inputs and dimensions whose last slice does not change the answer.

        That slice becomes equal to the first; if it already is, or the reference then fails, nothing is known.
        """
        session, seed, unread = self.session, self.rng.getrandbits(48), []
        try:
            session.make_again(made_with)
            before = session.answer(seed, exact=False).expected
            for number, dim in places:
                slot = session.inputs.slots[number]
                if tensor_views.overlaps(slot):
                    continue
                tensor = tensor_views.view(session.inputs_buffer, slot)
                last = tensor.select(dim, -1)
                kept = last.clone()
                last.copy_(tensor.select(dim, 0).clone())
                after = session.answer(seed, exact=False).expected
                same = all(tensor_views.equal(one.value, two.value) for one, two in zip(before, after, strict=False))
                if same and not tensor_views.equal(last.contiguous(), kept.contiguous()):
                    unread.append((number, dim))
                last.copy_(kept)
        except (BadProblemError, ReferenceFailedError) as error:
            if device_is_lost(error):
                session.restart()
        except ReferenceFaultError:
            session.restart()
        return unread


def _settings(sizes: Mapping[str, int], start: Resizing, trial: _Trial) -> list[Resizing | None]:
    """Return tolerated ways: all sizes at once, and for free sizes coarse ones as well; or else those that can."""
    found: list[Resizing | None] = []
    for coarse in (False, True):
        whole = replace(start, sizes=sizes, coarse=coarse)
        if trial.tolerates(whole):
            found.append(whole)
            if start.regular:
                break
    if found:
        return found
    kept: Resizing | None = None
    bounds = replace(start, sizes=sizes).bounds
    for name in (one for one in sizes if one not in bounds):
        added = {one: sizes[one] for one in (name, *(bound for bound, below in bounds.items() if below == name))}
        more = replace(start, sizes={**(kept.sizes if kept else {}), **added})
        kept = more if trial.tolerates(more) else kept
    return [kept]


def _freed(way: Resizing, trial: _Trial) -> Resizing:
    """Let each coarse size have the smallest step that the problem takes with it.

    A forward that halves a dimension takes any number of rows, and any even number of columns.
    """
    runs = itertools.count()
    for name in way.sizes if way.coarse else ():
        coarse = way.step(name)
        steps = {way.pieces.get(way.sizes[name], 1), *itertools.takewhile(coarse.__gt__, (1, 2, 4, 8))}
        freer = (replace(way, steps={**way.steps, name: step}) for step in sorted(steps) if step < coarse)
        way = next((one for one in freer if next(runs) < MOST_STEPS and trial.tolerates(one)), way)
    return way


def _split(way: Resizing, trial: _Trial) -> Resizing:
    """Let occurrences of a literal differ, alone or in pairs: `torch.randn(32, 32)` need not be square.

    A constant with a name is one size, wherever it is used.
    """
    runs, parts = itertools.count(), list[tuple[str, ...]]()
    for name, size in way.sizes.items():
        left = set(range(len(trial.session.occurrences.get(name, []))))
        for group in _groups(trial.session.occurrences.get(name, [])):
            if not set(group) < left or next(runs) >= MOST_SPLITS:
                continue
            other = smaller(size, way.step(name), trial.rng, halves=False)
            names = tuple(part(name, number) for number in group)
            rest = tuple(part(name, number) for number in left if number not in group)
            if trial.can_differ(way, names, rest, size, other):
                parts.append(names)
                left -= set(group)
    whole = replace(way, parts=tuple(parts))
    if trial.tolerates(whole):
        return whole
    return next((one for group in parts if trial.tolerates(one := replace(way, parts=(group,)))), way)


def _groups(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the occurrences of a literal that may differ from the others, by their numbers.

    These are all in one place of a shape, then two in different places, as the inner sizes of a product, and all in two
    places. Two in the same place of the same shape never differ alone: their tensors have one shape on purpose.
    """
    if len(places) > MOST_OCCURRENCES:
        return
    by_place = [tuple(at for at, one in enumerate(places) if one == place) for place in sorted(set(places))]
    yield from by_place
    yield from ((one, two) for one, two in itertools.combinations(range(len(places)), 2) if places[one] != places[two])
    yield from (one + two for one, two in itertools.combinations(by_place, 2))


def _with_batches(way: Resizing, trial: _Trial) -> Resizing:
    """Find the leading dimensions that can be 1."""
    before, found = way.sample.inputs.slots, []
    for name in way.sizes:
        if trial.tolerates_sizes(way, way.with_bounds({name: 1})):
            pairs = zip(before, trial.session.inputs.slots, strict=True)
            changed = [(one.shape, two.shape) for one, two in pairs if one.shape != two.shape]
            if all(len(one) > 1 and one[1:] == two[1:] for one, two in changed):
                found.append(name)
    return replace(way, batches=tuple(found))


def answer_to_others(
    session: ReferenceSession,
    resizing: Resizing,
    rng: random.Random,
    draws: DrawPlan = PLAINLY,
    *,
    finite: bool = True,
    sizes: Mapping[str, int] | None = None,
    exact: bool = True,
) -> Answer | None:
    """Make inputs of other sizes and return the answer to them, or None if the problem does not tolerate them.

    It does not if the reference rejects them, faults, runs out of memory or times out, or if the answer does not fit.

    Args:
        session: the problem.
        resizing: the way in which its sizes change.
        rng: draws every secret.
        draws: how the numbers are made.
        finite: whether the answer must be finite.
        sizes: the sizes, if they are chosen already.
        exact: whether to compute the fp64 form as well.
    """
    answer = tried_answer(session, rng, sizes or resizing.draw(rng, draws.written), draws, finite=finite, exact=exact)
    return answer if answer is not None and resizing.fits(session.inputs, answer) else None
