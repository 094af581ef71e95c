"""The judge's timing of one candidate: a ring of input sets, rounds in both workers, and checks of their outputs.

Replays of the candidate's launches are timed, in a worker that holds none of its host code. A kernel could still cheat
by reusing memory that it recognizes, so the outputs of secretly chosen calls are compared, and a time too short to
write the output is rejected.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.nvml import SmClock
from warpsmith.evaluator.devices.tensor_views import Part
from warpsmith.evaluator.figures import Clock
from warpsmith.evaluator.judge.ring import Ring
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, KnownTime, ReferenceSession
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Ask, Side, Timing

if TYPE_CHECKING:
    from warpsmith.evaluator.processes.lease import Lease

STASHED_BYTES: Final = 4 << 20
"""Up to this size an output is copied at once, and compared after the exclusive lease has ended."""
BELOW_FLOOR: Final = 0.8


Compare = Callable[[Answer, Form, "Part | torch.Tensor"], str]


@dataclass
class Witness:
    """Checks the outputs of the candidate's timed calls, and remembers the first error.

    `look` only copies small outputs; `settle` compares them.

    Args:
        session: gives the expected answers; the inputs in its arena change.
        ring: the input sets of the timed calls.
        compare: returns what is wrong with an output, which lies in its place or in a flat copy of it.
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
        """Poison every output slot, so that no output of an earlier call is left."""
        for number in range(len(self.ring.answers)):
            self._poison(number)

    def look(self, sets: Sequence[int]) -> None:
        """Copy or compare the outputs of some sets, and poison their slots again."""
        for number in sets:
            self.looks += 1
            room = self.ring.answers[number]
            if self.ring.placed.size <= min(STASHED_BYTES, self.ring.most_kept):
                self._stashed.append((number, tensor_views.content(room).clone()))
            else:
                self.wrong = self.wrong or self._wrong(number, room)
            self._poison(number)

    def settle(self) -> None:
        """Compare the copies, oldest first."""
        for number, delivered in self._stashed:
            self.wrong = self.wrong or self._wrong(number, delivered)
        self._stashed.clear()

    def _poison(self, number: int) -> None:
        tensor_views.poison(self.ring.answers[number], self.ring.placed.slots)

    def _wrong(self, number: int, delivered: "Part | torch.Tensor") -> str:
        """Return what is wrong with an output; one that is bitwise equal to a correct one needs no reference."""
        content = tensor_views.content(delivered)
        known = self._seen.get(number)
        if known is not None and torch.equal(known, content):
            return ""
        if self.ring.expected[number] is None:
            # Frees the memory that the recomputed answer needs.
            known = self._seen.pop(number, None)
        answer = self.ring.expected[number] or self._answer(number)
        wrong = self.compare(answer, self.ring.placed, delivered)
        if not wrong and content.numel() <= self.ring.most_seen(number):
            self._seen[number] = content.clone()
        return wrong

    def _answer(self, number: int) -> Answer:
        """Let the reference recompute an answer that was too large to keep."""
        tensor_views.content(self.session.inputs_buffer).copy_(tensor_views.content(self.ring.inputs[number]))
        return self.session.answer(self.rng.getrandbits(48))


@dataclass
class Outcome:
    """A timing, what is wrong with the outputs of the timed calls (empty if nothing), and the kernels' share of a call.

    Share and clock are None if they were not taken.
    """

    timing: Timing
    wrong: str
    kernel_share: float | None = None
    clock: Clock | None = None


def conduct(
    witness: Witness,
    ask: Ask,
    count: int,
    lease: "Lease",
    *,
    least_ms: float = 0.0,
    sequential: bool = False,
    beside: bool = False,
    profile: Callable[[], float | None] = lambda: None,
    clock: SmClock | None = None,
) -> Outcome:
    """Time both sides on a ring under an exclusive lease, and check the outputs.

    Args:
        witness: checks the outputs; it holds the reference and the ring, which both sides have.
        ask: sends a ROUND to the worker that replays the candidate's launches.
        count: timed calls of each side.
        lease: of the device; held exclusively only for the measurement.
        least_ms: the shortest time in ms that any call takes on this device.
        sequential: see `clocks.Side`.
        beside: the same.
        profile: returns the share of the candidate's kernels in the device's time of a call; called after the timing.
        clock: of the multiprocessors; read between the candidate's timed calls.
    """
    rng, session, sets = witness.rng, witness.session, len(witness.ring.inputs)
    one, other = (random.Random(rng.getrandbits(64)) for _ in range(2))
    options: dict[str, Any] = {"least_ms": least_ms, "sequential": sequential, "beside": beside}
    candidate = Side(ask, sets, one, fences=True, **options)
    reference = Side(session.round, sets, other, **options)
    # The reference's known time holds only for inputs of the same form and a ring of the same size.
    ring, known = (session.inputs, sets), session.known_time
    if known is not None and known.ring == ring:
        reference.cached = known.time
    with lease.shared():
        clocks.make_ready(candidate, reference)
        witness.begin()
    with lease.alone():
        looks: list[float | None] = []
        found = clocks.measure(
            candidate, reference, count, witness.look, lambda: looks.append(clock.current_mhz() if clock else None)
        )
        share = profile()
    with lease.shared():
        witness.settle()
    session.known_time = None if reference.cached is None else KnownTime(ring, reference.cached)
    return Outcome(found, witness.wrong, share, _clock(clock, looks))


def _clock(clock: SmClock | None, looks: list[float | None]) -> Clock | None:
    seen, most = [mhz for mhz in looks if mhz is not None], clock.max_mhz() if clock else None
    return Clock(median(seen), min(seen), most) if seen and most is not None else None
