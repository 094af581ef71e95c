"""What each correctness trial changes, so that no cache and no shortcut of the sample survives.

The first trial takes a fresh input set. Later ones, in random order: the same content but for a part of it, at the same
addresses (caches by pointer and by fingerprint); values outside the sample's range (shortcuts that only the sample
allows); other parameters and buffers (weights derived once); other values in what the sample never varies (masks,
lengths, zeros), at new addresses.
"""

import random
from dataclasses import dataclass
from typing import Final, Literal

import torch

from warpsmith.evaluator import arenas, variation
from warpsmith.evaluator.compare import RELATIVE
from warpsmith.evaluator.layout import TensorSlot
from warpsmith.evaluator.reference import Answer, ReferenceFailedError, ReferenceSession

Content = Literal["fresh", "near", "shifted", "scaled", "redrawn"]

HIDDEN_RANGE: Final = "inputs outside the range of get_inputs()"
CHANGED_STATE: Final = "parameters or buffers changed after construction: derive nothing from them in the constructor"
REDRAWN: Final = "other values in inputs that get_inputs() always gives the same"
PART: Final = 8
MAX_REDRAWN: Final = 16
ROUNDINGS: Final = 4


@dataclass(frozen=True)
class Trial:
    """One trial: what its inputs are, whether parameters change before it, whether inputs move to new memory."""

    content: Content = "fresh"
    new_parameters: bool = False
    new_memory: bool = False

    @property
    def remark(self) -> str:
        """What a writer of kernels should know about this trial, empty for an ordinary one."""
        if self.new_parameters:
            return CHANGED_STATE
        if self.content == "redrawn":
            return REDRAWN
        return HIDDEN_RANGE if self.content in {"shifted", "scaled"} else ""


LATER: Final = (
    Trial("shifted"),
    Trial("near"),
    Trial("fresh", new_parameters=True),
    Trial("redrawn", new_memory=True),
    Trial("near", new_memory=True),
    Trial("fresh"),
)


def plan(count: int, rng: random.Random) -> list[Trial]:
    """Return `count` trials: a fresh one first, then the others in random order, the most telling kept when few fit."""
    later = [LATER[index % len(LATER)] for index in range(count - 1)]
    rng.shuffle(later)
    return [Trial(new_memory=True), *later]


def prepare(
    session: ReferenceSession, trial: Trial, previous: bytes | None, rng: random.Random
) -> tuple[Trial, Answer]:
    """Write one trial's inputs (and parameters) to the session's arenas and let the reference answer.

    A change that the problem does not bear (the reference raises, overflows, or loses its precision) is taken back.

    Returns:
        The trial as it came about, and the reference's answer.
    """
    if trial.new_parameters and (session.parameters or session.varied_buffers):
        changed = _with_new_state(session, rng)
        if changed is not None:
            return trial, changed
        trial = Trial(trial.content, new_memory=trial.new_memory)
    if trial.content == "redrawn":
        redrawn = _with_redrawn_inputs(session, rng)
        if redrawn is not None:
            return trial, redrawn
        trial = Trial("fresh", new_memory=trial.new_memory)
    for content in _attempts(trial.content):
        session.make_inputs(rng.getrandbits(48))
        if not _apply(session, content, previous, rng):
            continue
        came_about = Trial(content, new_memory=trial.new_memory)
        if content == "fresh":
            return came_about, session.answer(rng.getrandbits(48))
        answer = _bearable_answer(session, rng)
        if answer is not None:
            return came_about, answer
    raise AssertionError("the last attempt is always a fresh input set")


def _attempts(content: Content) -> tuple[Content, ...]:
    if content == "shifted":
        return ("shifted", "scaled", "fresh")
    return (content, "fresh") if content != "fresh" else ("fresh",)


def _apply(session: ReferenceSession, content: Content, previous: bytes | None, rng: random.Random) -> bool:
    """Change the fresh inputs in the arena as `content` asks; False where that is impossible."""
    slots = session.floating_inputs()
    if content == "fresh":
        return True
    if not slots or (content == "near" and (previous is None or len(previous) != session.inputs.size)):
        return False
    if content == "near":
        _keep_most(session, previous or b"", rng)
        return True
    for slot in slots:
        tensor = arenas.view(session.inputs_buffer, slot)
        if bool(torch.isfinite(tensor).all()):
            variation.stretch(tensor, centred=content == "shifted", factor=rng.uniform(1.5, 3.0))
    return True


def _keep_most(session: ReferenceSession, previous: bytes, rng: random.Random) -> None:
    """Put back the previous content except for one random run of elements in each floating input."""
    buffer = session.inputs_buffer
    fresh = bytes(memoryview(buffer))
    memoryview(buffer)[:] = previous
    for slot in session.floating_inputs():
        item = slot.nbytes // slot.numel
        length = max(slot.numel // PART, 1)
        start = slot.offset + rng.randrange(slot.numel - length + 1) * item
        memoryview(buffer)[start : start + length * item] = fresh[start : start + length * item]


def _with_redrawn_inputs(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Change the inputs that two seeds leave the same: all of them, or one after the other what the problem bears."""
    generator = torch.Generator().manual_seed(rng.getrandbits(48))
    slots = _constant_inputs(session, rng)
    buffer = session.inputs_buffer
    before = bytes(memoryview(buffer))
    changed = [slot for slot in slots if variation.redraw(arenas.view(buffer, slot), generator)]
    if not changed:
        return None
    answer = _bearable_answer(session, rng)
    if answer is not None or len(changed) == 1:
        return answer
    memoryview(buffer)[:] = before
    for slot in changed:
        kept = bytes(memoryview(buffer))
        variation.redraw(arenas.view(buffer, slot), generator)
        found = _bearable_answer(session, rng)
        if found is None:
            memoryview(buffer)[:] = kept
        answer = found or answer
    return answer


def _constant_inputs(session: ReferenceSession, rng: random.Random) -> list[TensorSlot]:
    """Make two input sets and return the slots of the second that hold what they held in the first."""
    session.make_inputs(rng.getrandbits(48))
    placed, first = session.inputs, bytes(memoryview(session.inputs_buffer))
    session.make_inputs(rng.getrandbits(48))
    second = bytes(memoryview(session.inputs_buffer))
    if session.inputs != placed:
        return []
    spans = {slot: slice(slot.offset, slot.offset + slot.nbytes) for slot in placed.slots if slot.numel}
    return [slot for slot, span in spans.items() if first[span] == second[span]][:MAX_REDRAWN]


def _with_new_state(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Change parameters and buffers, or only one of both where the problem does not bear more."""
    before = bytes(memoryview(session.state_buffer))
    generator = torch.Generator().manual_seed(rng.getrandbits(48))
    session.make_inputs(rng.getrandbits(48))
    parameters = [slot for slot in session.parameters.values() if slot.dtype.startswith("float") and slot.numel]
    buffers = list(session.varied_buffers.values())
    for chosen, others in [(parameters, buffers), (parameters, []), ([], buffers)][: 3 if buffers else 1]:
        for slot in chosen:
            variation.perturb(arenas.view(session.state_buffer, slot), generator)
        for slot in others:
            variation.vary(arenas.view(session.state_buffer, slot), generator)
        answer = _bearable_answer(session, rng)
        if answer is not None:
            return answer
        memoryview(session.state_buffer)[:] = before
    return None


def _bearable_answer(session: ReferenceSession, rng: random.Random) -> Answer | None:
    """Return the reference's answer to changed inputs, or None where the problem does not bear the change."""
    try:
        answer = session.answer(rng.getrandbits(48))
    except ReferenceFailedError:
        return None
    return answer if answer.finite and _well_conditioned(answer) else None


def _well_conditioned(answer: Answer) -> bool:
    """Whether the reference stays close to its fp64 run: a tenth of the tolerance, and a few roundings of its dtype.

    In half precision one rounding of the largest elements alone is more than that tenth.
    """
    for item in answer.expected:
        if item.exact is None or not item.value.numel():
            continue
        relative = RELATIVE[arenas.NAMES[item.value.dtype]]
        rounding = min(ROUNDINGS * torch.finfo(item.value.dtype).eps, relative)
        scale = item.exact.square().mean().sqrt()
        allowed = 0.1 * relative * scale + rounding * (item.exact.abs() + scale)
        if bool(((item.value.double() - item.exact).abs() > allowed).any()):
            return False
    return True
