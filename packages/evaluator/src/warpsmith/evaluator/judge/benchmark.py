"""One candidate's timing, as the judge conducts it: a ring of input sets, both workers' rounds, and what they left.

What is timed is the replay of the candidate's launches, in a worker that holds none of its host code. What a kernel
leaves behind can still deceive (memory that it knows again), so the answers of secretly chosen calls are compared, and
a time below what writing the output takes is refused.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.tensor_views import Part
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.reference.session import Answer, KnownTime, Placed, ReferenceSession
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Ask, Side, Timing

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.memory import Shared
    from warpsmith.evaluator.processes.pool import Lease

MOST_SETS: Final = 8
SHARE: Final = 0.25
"""Of the free device memory, what a ring may take."""
COPIES: Final = 4
"""How often a ring's inputs are held: by the judge's arena, by each worker, and once more in between."""
ANSWERS_SHARE: Final = 0.1
"""Share of the free memory up to which expected answers are kept, and as much again for right ones that came."""
STASHED_BYTES: Final = 4 << 20
"""Up to this size an answer is copied when it is looked at, and compared once the device is no longer held alone."""
FORM_ATTEMPTS: Final = 64
BELOW_FLOOR: Final = 0.8


@dataclass
class Ring:
    """Input sets that are all different, each with room for its answer.

    Attributes:
        placed: the room for one answer.
        shared: the buffers of all inputs and of all answers.
        inputs: what each set has of the first.
        answers: where each set's answers are delivered.
        expected: the reference's answers, where they are not too large to be kept.
        most_kept: bytes of one answer up to which the expected one is kept, and a right one that came as well.
    """

    placed: Placed
    shared: "tuple[Shared, Shared]"
    inputs: list[Part]
    answers: list[Part]
    expected: "list[Answer | None]"
    most_kept: float

    @property
    def fds(self) -> list[int]:
        """Return the descriptors of all inputs and of all answers."""
        return [buffer.fileno() for buffer in self.shared]

    def most_seen(self, number: int) -> float:
        """Return bytes up to which a right answer of a set is kept; twice as many where the expected one is not."""
        return self.most_kept if self.expected[number] is not None else 2 * self.most_kept


def make_ring(
    session: ReferenceSession,
    device: "Device",
    placed: Placed,
    rng: random.Random,
    *,
    answered: bool = True,
    output_bytes: int = 0,
) -> Ring:
    """Make as many sets as the memory allows, at most eight; each answer's room is poisoned.

    Args:
        session: makes the inputs; their form must be that of the trace.
        device: that the calls run on.
        placed: the room for one answer.
        rng: draws the seeds.
        answered: whether the reference is to answer each set.
        output_bytes: what a call's output takes, where that is more than the room for an answer.

    Raises:
        BadProblemError: the problem gives its inputs another form at nearly every call.
    """
    device.release_if_scarce()
    form = session.inputs
    each = COPIES * form.size + max(placed.size, output_bytes)
    sets = max(1, min(MOST_SETS, int(SHARE * device.free_bytes() / each)))
    # Every call of the driver that makes or maps memory waits for contexts that come into being elsewhere.
    shared = (device.create("ring-inputs", sets * form.size), device.create("ring-answers", sets * placed.size))
    inputs, answers = tensor_views.parts(shared[0], form.size), tensor_views.parts(shared[1], placed.size)
    ring = Ring(placed, shared, inputs, answers, [], ANSWERS_SHARE * device.free_bytes() / sets)
    for own_inputs, own_answers in zip(inputs, answers, strict=True):
        _make_inputs_like(form, session, rng)
        keeps = answered and placed.size <= ring.most_kept
        ring.expected.append(session.answer(rng.getrandbits(48)) if keeps else None)
        tensor_views.content(own_inputs).copy_(tensor_views.content(session.inputs_buffer))
        tensor_views.poison(own_answers, placed.slots)
    device.settle()
    return ring


def _make_inputs_like(form: Placed, session: ReferenceSession, rng: random.Random) -> None:
    for _ in range(FORM_ATTEMPTS):
        session.make_inputs(rng.getrandbits(48))
        if session.inputs == form:
            return
    raise BadProblemError(
        f"get_inputs() gave other shapes or dtypes {FORM_ATTEMPTS} times in a row, so that no calls can be timed that "
        "are like one another.",
        "Fix the shapes of the problem's inputs, or set timing to false.",
    )


Compare = Callable[[Answer, Placed, "Part | torch.Tensor"], str]


@dataclass
class Witness:
    """Looks at what timed calls of the candidate delivered, and remembers the first thing that is wrong.

    What is small is only copied by a look; `settle` compares it.

    Args:
        session: gives the expected answers; its arena's inputs change.
        ring: what was timed.
        compare: returns what is wrong with a delivered answer, which lies in its room or in a flat copy of that.
        rng: seeds the reference.
    """

    session: ReferenceSession
    ring: Ring
    compare: Compare
    rng: random.Random
    wrong: str = ""
    looks: int = 0
    _seen: "dict[int, torch.Tensor]" = field(default_factory=dict)
    _stashed: "list[tuple[int, torch.Tensor]]" = field(default_factory=list)

    def begin(self) -> None:
        """Poison the room of every answer: what came before is no answer of a timed call."""
        for number in range(len(self.ring.answers)):
            self._poison(number)

    def look(self, sets: Sequence[int]) -> None:
        """Copy or compare the answers of some sets, and poison their room again."""
        for number in sets:
            self.looks += 1
            room = self.ring.answers[number]
            if self.ring.placed.size <= min(STASHED_BYTES, self.ring.most_kept):
                self._stashed.append((number, tensor_views.content(room).clone()))
            else:
                self.wrong = self.wrong or self._wrong(number, room)
            self._poison(number)

    def settle(self) -> None:
        """Compare what was copied, in the order in which it came."""
        for number, delivered in self._stashed:
            self.wrong = self.wrong or self._wrong(number, delivered)
        self._stashed.clear()

    def _poison(self, number: int) -> None:
        tensor_views.poison(self.ring.answers[number], self.ring.placed.slots)

    def _wrong(self, number: int, delivered: "Part | torch.Tensor") -> str:
        """Return what is wrong with one answer; one that is bit for bit an answer that was right needs no reference."""
        content = tensor_views.content(delivered)
        known = self._seen.get(number)
        if known is not None and torch.equal(known, content):
            return ""
        if self.ring.expected[number] is None:
            # What is kept has the room of the answer that is made now.
            known = self._seen.pop(number, None)
        answer = self.ring.expected[number] or self._answer(number)
        wrong = self.compare(answer, self.ring.placed, delivered)
        if not wrong and content.numel() <= self.ring.most_seen(number):
            self._seen[number] = content.clone()
        return wrong

    def _answer(self, number: int) -> Answer:
        """Let the reference compute again what was too large to be kept."""
        tensor_views.content(self.session.inputs_buffer).copy_(tensor_views.content(self.ring.inputs[number]))
        return self.session.answer(self.rng.getrandbits(48))


@dataclass
class Outcome:
    """A timing, and what is wrong with the answers that the timed calls left; empty where nothing is."""

    timing: Timing
    wrong: str


def conduct(witness: Witness, ask: Ask, count: int, lease: "Lease", *, least_ms: float = 0.0) -> Outcome:
    """Time both sides on a ring, the device leased alone, and look at what is delivered.

    Args:
        witness: looks at the answers; it holds the reference and the ring, which both sides were given.
        ask: sends a ROUND to the worker that replays the candidate's launches.
        count: timed calls of each side.
        lease: of the device; what need not be alone has others beside it.
        least_ms: what any call takes on this device.
    """
    rng, session, sets = witness.rng, witness.session, len(witness.ring.inputs)
    candidate = Side(ask, sets, random.Random(rng.getrandbits(64)), fences=True, least_ms=least_ms)
    reference = Side(session.round, sets, random.Random(rng.getrandbits(64)), least_ms=least_ms)
    # What was found of the reference on other inputs, or on a ring that fits the cache otherwise, is of no use.
    ring, known = (session.inputs, sets), session.known_time
    if known is not None and known.ring == ring:
        reference.cached = known.time
    with lease.shared():
        clocks.make_ready(candidate, reference)
        witness.begin()
    with lease.alone():
        found = clocks.measure(candidate, reference, count, witness.look)
    with lease.shared():
        witness.settle()
    session.known_time = None if reference.cached is None else KnownTime(ring, reference.cached)
    return Outcome(found, witness.wrong)
