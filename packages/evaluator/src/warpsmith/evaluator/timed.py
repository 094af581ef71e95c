"""One candidate's timing, as the judge conducts it: a ring of input sets, both workers' rounds, and what they left.

What is timed is the replay of the candidate's launches, in a worker that holds none of its host code. What a kernel
leaves behind can still deceive (memory that it knows again), so the answers of secretly chosen sets are compared after
the last round, and a time below what writing the output takes is refused.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warpsmith.evaluator import arenas, timing, wire
from warpsmith.evaluator.reference import Answer, Placed, ReferenceSession
from warpsmith.evaluator.timing import Side, Timing

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import DeviceMemory, Shared

MOST_SETS: Final = 8
SHARE: Final = 0.25
"""Of the free device memory, what a ring may take."""
COPIES: Final = 3
"""How often a ring's inputs are held: by the judge's arena, by the reference, and once more in between."""
LOOKED_AT: Final = 2
BELOW_FLOOR: Final = 0.8


@dataclass
class Ring:
    """Input sets that are all different, each with room for its answer."""

    placed: Placed
    inputs: "list[Shared]"
    answers: "list[Shared]"

    @property
    def fds(self) -> list[int]:
        return [buffer.fileno() for buffer in (*self.inputs, *self.answers)]


def make_ring(session: ReferenceSession, memory: "DeviceMemory", placed: Placed, rng: random.Random) -> Ring:
    """Make as many sets as the memory allows, at most eight; each answer's room is poisoned.

    Args:
        session: makes the inputs; their form must be that of the trace.
        memory: the device.
        placed: the room for one answer.
        rng: draws the seeds.
    """
    form = session.inputs
    room = SHARE * memory.handle.free_bytes() / (COPIES * form.size + placed.size)
    ring = Ring(placed, [], [])
    for _ in range(max(1, min(MOST_SETS, int(room)))):
        session.make_inputs(rng.getrandbits(48))
        inputs = memory.create("ring-inputs", form.size)
        arenas.content(inputs).copy_(arenas.content(session.inputs_buffer))
        answers = memory.create("ring-answers", placed.size)
        arenas.poison(answers, placed.slots)
        ring.inputs.append(inputs)
        ring.answers.append(answers)
    memory.settle()
    return ring


Compare = Callable[[Answer, Placed, "Shared"], str]


@dataclass
class Outcome:
    """A timing, and what is wrong with the answers that the timed calls left; empty where nothing is."""

    timing: Timing
    wrong: str


def conduct(
    session: ReferenceSession,
    ring: Ring,
    ask: Callable[[dict[str, Any]], wire.Fields],
    compare: Compare,
    *,
    rng: random.Random,
    count: int,
) -> Outcome:
    """Time both sides on a ring and look at what the last round delivered. The device must be leased alone.

    Args:
        session: the reference; its arena's inputs change.
        ring: what both sides were given.
        ask: sends a ROUND to the worker that replays the candidate's launches.
        compare: returns what is wrong with a delivered answer.
        rng: chooses orders, and the sets that are looked at.
        count: timed calls of each side.
    """
    sets = len(ring.inputs)
    looked_at = rng.sample(range(sets), min(sets, LOOKED_AT))
    candidate = Side(ask, sets, random.Random(rng.getrandbits(64)))
    reference = Side(session.round, sets, random.Random(rng.getrandbits(64)))
    found = timing.measure(candidate, reference, count, looked_at)
    return Outcome(found, next(filter(None, (_wrong(session, ring, one, compare, rng) for one in looked_at)), ""))


def _wrong(session: ReferenceSession, ring: Ring, number: int, compare: Compare, rng: random.Random) -> str:
    arenas.content(session.inputs_buffer).copy_(arenas.content(ring.inputs[number]))
    answer = session.answer(rng.getrandbits(48))
    return compare(answer, ring.placed, ring.answers[number])
