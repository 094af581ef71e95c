"""One evaluation, as the judge conducts it: load, record, then replays.

Host code only records (`recording.py`). Everything that is judged is a replay of a recording in a player, a worker that
holds the kernels of the source and none of its host code: every trial, the run without kernels, the timed calls.
"""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.correctness.compare import Expected, agrees, compare, passes_kernelbench, usual
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.memory import DeviceMemory, room
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.ipc.tensor_slots import FLOATING, TensorSlot
from warpsmith.evaluator.judge import benchmark
from warpsmith.evaluator.judge.compile_service import CompileRun, LaunchByLaunch
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.evidence import Evidence, TransientError, claims, seeds_for_candidates
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.recordings import (
    FORM_ATTEMPTS,
    CandidateUnderTest,
    DetachedRecorder,
    NeedsDeviceError,
    OnDeviceRecorder,
    Recorder,
    Recording,
    claims_of_a_recording,
)
from warpsmith.evaluator.processes.failure_attribution import MAX_TEXT, CandidateFailedError, Failure, SuspectError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.processes.pool import Machine, Worker
from warpsmith.evaluator.recordings import module_state, outputs
from warpsmith.evaluator.recordings.history import STATE_BEFORE, Past
from warpsmith.evaluator.reference import trials
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceFailedError, ReferenceSession, memory_ran_out
from warpsmith.evaluator.reference.trials import Trial

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

POISONS: Final = (0x00, 0xFF)
"""What memory holds before the two runs without kernels: no element that comes from it is right under both."""
AFTER_FORWARD: Final = "Buffer {} after forward: "
RESHAPINGS: Final = 3
"""How often other shapes are drawn where Triton cannot form a block of the last ones."""


@dataclass(frozen=True)
class Played:
    """What the player was given to replay: the recording, and the arenas of its inputs and of its answer."""

    recording: Recording
    answers: Placed
    buffers: "tuple[Shared, Shared]"


class Evaluation:
    """One candidate against one reference session."""

    def __init__(
        self,
        session: ReferenceSession,
        machine: Machine,
        source: str,
        config: EvaluatorConfig,
        compiling: CompileRun | LaunchByLaunch,
    ) -> None:
        self.session = session
        self.machine = machine
        self.memory = machine.memory
        self.source = source
        self.config = config
        self.evidence = Evidence()
        self.conversation = Conversation(machine, config, self.evidence)
        self._state = self.memory.create("candidate-state", session.state.size)
        self._recorder: Recorder | None = None
        self._recordings: list[tuple[Placed, list[Recording]]] = []
        self._launches = Launches(compiling)
        self._buffer_names: set[str] = set()
        self._lacks = ""
        self._player: Worker | None = None
        self._played: Played | None = None
        self._turn = 0
        self._past: dict[tuple[int, str], Shared] = {}
        self._state_before: Shared | None = None
        self._usual: list[torch.Tensor | None] = []

    def conduct(self, count: int, rng: random.Random) -> Evidence:
        """Load the candidate, record it, and judge replays; compile meanwhile.

        Raises:
            TransientError: with the evidence, for a failure that others on this machine may have caused.
        """
        killed: bool | None = None
        self._rng = random.Random(rng.getrandbits(64))
        try:
            with self._workers(rng):
                self._judge_all(count, rng)
        except CandidateFailedError as failed:
            self.evidence.failure = failed.failure
        except SuspectError as failed:
            self.evidence.failure, killed = failed.failure, failed.killed
        except (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError) as failed:
            self.evidence.failure, killed = self._memory_ran_out(failed), False
        if self._launches:
            self._launches.settle()
            self.evidence.compilation = self._launches.result()
        if killed is not None:
            raise TransientError(self.evidence, killed=killed)
        return self.evidence

    def _judge_all(self, count: int, rng: random.Random) -> None:
        self._load()
        learned = self._learned()
        if learned.unvaried:
            self.evidence.flags.add("unvaried")
        with self.machine.lease.shared():
            self._record_early(learned, rng)
        for trial in trials.plan(count, rng, learned):
            with self.machine.lease.shared():
                self._trial(trial, learned, rng)
            self._launches.start()
        self._launches.settle()
        self.evidence.replayed = True
        with self.machine.lease.shared():
            recordings, answer = self._recorded_inputs(rng)
            self._run_without_kernels(recordings, answer)
        if self._recorder is not None:
            # What host code left running would be beside what is timed.
            self._recorder.end()
        if isinstance(self.memory, DeviceMemory) and self.config.timing and self._launches.result().ok:
            self._time(self.memory, steady(recordings), answer, rng)

    def _memory_ran_out(self, error: Exception) -> Failure:
        """Return the failure of a candidate that holds memory of the device while judge or reference want for it.

        Raises:
            Exception: `error`, where it is about something else, or the candidate had nothing yet.
        """
        if not (self._recorder is not None and memory_ran_out(error)):
            raise error
        message = f"The device's memory ran out while the candidate held some of it: {error}. Allocate less."
        return Failure("runtime_error", "out_of_memory", message[:MAX_TEXT])

    # Workers -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _workers(self, rng: random.Random) -> Iterator[None]:
        seeds = seeds_for_candidates(rng.getrandbits(256))
        self._candidate = CandidateUnderTest(
            self.source, self.machine, self.config, self.evidence, self.conversation, seeds
        )
        try:
            yield
        finally:
            if self._recorder is not None:
                self._recorder.close()
            if self._player is not None:
                self._player.close()

    def _the_player(self) -> Worker:
        """Return the worker that plays every replay of this evaluation."""
        if self._player is None:
            self._player = self.machine.take("candidate", self.config.start_timeout_s)
            self._note_tier(self._player)
        return self._player

    def _note_tier(self, worker: Worker) -> None:
        known = self.evidence.tier
        self.evidence.tier = worker.tier if known is None else min(known, worker.tier, key=TIER_STRENGTH.__getitem__)

    # Recording -----------------------------------------------------------------------------------------------------

    @in_phase("correctness")
    def _load(self) -> None:
        """Let host code construct the module, detached where the configuration does not say otherwise."""
        if self.config.recording == "detached":
            try:
                self._load_in(DetachedRecorder)
            except NeedsDeviceError:
                self._load_in(self._on_device)
        else:
            self._load_in(self._on_device)

    def _load_in(self, way: Any) -> None:
        if self._recorder is not None:
            self._recorder.close()
        recorder: Recorder = way(self.session, self._candidate)
        self._recorder, self.evidence.recording = recorder, recorder.way
        self._note_tier(recorder.worker)
        with claims_of_a_recording():
            loaded = recorder.load()
            unmatched, buffers = loaded.texts("unmatched"), loaded.texts("buffers")
            self._lacks = module_state.unmatched_remark(unmatched, self.session.parameters, loaded.texts("hints"))
        recorder.lacks = f"{self._lacks} " if self._lacks else ""
        if unmatched:
            self.evidence.flags.add("unmatched_parameters")
        self._buffer_names = set(buffers)
        if codec.Fields(self.session.state.tree).slot_map("buffers").keys() - self._buffer_names:
            self.evidence.flags.add("missing_buffers")

    @property
    def _on_device(self) -> "partial[OnDeviceRecorder]":
        return partial(OnDeviceRecorder, on_launch=self._launches.reported)

    def _recording(self, answer: Answer) -> tuple[Recording, bool]:
        """Return a recording for inputs of the session's form, and whether the session's inputs were made anew for it.

        Where a form has several (autotuned kernels), they take turns.
        """
        found = next((known for form, known in self._recordings if form == self.session.inputs), None)
        anew = False
        if found is None:
            form = self.session.inputs
            found, anew = self._record(answer)
            self._recordings.append((form, found))
        recording = found[self._turn % len(found)]
        self._turn += 1
        return recording, self._fill_past(recording) or anew

    def _fill_past(self, recording: Recording) -> bool:
        """Make inputs for the earlier calls that a recording rests on; return whether the session's were made anew."""
        missing = [past for past in recording.past if (id(recording), past.name) not in self._past]
        made_with = self.session.made_with
        for past in missing:
            self._past[id(recording), past.name] = self._made_for(past)
        if missing and self._state_before is None:
            self._state_before = self.memory.create("state-before", self.session.state.size)
            tensor_views.content(self._state_before).copy_(self.session.constructed_state)
        if missing:
            self.session.make_again(made_with)
        return bool(missing)

    def _made_for(self, past: Past) -> "Shared":
        """Return an arena with inputs of an earlier call's form.

        Raises:
            CandidateFailedError: a call rests on one whose inputs have a form that does not come again.
        """
        for _ in range(FORM_ATTEMPTS):
            self.session.make_inputs(self._rng.getrandbits(48), past.sizes)
            if self.session.inputs == past.form:
                arena = self.memory.create(f"inputs-{past.name}", past.form.size)
                self._copy_inputs(arena)
                return arena
        raise CandidateFailedError(
            "rejected", None, "forward uses memory of an earlier call on inputs of another form. Make it in each call."
        )

    @in_phase("correctness")
    @claims()
    def _record_early(self, learned: trials.Learned, rng: random.Random) -> None:
        """Record the problem's own form before the first trial: it compiles while the reference answers that one."""
        if learned.answered is None or not isinstance(self._recorder, DetachedRecorder):
            return
        self.session.make_inputs(rng.getrandbits(48))
        if self.session.inputs == learned.inputs:
            found, _ = self._record(learned.answered)
            self._recordings.append((self.session.inputs, found))
            for recording in found:
                self._launches.begin(recording.launches)

    def _record(self, answer: Answer) -> tuple[list[Recording], bool]:
        assert self._recorder is not None
        placed = self._room_for(answer)
        try:
            with claims_of_a_recording():
                return self._recorder.record(answer, placed), isinstance(self._recorder, OnDeviceRecorder)
        except NeedsDeviceError:
            self._load_in(self._on_device)
        with claims_of_a_recording():
            return self._recorder.record(answer, placed), True

    def _recorded_inputs(self, rng: random.Random) -> tuple[list[Recording], Answer]:
        """Make inputs of a form that is recorded; return its recordings and the reference's answer."""
        for _ in range(FORM_ATTEMPTS):
            self.session.make_inputs(rng.getrandbits(48))
            known = next((known for form, known in self._recordings if form == self.session.inputs), None)
            if known is not None:
                for recording in known:
                    self._fill_past(recording)
                return known, self.session.answer(rng.getrandbits(48))
        answer = self.session.answer(rng.getrandbits(48))
        recording, anew = self._recording(answer)
        self._launches.keep(recording.launches)
        self._launches.await_code(recording.launches)
        return [recording], self.session.answer(rng.getrandbits(48)) if anew else answer

    # Trials --------------------------------------------------------------------------------------------------------

    @in_phase("correctness")
    def _learned(self) -> trials.Learned:
        with self.machine.lease.shared():
            return trials.learn(self.session, hidden_shapes=self.config.hidden_shapes)

    @in_phase("correctness")
    def _trial(self, wanted: Trial, learned: trials.Learned, rng: random.Random) -> None:
        """Prepare one trial, and replay a recording of its form on it."""
        trial, answer = trials.prepare(self.session, learned, wanted, rng)
        if trial.reshaped:
            self._reshaped_trial(trial, answer, learned, rng)
        else:
            self._try(trial, answer, rng)
        self.memory.release_if_large()

    def _reshaped_trial(self, trial: Trial, answer: Answer, learned: trials.Learned, rng: random.Random) -> None:
        """Judge a replay on inputs of other shapes, which need not compile: they are none of the problem's own.

        What raises here, after the problem's own shapes went well, is right for these alone. Where Triton cannot form a
        block of such a shape, coarser ones are drawn.
        """
        with self._launches.uncounted():
            for attempt in range(RESHAPINGS):
                if not self._fails_to_form_blocks(trial, answer, rng, last=attempt + 1 == RESHAPINGS):
                    return
                trial, answer = trials.prepare(self.session, learned, replace(trial, coarse=True), rng)
                if not trial.reshaped:
                    return

    def _fails_to_form_blocks(self, trial: Trial, answer: Answer, rng: random.Random, *, last: bool) -> bool:
        try:
            self._try(trial, answer, rng)
        except CandidateFailedError as error:
            failure = error.failure
            if failure.status not in {"runtime_error", "compile_error"} or failure.category in _NO_MISTAKES:
                raise
            if not last and failure.category in _OF_TRITON and _RESTRICTION.search(failure.message):
                return True
            message = f"{failure.message[: MAX_TEXT // 2]}\n(this trial had {trial.remark})"
            raise CandidateFailedError("incorrect", failure.category, message) from error
        return False

    @claims()
    def _try(self, trial: Trial, answer: Answer, rng: random.Random) -> None:
        """Replay a recording on the session's inputs; CandidateFailedError if it does not pass."""
        recording, anew = self._recording(answer)
        if anew:
            answer = self.session.answer(rng.getrandbits(48))
        self._launches.keep(recording.launches)
        self._launches.await_code(recording.launches)
        placed, answers = self._play(recording, answer, garbage=True)
        self.evidence.trials += 1
        if self.evidence.trials == 1:
            self._usual = [usual(expected) for expected in answer.expected]
        wrong = self._judge(answer, placed, answers)
        if not answer.is_exact:
            self.evidence.flags.add("no_fp64")
        if self.evidence.trials == 1:
            self.evidence.passes_kernelbench = not wrong or self._passes_kernelbench(answer, placed, answers)
        if not wrong:
            return
        assert self._recorder is not None
        # The next call of an autotuned kernel takes another configuration anyway.
        if not recording.remark and self._recorder.depends_on_content(placed):
            raise self._depends_on_content(wrong)
        remark = f" (this trial had {trial.remark})" if trial.remark else ""
        said = f"{wrong}{remark}{recording.remark}. {self._lacks}".rstrip()
        raise CandidateFailedError("incorrect", None, said)

    def _depends_on_content(self, wrong: str) -> CandidateFailedError:
        self.evidence.flags.add("not_from_kernels")
        return CandidateFailedError(
            "rejected",
            None,
            f"The launches of forward, replayed on other inputs, give another output: {wrong}. What host code launches "
            "depends on the values of its inputs or parameters. What decides the output must be computed in kernels, "
            "from the inputs, parameters and buffers of each call: not in Python, and not through .item().",
        )

    @in_phase("correctness")
    def _run_without_kernels(self, recordings: list[Recording], answer: Answer) -> None:
        """Replay without the kernels, on new inputs: an output that is right even so does not come from them.

        It runs twice, on memory that holds one poison and then another: what is right under both was moved or filled
        there by the host.
        """
        for recording in recordings:
            if self._is_right_without_kernels(recording, answer):
                self.evidence.flags.add("decoy_kernel")
                raise CandidateFailedError(
                    "rejected",
                    None,
                    "The output is the same when the kernels do nothing: they compute no part of it. Compute the "
                    "output in the kernels that forward launches.",
                )

    def _is_right_without_kernels(self, recording: Recording, answer: Answer) -> bool:
        for poison in POISONS:
            placed, answers = self._play(recording, answer, poison=poison)
            if not self._is_right(answer, placed, answers):
                return False
        return True

    # Playing -------------------------------------------------------------------------------------------------------

    def _play(
        self, recording: Recording, answer: Answer, *, garbage: bool = False, poison: int | None = None
    ) -> "tuple[Placed, Shared]":
        """Let the player replay a recording on the session's inputs; return where the answer lies.

        Args:
            recording: of the form that the inputs have.
            answer: the reference's.
            garbage: whether fresh memory holds other garbage in each call.
            poison: the byte that fresh memory holds; no kernel is launched then.
        """
        placed, given = self._room_for(answer), self.session.inputs
        played, self._played = self._played, None
        again = played is not None and played.recording is recording and played.answers == placed
        if played is None or not again:
            held = played.buffers if played is not None else (None, None)
            inputs = room(self.memory, "replay-inputs", given.size, held[0])
            answers = room(self.memory, "replay-answers", placed.size, held[1], writable_by_peer=True)
            played = Played(recording, placed, (inputs, answers))
        inputs, answers = played.buffers
        self._copy_inputs(inputs)
        self._let_past_end_alike(recording, given)
        tensor_views.content(self._state).copy_(tensor_views.content(self.session.state_buffer))
        tensor_views.poison(answers, placed.slots)
        ghost = poison is not None
        fields: dict[str, Any] = {"again": again, "ghost": ghost, "garbage": garbage, "poison": poison or 0}
        fds: list[int] = []
        if not again:
            fields |= self._to_play(recording, placed, inputs.size, answers.size)
            past, arenas_of_past = self._to_play_before(recording)
            fields |= {"past": past}
            fds = [buffer.fileno() for buffer in (inputs, self._state, answers, *arenas_of_past)]
        self.conversation.ask(self._the_player(), Kind.REPLAY, fields, fds, Kind.DONE)
        self._played = played
        return placed, answers

    def _to_play(self, recording: Recording, placed: Placed, inputs_bytes: int, answers_bytes: int) -> dict[str, Any]:
        return {
            "source": self.source,
            "binaries": self._launches.code_of(recording.launches),
            "events": recording.events,
            "outputs": recording.outputs,
            "answer": placed.tree,
            "inputs_bytes": inputs_bytes,
            "inputs_slots": self.session.inputs.slots,
            "state_bytes": self._state.size,
            "state_slots": self.session.state.slots,
            "answers_bytes": answers_bytes,
        }

    def _to_play_before(self, recording: Recording) -> "tuple[list[Any], list[Shared]]":
        """Return name, size and slots of what earlier calls work on, and the arenas."""
        if not recording.past or self._state_before is None:
            return [], []
        state = self.session.state
        past = [[past.name, past.form.size, past.form.slots] for past in recording.past]
        buffers = [self._past[id(recording), past.name] for past in recording.past]
        return [*past, [STATE_BEFORE, state.size, state.slots]], [*buffers, self._state_before]

    def _copy_inputs(self, inputs: "Shared") -> None:
        """Copy the inputs, and leave NaN between and behind them, where only a load without a mask goes."""
        tensor_views.content(inputs).fill_(0xFF)
        for slot in self.session.inputs.slots:
            if slot.numel:
                tensor_views.raw(inputs, slot).copy_(tensor_views.raw(self.session.inputs_buffer, slot))

    def _let_past_end_alike(self, recording: Recording, given: Placed) -> None:
        """Let floating inputs of earlier calls begin and end as those of this one: what knows them by that is wrong."""
        for past in recording.past:
            if past.form != given:
                continue
            arena = self._past[id(recording), past.name]
            for slot in given.slots:
                if slot.dtype in FLOATING and slot.numel:
                    ends = max(1, slot.numel // 4) * (slot.nbytes // slot.numel)
                    before, now = tensor_views.raw(arena, slot), tensor_views.raw(self.session.inputs_buffer, slot)
                    before[:ends].copy_(now[:ends])
                    before[-ends:].copy_(now[-ends:])

    # Comparing -----------------------------------------------------------------------------------------------------

    def _room_for(self, answer: Answer) -> Placed:
        kept = {
            name: slot
            for name, slot in answer.buffers.items()
            if name in self._buffer_names and not self.session.counts_idly(name, slot)
        }
        return Placed.of({"output": answer.output, "buffers": kept}, self.config.max_tensor_bytes)

    def _judge(self, answer: Answer, placed: Placed, answers: "Shared") -> str:
        """Compare private copies of what was delivered with the expected answer; return what is wrong, or nothing."""
        reduction = self.session.reduction(answer)
        for name, got, expected in self._pairs(answer, placed, answers):
            comparison = compare(got, expected, reduction)
            self.evidence.note(comparison)
            if not comparison.ok:
                return f"{name}{comparison.message}{self._as_before(name, got, expected.value)}"
        return self._left_out(answer)

    def _as_before(self, place: str, got: torch.Tensor, expected: torch.Tensor) -> str:
        """Return what to tell of a buffer that holds what it held before forward, where the reference updates it."""
        buffers = codec.Fields(self.session.state.tree).slot_map("buffers")
        name = next((name for name in buffers if place == AFTER_FORWARD.format(name)), None)
        if name is None:
            return ""
        before = tensor_views.view(self.session.state_buffer, buffers[name])
        if tensor_views.equal(before, expected) or not tensor_views.equal(before, got):
            return ""
        usually = ", as normalisations do in training mode" if name.rpartition(".")[2].startswith("running_") else ""
        return f". Model's forward updates this buffer{usually}: update it in a kernel as well"

    def _passes_kernelbench(self, answer: Answer, placed: Placed, answers: "Shared") -> bool:
        return all(passes_kernelbench(got, expected) for _, got, expected in self._pairs(answer, placed, answers))

    def _is_right(self, answer: Answer, placed: Placed, answers: "Shared") -> bool:
        """Whether the expected answer was delivered, of which nothing is kept as evidence."""
        reduction = self.session.reduction(answer)
        pairs = self._pairs(answer, placed, answers)
        return all(agrees(got, expected, reduction) for _, got, expected in pairs) and not self._left_out(answer)

    def _left_out(self, answer: Answer) -> str:
        """Return which buffer the reference's forward updates and the candidate lacks beside others of its module."""
        modules = {name.rpartition(".")[0] for name in self._buffer_names}
        before = codec.Fields(self.session.state.tree).slot_map("buffers")
        after = answer.expected[len(answer.expected) - len(answer.buffers) :]
        for name, expected in zip(answer.buffers, after, strict=True):
            known = name in before and name not in self._buffer_names and name.rpartition(".")[0] in modules
            known = known and not self.session.counts_idly(name, before[name])
            if known and not tensor_views.equal(
                tensor_views.view(self.session.state_buffer, before[name]), expected.value
            ):
                return (
                    f"ModelNew lacks the buffer {name}, which Model's forward updates beside others of its module. "
                    "Register it under that name with register_buffer, and update it in a kernel"
                )
        return ""

    def _pairs(
        self, answer: Answer, placed: Placed, buffer: "Shared | tensor_views.Part | torch.Tensor"
    ) -> list[tuple[str, torch.Tensor, Any]]:
        """Return private copies of what was delivered beside what was expected, each with a name for messages."""
        tree = codec.Fields(placed.tree)
        form = tree.value("output")
        slots, places = list(codec.slots(form)), list(outputs.places(form))
        # Of an output that is one tensor there is nothing to name.
        names = [""] if isinstance(form, TensorSlot) else [f"{place}: " for place in places]
        all_expected = self._with_usual(answer.expected)
        pairs = [
            (name, self._copy(buffer, slot), expected)
            for name, slot, expected in zip(names, slots, all_expected, strict=False)
        ]
        after = dict(zip(answer.buffers, all_expected[len(slots) :], strict=True))
        kept = tree.slot_map("buffers")
        return pairs + [(AFTER_FORWARD.format(name), self._copy(buffer, kept[name]), after[name]) for name in kept]

    def _with_usual(self, all_expected: list[Expected]) -> list[Expected]:
        """Return what is expected with what was usual there in the first trial, whose inputs are plain.

        Of other shapes it is the least that was usual anywhere.
        """
        known = self._usual if len(self._usual) == len(all_expected) else [None] * len(all_expected)
        return [
            expected
            if scale is None
            else replace(expected, usual=scale if _is_over(scale, expected.value) else scale.amin())
            for expected, scale in zip(all_expected, known, strict=True)
        ]

    @staticmethod
    def _copy(buffer: "Shared | tensor_views.Part | torch.Tensor", slot: TensorSlot) -> torch.Tensor:
        return tensor_views.view(buffer, slot).clone()

    # Timing --------------------------------------------------------------------------------------------------------

    @in_phase("timing")
    @claims()
    def _time(self, memory: DeviceMemory, recording: Recording, answer: Answer, rng: random.Random) -> None:
        """Time a replay against the reference, and compare what the timed calls left behind."""
        with self.machine.lease.shared():
            self._play(recording, answer)
        placed, reduction = self._room_for(answer), self.session.reduction(answer)
        player = self._the_player()

        def compared(answer: Answer, placed: Placed, buffer: "tensor_views.Part | torch.Tensor") -> str:
            found = ((name, compare(got, one, reduction)) for name, got, one in self._pairs(answer, placed, buffer))
            return next((f"{name}{comparison.message}" for name, comparison in found if not comparison.ok), "")

        def ask(fields: dict[str, Any]) -> codec.Fields:
            return self.conversation.ask(player, Kind.ROUND, fields, [], Kind.ROUNDED).fields

        with self.machine.lease.shared():
            ring = benchmark.make_ring(self.session, memory, placed, rng)
        sizes = {"sets": len(ring.inputs), "inputs_bytes": ring.inputs[0].size, "answers_bytes": placed.size}
        self.session.ring(len(ring.inputs), ring.fds[:1])
        try:
            with self.machine.lease.shared(), self.machine.clock.phase("mapping"):
                self.conversation.ask(player, Kind.RING, sizes, ring.fds, Kind.RINGED)
            self._played = None
            witness = benchmark.Witness(self.session, ring, compared, rng)
            least_ms = self.machine.bandwidth().least_ms
            outcome = benchmark.conduct(witness, ask, self.config.timed_trials, self.machine.lease, least_ms=least_ms)
        finally:
            self.session.ring(0, [])
        self._accept(outcome, sum(slot.nbytes for slot in placed.slots))

    def _accept(self, outcome: benchmark.Outcome, written: int) -> None:
        """Keep a timing, unless the timed calls did not do what the trials did."""
        self.evidence.timing = outcome.timing
        if outcome.wrong:
            self.evidence.flags.add("wrong_when_timed")
            raise CandidateFailedError(
                "rejected",
                None,
                f"The timed calls give another output than the trials: {outcome.wrong}. Compute the whole output in "
                "every call, from the inputs of that call.",
            )
        floor = self.machine.bandwidth().floor_ms(written)
        if outcome.timing.runtime_ms < benchmark.BELOW_FLOOR * floor:
            self.evidence.flags.add("impossible_time")
            raise CandidateFailedError(
                "rejected",
                None,
                f"The kernels take {outcome.timing.runtime_ms:.4f} ms; writing the output alone takes {floor:.4f} ms. "
                "Write every element of the output in every call.",
            )
        if outcome.timing.disagrees:
            self.evidence.flags.add("clocks_disagree")


def _is_over(scale: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a scale belongs to tensors of the shape that a value has."""
    own = list(value.shape) + [2] * value.is_complex()
    return scale.dim() == len(own) and all(side in (1, size) for side, size in zip(scale.shape, own, strict=True))


def steady(recordings: list[Recording]) -> Recording:
    """Return the recording that is timed: of the last call that rests on no earlier one.

    The first call of an autotuned kernel runs it more often than later ones do.
    """
    return [recording for recording in recordings if not recording.past][-1]


_OF_TRITON: Final = frozenset({"triton_jit_error", "triton_compilation_error"})
"""What Triton refuses, interpreted or compiled."""
_RESTRICTION: Final = re.compile(
    r"^.{0,60}(must be (a power of (2|two)|16-byte aligned)|shapes should have M >= \d+, N >= \d+)", re.MULTILINE
)
"""What Triton says of a block or a descriptor that it cannot form."""
_NO_MISTAKES: Final = frozenset({"process_error", "segmentation_fault", "memory_fault"})
