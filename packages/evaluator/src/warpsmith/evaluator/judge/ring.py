"""The ring: the input sets that timed calls go round, each with room for its output.

Small sets are kept for the next candidate of the problem, with the reference's answers: making them takes longer than
the timing. One of them, drawn at random, is made anew each time. No candidate can use what it saw: its processes end
with it, and a verdict tells a number or two. The sets of trials are made anew for every candidate.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.tensor_views import Part
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, KeptSets, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.memory import Shared

MOST_SETS: Final = 8
SHARE: Final = 0.25
"""Share of the free device memory that a ring may take."""
COPIES: Final = 4
"""Copies of a ring's inputs: in the judge's arena, in each worker, and one in transit."""
ANSWERS_SHARE: Final = 0.1
"""Share of the free memory for the expected answers that are kept; as much again for correct outputs."""
FORM_ATTEMPTS: Final = 64
KEPT_BYTES: Final = 64 << 20
"""Most bytes of input sets, answers and state that one problem keeps for its next candidate."""


@dataclass
class Ring:
    """Input sets that all differ, each with room for its output.

    Attributes:
        placed: the layout of one output.
        shared: the buffers of all inputs and of all outputs.
        inputs: the part of the first buffer that each set has.
        answers: the part of the second buffer that each set's outputs are written to.
        expected: the reference's answer to each set; None if it is too large to keep.
        most_kept: largest output in bytes for which an expected and a correct one are kept.
    """

    placed: Form
    shared: "tuple[Shared, Shared]"
    inputs: list[Part]
    answers: list[Part]
    expected: "list[Answer | None]"
    most_kept: float

    @property
    def fds(self) -> list[int]:
        """Return the file descriptors of all inputs and of all outputs."""
        return [buffer.fileno() for buffer in self.shared]

    def most_seen(self, number: int) -> float:
        """Return the size in bytes up to which a correct output is kept; doubled if the expected one is not kept."""
        return self.most_kept if self.expected[number] is not None else 2 * self.most_kept


def make_ring(
    session: ReferenceSession,
    device: "Device",
    placed: Form,
    rng: random.Random,
    *,
    answered: bool = True,
    output_bytes: int = 0,
    keep: Callable[[Answer], Answer] | None = None,
) -> Ring:
    """Make as many sets as memory allows, at most eight; the room for each output is poisoned.

    Args:
        session: makes the inputs; their form must be that of the recording.
        device: runs the calls.
        placed: the layout of one output.
        rng: draws the seeds.
        answered: whether the reference answers each set.
        output_bytes: size of a call's output, if it exceeds `placed`.
        keep: given to take and keep sets of earlier rings; it returns an answer as it is to be kept.

    Raises:
        BadProblemError: the form of the problem's inputs changes at nearly every call.
    """
    device.release_if_scarce()
    form = session.inputs
    each = COPIES * form.size + max(placed.size, output_bytes)
    sets = max(1, min(MOST_SETS, int(SHARE * device.free_bytes() / each)))
    # Two large buffers: each driver call that allocates or maps memory waits while other processes create contexts.
    shared = (device.create("ring-inputs", sets * form.size), device.create("ring-answers", sets * placed.size))
    inputs, answers = tensor_views.parts(shared[0], form.size), tensor_views.parts(shared[1], placed.size)
    ring = Ring(placed, shared, inputs, answers, [], ANSWERS_SHARE * device.free_bytes() / sets)
    kept = session.kept_sets if keep is not None and _fits(session.kept_sets, session, sets) else None
    anew = rng.randrange(sets)
    for number, (own_inputs, own_answers) in enumerate(zip(inputs, answers, strict=True)):
        if kept is not None and number != anew:
            tensor_views.content(own_inputs).copy_(kept.inputs[number])
            ring.expected.append(kept.answers[number])
        else:
            _make_inputs_like(form, session, rng)
            keeps = answered and placed.size <= ring.most_kept
            answer = session.answer(rng.getrandbits(48)) if keeps else None
            ring.expected.append(keep(answer) if keep is not None and answer is not None else answer)
            tensor_views.content(own_inputs).copy_(tensor_views.content(session.inputs_buffer))
        tensor_views.poison(own_answers, placed.slots)
    if keep is not None:
        session.kept_sets = _kept(session, ring)
    device.settle()
    return ring


def take_state(session: ReferenceSession) -> None:
    """Put the parameters and buffers of the kept sets into the session's arena, so that their answers hold.

    They were drawn for an earlier candidate's trial, as those in the arena were for this one's.
    """
    kept = session.kept_sets
    if kept is not None and kept.form == session.inputs and kept.state.numel():
        tensor_views.content(session.state_buffer).copy_(kept.state)


def _fits(kept: KeptSets | None, session: ReferenceSession, sets: int) -> bool:
    """Whether kept sets have the form of the session's inputs, are as many, and belong to its state."""
    if kept is None or kept.form != session.inputs or len(kept.inputs) != sets:
        return False
    return torch.equal(kept.state, tensor_views.content(session.state_buffer))


def _kept(session: ReferenceSession, ring: Ring) -> KeptSets | None:
    """Return private copies of a ring's sets; None if they are too large, or not all are answered."""
    answers = [answer for answer in ring.expected if answer is not None]
    inputs, state = [tensor_views.content(part) for part in ring.inputs], tensor_views.content(session.state_buffer)
    size = sum(one.nbytes for one in (state, *inputs, *_tensors(answers)))
    if len(answers) < len(inputs) or size > KEPT_BYTES:
        return None
    return KeptSets(session.inputs, state.clone(), [one.clone() for one in inputs], answers)


def _tensors(answers: list[Answer]) -> list[torch.Tensor]:
    expected = [one for answer in answers for one in answer.expected]
    return [tensor for one in expected for tensor in (one.value, one.exact, one.spread) if tensor is not None]


def _make_inputs_like(form: Form, session: ReferenceSession, rng: random.Random) -> None:
    for _ in range(FORM_ATTEMPTS):
        session.make_inputs(rng.getrandbits(48))
        if session.inputs == form:
            return
    raise BadProblemError(
        f"get_inputs() returned other shapes or dtypes {FORM_ATTEMPTS} times in a row, so no two calls are comparable "
        "and none can be timed.",
        "Fix the shapes of the problem's inputs, or set timing to false.",
    )
