"""What each correctness trial changes, so that no cache and no shortcut of the sample survives.

The first trial takes a fresh input set. Later ones, in random order: the same content but for a part of it, at the same
addresses (caches by pointer and by fingerprint); values outside the sample's range (shortcuts that only the sample
allows); other parameters and buffers (weights derived once); other values in what the sample never varies (masks,
lengths, zeros), at new addresses; inputs of other shapes (sizes that are hard-coded).
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import torch

from warpsmith.evaluator import arenas, resizing, structure, variation
from warpsmith.evaluator.bearing import bearable_answer
from warpsmith.evaluator.layout import TensorSlot
from warpsmith.evaluator.reference import Answer, Placed, ReferenceSession
from warpsmith.evaluator.resizing import Form, Resizing
from warpsmith.evaluator.structure import Structure

Content = Literal["fresh", "near", "shifted", "scaled", "redrawn"]

HIDDEN_RANGE: Final = "inputs outside the range of get_inputs()"
CHANGED_STATE: Final = "parameters or buffers changed after construction: derive nothing from them in the constructor"
REDRAWN: Final = "other values in inputs that get_inputs() always gives the same"
OTHER_SHAPES: Final = "inputs of other shapes, {}: take every size from the inputs, hard-code none"
PART: Final = 8
MAX_STRUCTURES: Final = 64
MAX_REDRAWN: Final = 16
RESHAPINGS: Final = 2


@dataclass(frozen=True)
class Trial:
    """One trial: what its inputs are, whether parameters change before it, whether inputs move to new memory.

    Attributes:
        reshaped: whether the inputs have other shapes than the sample's.
        shapes: which, once they are made.
    """

    content: Content = "fresh"
    new_parameters: bool = False
    new_memory: bool = False
    reshaped: bool = False
    coarse: bool = False
    shapes: str = ""

    @property
    def remark(self) -> str:
        """What a writer of kernels should know about this trial, empty for an ordinary one."""
        remarks = [
            OTHER_SHAPES.format(self.shapes) if self.reshaped else "",
            CHANGED_STATE if self.new_parameters else "",
            REDRAWN if self.content == "redrawn" else "",
            HIDDEN_RANGE if self.content in {"shifted", "scaled"} else "",
        ]
        return "; and ".join(filter(None, remarks))


@dataclass(frozen=True)
class Seen:
    """What was seen of two input sets that `get_inputs()` made under different seeds.

    Attributes:
        steady: whether both have the same form; nothing is said of their values where they have not.
        same: the numbers of the input tensors that are the same in both, of those with elements.
        alike: whether that is all of them, whatever is given beside tensors.
        structures: what the values of an input have in common, by its number, where that is anything.
        form: theirs, and that of the reference's answer, where it has been asked for one.
    """

    steady: bool
    same: tuple[int, ...] = ()
    alike: bool = False
    structures: Mapping[int, Structure] = field(default_factory=dict)
    form: Form | None = None


@dataclass(frozen=True)
class Learned:
    """What the judge finds out about a problem before its first trial.

    Attributes:
        constant_inputs: the numbers of the input tensors that two seeds leave the same.
        has_state: whether there are parameters or buffers to change.
        resizing: how the shapes of its inputs may change, if they may.
        structures: what every change of an input keeps, by the input's number, where that is anything.
    """

    constant_inputs: tuple[int, ...]
    has_state: bool
    resizing: Resizing | None
    structures: Mapping[int, Structure] = field(default_factory=dict)
    unvaried: bool = False

    def structure(self, number: int) -> Structure:
        return self.structures.get(number, structure.NONE)


def learn(session: ReferenceSession, *, hidden_shapes: bool) -> Learned:
    """Return what is known of the session's problem, which is found out once for each session.

    Its random numbers are no secret: no candidate sees the inputs that are made here.
    """
    if session.learned is None:
        seen = session.seen or _look(session)
        has_state = bool(session.parameters or session.varied_buffers)
        rng = random.Random(session.init_seed)
        found = resizing.learn(session, rng, seen.form) if seen.steady and hidden_shapes else None
        session.learned = Learned(seen.same[:MAX_REDRAWN], has_state, found, seen.structures)
    return session.learned


def two_seeds(session: ReferenceSession) -> tuple[int, int]:
    """Return the seeds of the two input sets from which a problem is learned: always the same for a problem.

    A mask that is drawn anew each time has other zeros in common in other sets, and a verdict is to be repeatable.
    """
    rng = random.Random(f"samples {session.init_seed}")
    return rng.getrandbits(48), rng.getrandbits(48)


def _look(session: ReferenceSession) -> Seen:
    """Make the two input sets, and return what is seen of them."""
    one, other = two_seeds(session)
    session.make_inputs(one)
    placed, first = session.inputs, arenas.content(session.inputs_buffer).clone()
    session.make_inputs(other)
    return seen_of(session, placed, first, None)


def seen_of(session: ReferenceSession, placed: Placed, first: torch.Tensor, answer: Answer | None) -> Seen:
    """Return what is seen of two input sets, of which the second is in the session's arena.

    Args:
        session: made both.
        placed: the form of the first.
        first: its content.
        answer: the reference's to the first, where there is one.
    """
    second = arenas.content(session.inputs_buffer)
    if session.inputs != placed:
        return Seen(steady=False, alike=torch.equal(second, first))
    same = _unchanged(placed.slots, first, second)
    alike = len(same) == sum(1 for slot in placed.slots if slot.numel)
    structures = dict(_structures(placed.slots, first, second))
    return Seen(True, same, alike, structures, None if answer is None else Form.of(placed, answer))


def _structures(slots: list[TensorSlot], *samples: torch.Tensor) -> Iterator[tuple[int, Structure]]:
    for number, slot in enumerate(slots[:MAX_STRUCTURES]):
        if slot.numel:
            found = Structure.of([arenas.placed_in(sample, slot) for sample in samples])
            if found != structure.NONE:
                yield number, found


def _unchanged(slots: list[TensorSlot], first: torch.Tensor, second: torch.Tensor) -> tuple[int, ...]:
    spans = ((number, slice(slot.offset, slot.offset + slot.nbytes)) for number, slot in enumerate(slots) if slot.numel)
    return tuple(number for number, span in spans if torch.equal(first[span], second[span]))


def plan(count: int, rng: random.Random, learned: Learned) -> list[Trial]:
    """Return `count` trials: a fresh one first, then the others in random order, the most telling kept when few fit.

    Other shapes go to a trial that would have nothing to change in this problem, or else to that of redrawn inputs.
    """
    state = Trial("fresh", new_parameters=True)
    redrawn = Trial("redrawn" if learned.constant_inputs else "fresh", new_memory=True)
    if learned.resizing is not None and learned.has_state:
        redrawn = replace(redrawn, reshaped=True)
    elif learned.resizing is not None:
        state = Trial("fresh", reshaped=True)
    later = [Trial("shifted"), Trial("near"), state, redrawn, Trial("near", new_memory=True), Trial("fresh")]
    chosen = [later[index % len(later)] for index in range(count - 1)]
    rng.shuffle(chosen)
    return [Trial(new_memory=True), *_beside_their_like(chosen)]


def _beside_their_like(trials: list[Trial]) -> list[Trial]:
    """Let no reshaped trial stand right before one that changes a part of the inputs before it at their addresses."""
    for index in range(len(trials) - 1):
        one, two = trials[index : index + 2]
        if one.reshaped and two.content == "near" and not two.new_memory:
            trials[index : index + 2] = [two, one]
    return trials


def prepare(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> tuple[Trial, Answer]:
    """Write one trial's inputs (and parameters) to the session's arenas and let the reference answer.

    A change that the problem does not bear (the reference raises, overflows, or loses its precision) is taken back.

    Returns:
        The trial as it came about, and the reference's answer.
    """
    previous = None
    if trial.reshaped and learned.resizing is not None:
        answer = _with_other_shapes(session, learned, trial, rng)
        if answer is not None:
            return replace(trial, shapes=learned.resizing.describe(session.inputs)), answer
    trial = replace(trial, reshaped=False)
    if trial.new_parameters and learned.has_state:
        session.make_inputs(rng.getrandbits(48))
        changed = _with_new_state(session, rng)
        if changed is not None:
            return trial, changed
    trial = replace(trial, new_parameters=False)
    if trial.content == "redrawn":
        session.make_inputs(rng.getrandbits(48))
        redrawn = _with_redrawn_inputs(session, learned, rng)
        if redrawn is not None:
            return trial, redrawn
        trial = replace(trial, content="fresh")
    for content in _attempts(trial.content):
        session.make_inputs(rng.getrandbits(48))
        if not _apply(session, learned, content, previous, rng):
            continue
        came_about = Trial(content, new_memory=trial.new_memory)
        if content == "fresh":
            return came_about, session.answer(rng.getrandbits(48))
        answer = bearable_answer(session, rng)
        if answer is not None:
            return came_about, answer
    raise AssertionError("the last attempt is always a fresh input set")


def prepare_unseen(session: ReferenceSession, learned: Learned, rng: random.Random) -> Answer:
    """Change what the candidate has seen beside the fresh inputs in the arena, and let the reference answer.

    Parameters and buffers, and the inputs that no seed changes, become others, as far as the problem bears that.
    """
    answer = _with_new_state(session, rng) if learned.has_state else None
    if learned.constant_inputs:
        answer = _with_redrawn_inputs(session, learned, rng) or answer
    return answer or session.answer(rng.getrandbits(48))


def _with_other_shapes(session: ReferenceSession, learned: Learned, trial: Trial, rng: random.Random) -> Answer | None:
    """Make inputs of other shapes, redrawn where the trial asks for that; None where the problem bears no draw."""
    assert learned.resizing is not None
    for _ in range(RESHAPINGS):
        answer = resizing.answer_to_others(session, learned.resizing, rng)
        if answer is not None and trial.content == "redrawn":
            answer = _with_redrawn_inputs(session, learned, rng)
        if answer is not None and learned.resizing.fits(session.inputs, answer):
            return answer
    return None


def _attempts(content: Content) -> tuple[Content, ...]:
    if content == "shifted":
        return ("shifted", "scaled", "fresh")
    return (content, "fresh") if content != "fresh" else ("fresh",)


def _apply(
    session: ReferenceSession, learned: Learned, content: Content, previous: torch.Tensor | None, rng: random.Random
) -> bool:
    """Change the fresh inputs in the arena as `content` asks; False where that is impossible."""
    slots = session.floating_inputs()
    if content == "fresh":
        return True
    if not slots:
        return False
    if content == "near":
        if previous is None or previous.numel() != session.inputs.size:
            return False
        _keep_most(session, learned, previous, rng)
        return True
    for number, slot in slots.items():
        tensor = arenas.view(session.inputs_buffer, slot)
        if bool(torch.isfinite(arenas.computable(tensor)).all()):
            variation.stretch(tensor, centred=content == "shifted", factor=rng.uniform(1.5, 3.0))
            learned.structure(number).restore(tensor)
    return True


def _keep_most(session: ReferenceSession, learned: Learned, previous: torch.Tensor, rng: random.Random) -> None:
    """Put back the previous content except for one random run of elements in each floating input.

    The first and the last element stay where there are others: inputs are most often known again by these.
    """
    buffer = session.inputs_buffer
    whole = arenas.content(buffer)
    fresh = whole.clone()
    whole.copy_(previous)
    for number, slot in session.floating_inputs().items():
        length = max(slot.numel // PART, 1)
        ends = slot.numel - length > 1
        start = rng.randrange(1, slot.numel - length) if ends else rng.randrange(slot.numel - length + 1)
        if learned.structure(number).symmetric:
            drawn = torch.zeros(slot.numel, dtype=torch.bool, device=whole.device)
            drawn[start : start + length] = True
            drawn = drawn.as_strided(slot.shape, slot.stride)
            tensor = arenas.view(buffer, slot)
            tensor.copy_(torch.where(drawn | drawn.mT, arenas.placed_in(fresh, slot), tensor))
            continue
        item = slot.nbytes // slot.numel
        span = slice(slot.offset + start * item, slot.offset + (start + length) * item)
        whole[span] = fresh[span]


def _with_redrawn_inputs(session: ReferenceSession, learned: Learned, rng: random.Random) -> Answer | None:
    """Change the inputs that two seeds leave the same: all of them, or one after the other what the problem bears.

    Where it bears none, they are what they were before.
    """
    generator = session.memory.generator(rng.getrandbits(48))
    made = session.inputs.slots
    numbers = [number for number in learned.constant_inputs if number < len(made) and made[number].numel]
    buffer = session.inputs_buffer
    whole = arenas.content(buffer)
    before = whole.clone()

    def redraw(number: int) -> bool:
        tensor = arenas.view(buffer, made[number])
        changed = variation.redraw(tensor, generator)
        learned.structure(number).restore(tensor)
        return changed

    changed = list(filter(redraw, numbers))
    if not changed:
        return None
    answer = bearable_answer(session, rng)
    if answer is not None:
        return answer
    whole.copy_(before)
    for number in changed if len(changed) > 1 else []:
        kept = whole.clone()
        redraw(number)
        found = bearable_answer(session, rng)
        if found is None:
            whole.copy_(kept)
        answer = found or answer
    return answer


def _with_new_state(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Change parameters and buffers, or only one of both where the problem does not bear more, or neither."""
    state = arenas.content(session.state_buffer)
    before = state.clone()
    generator = session.memory.generator(rng.getrandbits(48))
    parameters = [slot for slot in session.parameters.values() if slot.dtype.startswith("float") and slot.numel]
    buffers = list(session.varied_buffers.values())
    for chosen, others in [(parameters, buffers), (parameters, []), ([], buffers)][: 3 if buffers else 1]:
        for slot in chosen:
            variation.perturb(arenas.view(session.state_buffer, slot), generator)
        for slot in others:
            variation.vary(arenas.view(session.state_buffer, slot), generator)
        answer = bearable_answer(session, rng)
        if answer is not None:
            return answer
        state.copy_(before)
    return None
