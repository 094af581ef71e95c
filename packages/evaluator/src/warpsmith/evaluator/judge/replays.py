"""Replays of recordings in a player, a worker that holds the kernels of the source but not its host code."""

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.memory import room
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.past_calls import copy_inputs
from warpsmith.evaluator.judge.recordings_by_form import Recordings
from warpsmith.evaluator.processes.worker import Worker
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared


PROFILED_CALLS: Final = 5
MOST_BYTES: Final = 1 << 60
"""Upper bound on the bytes that a replay can have moved: anything larger is nonsense."""


@dataclass(frozen=True)
class Delivered:
    """The outputs of a replay.

    Attributes:
        answer: the reference's answer to the same inputs.
        placed: the layout of outputs and buffers.
        memory: where they lie: a buffer, a part of one, or a flat copy.
        bytes_moved: what the replay read and wrote, as the player reports; None if it does not count.
    """

    answer: Answer
    placed: Form
    memory: "Shared | tensor_views.Part | torch.Tensor"
    bytes_moved: int | None = None


@dataclass(frozen=True)
class _Played:
    """What the player holds to replay: a recording, and the arenas of inputs and outputs."""

    recording: Recording
    answers: Form
    buffers: "tuple[Shared, Shared]"


class Replays:
    """Runs one candidate's replays, all in one player."""

    def __init__(
        self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches, recordings: Recordings
    ) -> None:
        self._session = session
        self._candidate = candidate
        self._device = candidate.machine.device
        self._launches = launches
        self._recordings = recordings
        self._state: Shared | None = None
        self._player: Worker | None = None
        self._played: _Played | None = None

    def play(
        self, recording: Recording, answer: Answer, *, garbage: bool = False, poison: int | None = None
    ) -> Delivered:
        """Let the player replay a recording on the session's inputs.

        Args:
            recording: one for the form of these inputs.
            answer: the reference's.
            garbage: whether fresh memory holds new garbage in each call.
            poison: a byte to fill fresh memory with; no kernel is launched then.
        """
        placed, past = self._recordings.room_for(answer), self._recordings.past
        played, self._played = self._played, None
        again = played is not None and played.recording is recording and played.answers == placed
        if played is None or not again:
            played = self._with_buffers(recording, placed, played)
        inputs, answers = played.buffers
        state = self._state_arena()
        copy_inputs(self._session, inputs)
        past.match_ends(recording, self._session.inputs)
        tensor_views.content(state).copy_(tensor_views.content(self._session.state_buffer))
        tensor_views.poison(answers, placed.slots)
        ghost = poison is not None
        fields: dict[str, Any] = {"again": again, "ghost": ghost, "garbage": garbage, "poison": poison or 0}
        fds: list[int] = []
        if not again:
            layouts, arenas_of_past = past.to_play(recording)
            fields |= self._to_play(recording, placed, (inputs.size, state.size, answers.size)) | {"past": layouts}
            fds = [buffer.fileno() for buffer in (inputs, state, answers, *arenas_of_past)]
        done = self._ask(Kind.REPLAY, fields, fds, Kind.DONE, drives=not again)
        self._played = played
        return Delivered(answer, placed, answers, traffic_of(done))

    def _with_buffers(self, recording: Recording, placed: Form, before: _Played | None) -> _Played:
        held = before.buffers if before is not None else (None, None)
        driving = self._candidate.machine.driving
        inputs = room(self._device, "replay-inputs", self._session.inputs.size, held[0], driving=driving)
        answers = room(self._device, "replay-answers", placed.size, held[1], writable_by_peer=True, driving=driving)
        return _Played(recording, placed, (inputs, answers))

    def _state_arena(self) -> "Shared":
        if self._state is None:
            with self._candidate.machine.driving():
                self._state = self._device.create("candidate-state", self._session.state.size)
        return self._state

    def _to_play(self, recording: Recording, placed: Form, sizes: tuple[int, int, int]) -> dict[str, Any]:
        inputs_bytes, state_bytes, answers_bytes = sizes
        return {
            "source": self._candidate.source,
            "binaries": self._launches.code_of(recording.launches),
            "events": recording.events,
            "outputs": recording.outputs,
            "answer": placed.tree,
            "inputs_bytes": inputs_bytes,
            "inputs_slots": self._session.inputs.slots,
            "state_bytes": state_bytes,
            "state_slots": self._session.state.slots,
            "answers_bytes": answers_bytes,
        }

    def kernel_share(self) -> float | None:
        """Return the share of a call's time on the device in its kernels, the median of a few calls on the ring.

        None if it could not be taken.
        """
        shares = []
        for _ in range(PROFILED_CALLS):
            found = self._ask(Kind.PROFILE, {}, [], Kind.PROFILED)
            own, whole = found.number("kernels_ms"), found.number("all_ms")
            if 0 <= own <= whole and whole > 0:
                shares.append(own / whole)
        return median(shares) if shares else None

    def set_ring(self, sizes: dict[str, int], fds: list[int]) -> None:
        """Give the player a ring of input sets for timing the recording that it played last."""
        self._ask(Kind.RING, sizes, fds, Kind.RINGED, drives=True)
        self._played = None

    def round(self, fields: dict[str, Any]) -> codec.Fields:
        """Let the player time one round."""
        return self._ask(Kind.ROUND, fields, [], Kind.ROUNDED, drives=bool(fields.get("captures")))

    def _ask(
        self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind, *, drives: bool = False
    ) -> codec.Fields:
        if self._player is None:
            candidate = self._candidate
            self._player = candidate.machine.take("candidate", candidate.config.start_timeout_s)
            candidate.note_tier(self._player)
        return self._candidate.conversation.ask(self._player, kind, fields, fds, answer, drives=drives).fields

    def close(self) -> None:
        """End the player."""
        if self._player is not None:
            self._player.close()


def traffic_of(done: codec.Fields) -> int | None:
    """Return the bytes that a replay moved; None if the player does not count them.

    Raises:
        WireError: the number is none that could be counted.
    """
    if not done.has("bytes_moved"):
        return None
    moved = done.integer("bytes_moved")
    if not 0 <= moved < MOST_BYTES:
        raise WireError(f"A replay moved {moved} bytes; 0 to {MOST_BYTES} were expected.")
    return moved
