"""The ring: the input sets that timed calls cycle through, each with room for its output."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.tensor_views import Part
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, ReferenceSession

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
    driving: Callable[[], AbstractContextManager[object]] = nullcontext,
    shared: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Ring:
    """Make as many sets as memory allows, at most eight; the room for each output is poisoned.

    Args:
        session: makes the inputs; their form must be that of the recording.
        device: runs the calls.
        placed: the layout of one output.
        rng: draws the seeds.
        answered: whether the reference answers each set.
        output_bytes: size of a call's output, if it exceeds `placed`.
        driving: the context in which memory is allocated.
        shared: the context in which it is filled.

    Raises:
        BadProblemError: the form of the problem's inputs changes at nearly every call.
    """
    form = session.inputs
    each = COPIES * form.size + max(placed.size, output_bytes)
    with driving():
        device.release_if_scarce()
        sets = max(1, min(MOST_SETS, int(SHARE * device.free_bytes() / each)))
        # Two large buffers: each driver call that allocates or maps memory waits while other processes create contexts.
        buffers = device.create("ring-inputs", sets * form.size), device.create("ring-answers", sets * placed.size)
        most_kept = ANSWERS_SHARE * device.free_bytes() / sets
    inputs, answers = tensor_views.parts(buffers[0], form.size), tensor_views.parts(buffers[1], placed.size)
    ring = Ring(placed, buffers, inputs, answers, [], most_kept)
    with shared():
        for own_inputs, own_answers in zip(inputs, answers, strict=True):
            _make_inputs_like(form, session, rng)
            keeps = answered and placed.size <= ring.most_kept
            ring.expected.append(session.answer(rng.getrandbits(48)) if keeps else None)
            tensor_views.content(own_inputs).copy_(tensor_views.content(session.inputs_buffer))
            tensor_views.poison(own_answers, placed.slots)
        device.settle()
    return ring


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
