"""What a recording can depend on besides the call's inputs: inputs of earlier calls, and the state before them."""

from typing import TYPE_CHECKING, Any

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc.tensor_slots import FLOATING, ITEM_BYTES
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.on_device import FORM_ATTEMPTS
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.recordings.history import STATE_BEFORE, Past
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared


class PastCalls:
    """Makes and keeps the inputs of earlier calls that the recordings of one candidate depend on."""

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest) -> None:
        self._session = session
        self._machine = candidate.machine
        self._rng = candidate.rng
        self._arenas: dict[tuple[int, str], Shared] = {}
        # Kept, so that no new recording gets the id of a deleted one, and with it its arenas.
        self._recordings: list[Recording] = []
        self._state_before: Shared | None = None

    def fill(self, recording: Recording) -> bool:
        """Make inputs for the earlier calls a recording depends on; return whether the session's inputs were remade."""
        missing = [past for past in recording.past if (id(recording), past.name) not in self._arenas]
        made_with = self._session.made_with
        if missing:
            self._recordings.append(recording)
        for past in missing:
            self._arenas[id(recording), past.name] = self._made_for(past)
        if missing and self._state_before is None:
            self._state_before = self._created("state-before", self._session.state.size)
            tensor_views.content(self._state_before).copy_(self._session.constructed_state)
        if missing:
            self._session.make_again(made_with)
        return bool(missing)

    def _created(self, name: str, size: int) -> "Shared":
        with self._machine.driving():
            return self._machine.device.create(name, size)

    def _made_for(self, past: Past) -> "Shared":
        """Return an arena with inputs of an earlier call's form.

        Raises:
            CandidateFailedError: inputs of that form cannot be drawn again.
        """
        for _ in range(FORM_ATTEMPTS):
            self._session.make_inputs(self._rng.getrandbits(48), past.sizes, past.draws)
            if self._session.inputs == past.form:
                arena = self._created(f"inputs-{past.name}", past.form.size)
                copy_inputs(self._session, arena)
                return arena
        raise CandidateFailedError(
            "rejected", None, "forward uses memory of an earlier call on inputs of another form. Make it in each call."
        )

    def match_ends(self, recording: Recording, given: Form) -> None:
        """Copy both ends of this call's floating inputs into those of earlier calls.

        Host code that recognizes inputs by their ends then mistakes them.
        """
        for past in recording.past:
            if past.form != given:
                continue
            arena = self._arenas[id(recording), past.name]
            for slot in given.slots:
                if slot.dtype in FLOATING and slot.numel:
                    ends = max(1, slot.span // 4) * ITEM_BYTES[slot.dtype]
                    before, now = tensor_views.raw(arena, slot), tensor_views.raw(self._session.inputs_buffer, slot)
                    before[:ends].copy_(now[:ends])
                    before[-ends:].copy_(now[-ends:])

    def to_play(self, recording: Recording) -> "tuple[list[Any], list[Shared]]":
        """Return name, size and slots of each arena that the earlier calls of a recording use, and the arenas."""
        if not recording.past or self._state_before is None:
            return [], []
        state = self._session.state
        layouts = [[past.name, past.form.size, past.form.slots] for past in recording.past]
        arenas = [self._arenas[id(recording), past.name] for past in recording.past]
        return [*layouts, [STATE_BEFORE, state.size, state.slots]], [*arenas, self._state_before]


def copy_inputs(session: ReferenceSession, arena: "Shared") -> None:
    """Copy the session's inputs, with NaN between and behind them, where only a load without a mask reads."""
    tensor_views.content(arena).fill_(0xFF)
    for slot in session.inputs.slots:
        if slot.numel:
            tensor_views.raw(arena, slot).copy_(tensor_views.raw(session.inputs_buffer, slot))
