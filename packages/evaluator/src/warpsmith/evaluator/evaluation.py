"""One evaluation, as the judge conducts it: reference and candidate in separate workers, trial by trial."""

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch

from warpsmith.evaluator import _native, arenas, blame, operators, timed, trials, wire
from warpsmith.evaluator.blame import MAX_TEXT, CandidateFailedError, Failure, SuspectError
from warpsmith.evaluator.compare import agrees, compare, form_mismatch
from warpsmith.evaluator.compilation import CompileRun, LaunchByLaunch
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, LayoutError, WireError
from warpsmith.evaluator.evidence import Evidence, TransientError, claims, told_seeds
from warpsmith.evaluator.layout import TensorSlot
from warpsmith.evaluator.memory import DeviceMemory, room
from warpsmith.evaluator.operators import COUNTER
from warpsmith.evaluator.phases import in_phase
from warpsmith.evaluator.pool import Machine, Worker, WorkerDiedError, WorkerTimeoutError
from warpsmith.evaluator.protocol import Kind, Message
from warpsmith.evaluator.reference import Answer, Placed, ReferenceFailedError, ReferenceSession, memory_ran_out
from warpsmith.evaluator.signature import launches_of
from warpsmith.evaluator.trials import Trial
from warpsmith.evaluator.verdict import HostCode

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import Shared

MAX_LAUNCHES: Final = 256
MAX_LAUNCH_BYTES: Final = 128 << 10
FORM_ATTEMPTS: Final = 8
MAX_TUNED: Final = 300
TIMED: Final = (
    "; it ran once beforehand too, as to be timed: what updates its output needs reset_to_zero or restore_value"
)


@dataclass(frozen=True)
class Played:
    """What a worker was given to replay: the trace, the form of its inputs, and the room for its answer."""

    worker: Worker
    trace: wire.Fields
    inputs: Placed
    answers: Placed
    buffers: "tuple[Shared, Shared]"

    def is_of(self, worker: Worker, trace: wire.Fields, inputs: Placed, answers: Placed) -> bool:
        """Whether this was the same trace, in the same worker, on inputs and for an answer of the same form."""
        same = self.worker is worker and self.trace is trace
        return same and (self.inputs, self.answers) == (inputs, answers)


def _tuning_remark(done: wire.Fields) -> str:
    """Return what a writer should know about the configurations that ran; nothing where no kernel is autotuned."""
    tuned = done.text("tuned", MAX_TUNED)
    timed = TIMED if done.flag("timed") else ""
    return f" (triton.autotune took {tuned}; on a GPU any configuration may be the fastest{timed})" if tuned else ""


class CandidateRun:
    """One candidate against one reference session."""

    host_code: ClassVar[HostCode] = "beside"

    def __init__(
        self, session: ReferenceSession, machine: Machine, worker: Worker, source: str, config: EvaluatorConfig
    ) -> None:
        self.session = session
        self.machine = machine
        self.memory = machine.memory
        self.worker = worker
        self.source = source
        self.config = config
        self.seconds_left = config.timeout_s
        self.deadline = 0.0
        self.trace = wire.Fields({})
        self.traced_inputs: Placed | None = None
        self.evidence = Evidence(tier=worker.tier, host_code=self.host_code)
        self.launches: dict[bytes, dict[str, Any]] = {}
        self.compiles = True
        self.compiling: CompileRun | LaunchByLaunch | None = None
        self.reports = 0
        self.loaded = False
        self.state = self.memory.create("candidate-state", session.state.size)
        self.inputs: tuple[Placed, Shared] | None = None
        self.answers: tuple[Placed, Shared] | None = None
        self.buffer_names: set[str] = set()
        self.told_seeds: Iterator[int] = iter(())
        self.spare: Worker | None = None
        self.played: Played | None = None

    def conduct(self, count: int, rng: random.Random, compiling: CompileRun | LaunchByLaunch) -> Evidence:
        """Load the candidate, run `count` trials and the ghost replay; compile meanwhile.

        Raises:
            TransientError: with the evidence, for a failure that others on this machine may have caused.
        """
        suspect: SuspectError | None = None
        self.compiling = compiling
        self.told_seeds = told_seeds(rng.getrandbits(256))
        try:
            with self._with_spare_worker():
                self._judge_all(count, rng, compiling)
        except CandidateFailedError as failed:
            self.evidence.failure = failed.failure
        except SuspectError as failed:
            self.evidence.failure, suspect = failed.failure, failed
        except (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError) as failed:
            suspect = self._memory_ran_out(failed)
            self.evidence.failure = suspect.failure
        if self.launches:
            compiling.settle(list(self.launches.values()))
            self.evidence.compilation = compiling.result()
        if suspect is not None:
            raise TransientError(self.evidence, killed=suspect.killed)
        return self.evidence

    @contextmanager
    def _with_spare_worker(self) -> Iterator[None]:
        """On a device, hold the replay's worker ready from now on.

        The pool makes another in its place, and no timing can have that beside it: so it is made during the trials.
        """
        if isinstance(self.memory, DeviceMemory):
            self.spare = self.machine.take("candidate", self.config.start_timeout_s)
        try:
            yield
        finally:
            if self.spare is not None:
                self.machine.pools["candidate"].give_back(self.spare)

    def _judge_all(self, count: int, rng: random.Random, compiling: CompileRun | LaunchByLaunch) -> None:
        self._load()
        self._run_trials(count, rng, compiling)
        self._replay_without_kernels(rng)
        if isinstance(self.memory, DeviceMemory):
            # What it left running would be beside what is timed, the reference above all.
            self.worker.end()
        if compiling.result().ok:
            self._replay_without_host_code(rng)

    def _run_trials(self, count: int, rng: random.Random, compiling: CompileRun | LaunchByLaunch) -> None:
        previous: torch.Tensor | None = None
        learned = self._learned()
        planned = trials.plan(count, rng, learned)
        last = max(number for number, trial in enumerate(planned) if not trial.reshaped)
        for number, wanted in enumerate(planned):
            with self.machine.lease.shared():
                previous = self._one_trial(wanted, learned, previous, rng, traced=number == last)
            compiling.start(list(self.launches.values()))
        compiling.settle(list(self.launches.values()))

    def _memory_ran_out(self, error: Exception) -> SuspectError:
        """Suspect the candidate of what the judge or the reference could not have of the device's memory.

        Raises:
            Exception: `error`, where it is about something else, or the candidate had nothing yet.
        """
        if not (self.loaded and memory_ran_out(error)):
            raise error
        message = f"The device's memory ran out while the candidate held some of it: {error}"
        return SuspectError(Failure("runtime_error", "out_of_memory", message[:MAX_TEXT]))

    @in_phase("correctness")
    def _learned(self) -> trials.Learned:
        with self.machine.lease.shared():
            return trials.learn(self.session, hidden_shapes=self.config.hidden_shapes)

    @in_phase("correctness")
    def _one_trial(
        self, wanted: Trial, learned: trials.Learned, previous: torch.Tensor | None, rng: random.Random, *, traced: bool
    ) -> torch.Tensor | None:
        """Prepare and run one trial; return what its inputs were, as the next one needs it."""
        trial, answer = trials.prepare(self.session, learned, wanted, previous, rng)
        if trial.reshaped:
            if self._try_other_shapes(trial, answer):
                return previous
            as_sampled = replace(wanted, reshaped=False)
            trial, answer = trials.prepare(self.session, learned, as_sampled, previous, rng)
        previous = arenas.content(self.session.inputs_buffer).clone()
        self._try(trial, answer, traced=traced)
        self.memory.release_if_large()
        return previous

    @in_phase("correctness")
    @claims()
    def _load(self) -> None:
        arenas.content(self.state).copy_(arenas.content(self.session.state_buffer))
        with self.machine.lease.shared():
            loaded = self._ask(Kind.LOAD, self.to_load(), [self.state.fileno()], Kind.LOADED).fields
        self.loaded = True
        if loaded.texts("unmatched"):
            self.evidence.flags.add("unmatched_parameters")
        self.note_buffers(loaded)

    def to_load(self) -> dict[str, Any]:
        """Return the fields of LOAD."""
        session, tree = self.session, wire.Fields(self.session.state.tree)
        return {
            "source": self.source,
            "seed": session.init_seed,
            "bytes": session.state.size,
            "init": tree.value("init"),
            "parameters": tree.slot_map("parameters"),
            "buffers": tree.slot_map("buffers"),
            "extra_operators": list(self.config.extra_operators),
        }

    def note_buffers(self, loaded: wire.Fields) -> None:
        """Keep which of the problem's buffers the candidate has."""
        self.buffer_names = set(loaded.texts("buffers"))
        if wire.Fields(self.session.state.tree).slot_map("buffers").keys() - self.buffer_names:
            self.evidence.flags.add("missing_buffers")

    @claims()
    def _try(self, trial: Trial, answer: Answer, *, traced: bool) -> None:
        """Run one trial and raise CandidateFailedError if the candidate does not pass it."""
        done = self._call(trial, answer, traced=traced)
        self.evidence.trials += 1
        self._check_rules(done)
        if traced:
            self._take_trace(wire.Fields(done.mapping("trace")))
        mismatch = form_mismatch(done.value("output"), answer.output)
        wrong = f"{mismatch[0].upper()}{mismatch[1:]}" if mismatch else self._judge(answer)
        if wrong:
            remark = f" (this trial had {trial.remark})" if trial.remark else ""
            remark += _tuning_remark(done)
            raise CandidateFailedError("incorrect", None, f"{wrong}{remark}.")

    def _try_other_shapes(self, trial: Trial, answer: Answer) -> bool:
        """Run a trial of other shapes: what raises there, after the sample's shapes went well, is right only for these.

        What it launches need not be compiled: it is no launch of the problem's own shapes.

        Returns:
            Whether the trial counts; not if Triton cannot form a block of such a shape, which the sample did not ask.
        """
        self.compiles = False
        try:
            self._try(trial, answer, traced=False)
        except CandidateFailedError as error:
            failure = error.failure
            if failure.status != "runtime_error" or failure.category in _NO_MISTAKES:
                raise
            if failure.category in _OF_TRITON and _RESTRICTION.search(failure.message):
                self.evidence.flags.add("sample_shapes_only")
                return False
            message = f"{failure.message[: MAX_TEXT // 2]}\n(this trial had {trial.remark})"
            raise CandidateFailedError("incorrect", failure.category, message) from error
        finally:
            self.compiles = True
        return True

    def _check_rules(self, done: wire.Fields) -> None:
        refused = done.mapping("refused")
        if refused:
            self.evidence.flags.add("torch_fallback")
            raise CandidateFailedError(
                "rejected",
                None,
                f"forward computes with torch instead of Triton: {', '.join(sorted(refused)[:8])}. {operators.ADVICE}",
            )
        if done.integer("launches") < 1 or not self.launches:
            raise self._no_kernel()
        if done.flag("returns_input"):
            self.evidence.flags.add("returns_input")
        if done.flag("host_memory"):
            self.evidence.flags.add("host_memory")

    def _no_kernel(self) -> CandidateFailedError:
        self.evidence.flags.add("no_kernel")
        return CandidateFailedError("rejected", None, "forward launched no Triton kernel.")

    def _take_trace(self, trace: wire.Fields) -> None:
        """Keep a trace with the form of its inputs. What it launches is compiled, whatever else was reported."""
        self.trace, self.traced_inputs = trace, self.session.inputs
        try:
            launches = launches_of(trace.sequence("events"))
            for launch in launches:
                self._keep_launch(launch)
        except WireError as error:
            raise CandidateFailedError(
                "runtime_error", "process_error", f"The candidate's process sent what is no trace: {error}"
            ) from error
        if not launches:
            raise self._no_kernel()

    def _call(self, trial: Trial, answer: Answer, *, ghost: bool = False, traced: bool = False) -> wire.Fields:
        """Hand inputs and a poisoned output buffer over, and return the fields of DONE."""
        inputs, fresh_inputs = self._input_arena(trial.new_memory)
        answers, fresh_answers = self._answer_arena(answer)
        arenas.content(self.state).copy_(arenas.content(self.session.state_buffer))
        arenas.content(inputs).copy_(arenas.content(self.session.inputs_buffer))
        assert self.inputs is not None and self.answers is not None
        arenas.poison(answers, self.answers[0].slots)
        fields = {
            "inputs": self.inputs[0].tree,
            "inputs_bytes": self.inputs[0].size,
            "answer": self.answers[0].tree,
            "answers_bytes": self.answers[0].size,
            "fresh": ["inputs"] * fresh_inputs + ["answers"] * fresh_answers,
            "seed": next(self.told_seeds),
            "ghost": ghost,
            "trace": traced,
        }
        fds = [inputs.fileno()] * fresh_inputs + [answers.fileno()] * fresh_answers
        return self._ask(Kind.CALL, fields, fds, Kind.DONE).fields

    def _input_arena(self, new_memory: bool) -> "tuple[Shared, bool]":
        placed = self.session.inputs
        fresh = self.inputs is None or self.inputs[0] != placed or new_memory
        if self.inputs is None or fresh:
            self.inputs = (placed, self.memory.create("candidate-inputs", placed.size))
        return self.inputs[1], fresh

    def _answer_arena(self, answer: Answer) -> "tuple[Shared, bool]":
        placed = self._room_for(answer)
        fresh = self.answers is None or self.answers[0] != placed
        if self.answers is None or fresh:
            buffer = self.memory.create("candidate-answers", placed.size, writable_by_peer=True)
            self.answers = (placed, buffer)
        return self.answers[1], fresh

    def _room_for(self, answer: Answer) -> Placed:
        kept = {
            name: slot
            for name, slot in answer.buffers.items()
            if name in self.buffer_names and not self._is_idle_counter(name, slot)
        }
        return Placed.of({"output": answer.output, "buffers": kept}, self.config.max_tensor_bytes)

    def _is_idle_counter(self, name: str, slot: TensorSlot) -> bool:
        """Whether a buffer counts the calls of a normalisation, on which no output and no other buffer hangs.

        It does where the statistics are plain means of all calls, and where the problem's own source names it.
        """
        counts = name.rpartition(".")[2] == COUNTER and slot.dtype == "int64" and not slot.shape
        return counts and not _COUNTER_IN_USE.search(self.session.source)

    def _judge(self, answer: Answer) -> str:
        """Compare private copies of the output buffer with the expected answer; return what is wrong, or nothing."""
        reduction = self.session.reduction(answer)
        assert self.answers is not None
        for name, got, expected in self._pairs(answer, *self.answers):
            comparison = compare(got, expected, reduction)
            self.evidence.note(comparison)
            if not comparison.ok:
                return f"{name}{comparison.message}"
        return self._left_out(answer)

    def _is_right(self, answer: Answer) -> bool:
        """Whether the output buffer holds the expected answer, of which nothing is kept as evidence."""
        reduction = self.session.reduction(answer)
        assert self.answers is not None
        pairs = self._pairs(answer, *self.answers)
        return all(agrees(got, expected, reduction) for _, got, expected in pairs) and not self._left_out(answer)

    def _left_out(self, answer: Answer) -> str:
        """Return which buffer the reference's forward updates and the candidate lacks beside others of its module."""
        modules = {name.rpartition(".")[0] for name in self.buffer_names}
        before = wire.Fields(self.session.state.tree).slot_map("buffers")
        after = answer.expected[len(answer.expected) - len(answer.buffers) :]
        for name, expected in zip(answer.buffers, after, strict=True):
            known = name in before and name not in self.buffer_names and name.rpartition(".")[0] in modules
            known = known and not self._is_idle_counter(name, before[name])
            if known and not torch.equal(arenas.view(self.session.state_buffer, before[name]), expected.value):
                return f"Buffer {name} is missing, which forward of the reference updates beside others of its module"
        return ""

    def _pairs(
        self, answer: Answer, placed: Placed, buffer: "Shared | arenas.Part | torch.Tensor"
    ) -> list[tuple[str, torch.Tensor, Any]]:
        """Return private copies of what was delivered beside what was expected, each with a name for messages."""
        tree = wire.Fields(placed.tree)
        outputs = list(wire.slots(tree.value("output")))
        many = len(outputs) > 1
        pairs = [
            (f"Output {number}: " if many else "", self._copy(buffer, slot), expected)
            for number, (slot, expected) in enumerate(zip(outputs, answer.expected, strict=False))
        ]
        after = dict(zip(answer.buffers, answer.expected[len(outputs) :], strict=True))
        kept = tree.slot_map("buffers")
        return pairs + [
            (f"Buffer {name} after forward: ", self._copy(buffer, kept[name]), after[name]) for name in kept
        ]

    @staticmethod
    def _copy(buffer: "Shared | arenas.Part | torch.Tensor", slot: TensorSlot) -> torch.Tensor:
        return arenas.view(buffer, slot).clone()

    @in_phase("correctness")
    def _replay_without_kernels(self, rng: random.Random) -> None:
        """Run once more with every kernel a no-op: an output that is right even so does not come from the kernels.

        The inputs are new, since memory that a candidate keeps from call to call may hold the last answer.
        """
        with self.machine.lease.shared():
            self._make_ghost_inputs(rng)
            right = self._ghost_is_right(self.session.answer(rng.getrandbits(48)))
        if right:
            self.evidence.flags.add("decoy_kernel")
            raise CandidateFailedError(
                "rejected",
                None,
                "The output is the same when the kernels do nothing: they compute no part of it.",
            )

    def _make_ghost_inputs(self, rng: random.Random) -> None:
        self.session.make_inputs(rng.getrandbits(48))

    def _ghost_is_right(self, answer: Answer) -> bool:
        try:
            done = self._call(Trial(), answer, ghost=True)
            return not form_mismatch(done.value("output"), answer.output) and self._is_right(answer)
        except (CandidateFailedError, WireError):
            return False

    @in_phase("correctness")
    def _replay_without_host_code(self, rng: random.Random) -> None:
        """Replay the last trial's trace on what the candidate never saw, where none of its host code runs.

        Inputs are new, those that no seed changes included, and so are parameters and buffers.

        Raises:
            BadProblemError: the problem gives its inputs another form each time, and no policy lets that pass.
        """
        if not self._inputs_like_the_traced(rng):
            return
        learned = self._learned()
        with self.machine.lease.shared():
            answer = trials.prepare_unseen(self.session, learned, rng)
        worker = self._fresh_worker()
        try:
            with self.machine.lease.shared():
                wrong = self._replayed(worker, answer)
            if not wrong and isinstance(self.memory, DeviceMemory) and self.config.timing:
                self._time(worker, answer, self.memory, rng)
        except CandidateFailedError as error:
            # Only what the replay itself could not perform speaks against the trace; slowness and the like do not, nor
            # do the kernels' own faults, some of which only a replay sees.
            if error.failure.status != "runtime_error" or error.failure.category in _NO_FAULT_OF_A_TRACE:
                raise
            wrong = error.failure.message
        finally:
            worker.close()
        if wrong:
            self.evidence.flags.add("not_from_kernels")
            message = (
                f"The launches of forward alone, replayed on other inputs, give another output: {wrong}. "
                "What decides the output must be computed in kernels, from the inputs, parameters and buffers of each "
                "call: not in Python, and not through .item()."
            )
            raise CandidateFailedError("rejected", None, message)
        self.evidence.replayed = True

    def _fresh_worker(self) -> Worker:
        worker, self.spare = self.spare, None
        return worker or self.machine.take("candidate", self.config.start_timeout_s)

    def _inputs_like_the_traced(self, rng: random.Random) -> bool:
        """Make new inputs of the form that the traced ones had; False where that fails and the policy bears it."""
        for _ in range(FORM_ATTEMPTS):
            self.session.make_inputs(rng.getrandbits(48))
            if self.session.inputs == self.traced_inputs:
                return True
        if not self.config.allow_unreplayed:
            raise BadProblemError(
                "get_inputs() gives other shapes or dtypes at each call, so that no launch can be replayed on inputs "
                "that the candidate never saw.",
                "Fix the shapes of the problem's inputs, or set allow_unreplayed to have such verdicts flagged "
                "`not_replayed`.",
            )
        self.evidence.flags.add("not_replayed")
        return False

    @in_phase("timing")
    @claims()
    def _time(self, worker: Worker, answer: Answer, memory: DeviceMemory, rng: random.Random) -> None:
        """Time the replay against the reference, and compare what the timed calls left behind."""
        placed, reduction = self._room_for(answer), self.session.reduction(answer)

        def compared(answer: Answer, placed: Placed, buffer: "arenas.Part | torch.Tensor") -> str:
            found = ((name, compare(got, one, reduction)) for name, got, one in self._pairs(answer, placed, buffer))
            return next((f"{name}{comparison.message}" for name, comparison in found if not comparison.ok), "")

        def ask(fields: dict[str, Any]) -> wire.Fields:
            return self._ask(Kind.ROUND, fields, [], Kind.ROUNDED, worker).fields

        with self.machine.lease.shared():
            ring = timed.make_ring(self.session, memory, placed, rng)
        sizes = {"sets": len(ring.inputs), "inputs_bytes": ring.inputs[0].size, "answers_bytes": placed.size}
        self.session.ring(len(ring.inputs), ring.fds[:1])
        try:
            with self.machine.lease.shared():
                self._ask(Kind.RING, sizes, ring.fds, Kind.RINGED, worker)
            witness = timed.Witness(self.session, ring, compared, rng)
            outcome = timed.conduct(witness, ask, self.config.timed_trials, self.machine.lease)
        finally:
            self.session.ring(0, [])
        self._accept(outcome, sum(slot.nbytes for slot in placed.slots))

    def _accept(self, outcome: timed.Outcome, written: int) -> None:
        """Keep a timing, unless the timed calls did not do what the trials did."""
        self.evidence.timing = outcome.timing
        if outcome.wrong:
            self.evidence.flags.add("wrong_when_timed")
            raise CandidateFailedError(
                "rejected", None, f"The timed calls give another output than the trials: {outcome.wrong}."
            )
        floor = self.machine.bandwidth().floor_ms(written)
        if outcome.timing.runtime_ms < timed.BELOW_FLOOR * floor:
            self.evidence.flags.add("impossible_time")
            raise CandidateFailedError(
                "rejected",
                None,
                f"The kernels take {outcome.timing.runtime_ms:.4f} ms; writing the output alone takes {floor:.4f} ms.",
            )
        if outcome.timing.disagrees:
            self.evidence.flags.add("clocks_disagree")

    def _play(
        self, worker: Worker, answer: Answer, *, ghost: bool = False, garbage: bool = False
    ) -> "tuple[Placed, Shared]":
        """Let a worker replay the trace on the session's inputs; return where the answer lies.

        A worker that holds the same trace already plays it again, on what its inputs hold by then. A ghost launches
        nothing. With `garbage`, fresh memory holds other garbage in each call.
        """
        placed, given = self._room_for(answer), self.session.inputs
        played, self.played = self.played, None
        again = played is not None and played.is_of(worker, self.trace, given, placed)
        if played is None or not again:
            held = played.buffers if played is not None and played.worker is worker else (None, None)
            inputs = room(self.memory, "replay-inputs", given.size, held[0])
            answers = room(self.memory, "replay-answers", placed.size, held[1], writable_by_peer=True)
            played = Played(worker, self.trace, given, placed, (inputs, answers))
        inputs, answers = played.buffers
        self._copy_inputs(inputs)
        arenas.content(self.state).copy_(arenas.content(self.session.state_buffer))
        arenas.poison(answers, placed.slots)
        on_device = isinstance(self.memory, DeviceMemory)
        fields: dict[str, Any] = {"again": again and on_device, "ghost": ghost, "garbage": garbage}
        fds: list[int] = []
        if not fields["again"]:
            fields |= {
                "source": self.source,
                "binaries": self._binaries(),
                "events": self.trace.sequence("events"),
                "outputs": self.trace.sequence("outputs"),
                "answer": placed.tree,
                "inputs_bytes": inputs.size,
                "inputs_slots": given.slots,
                "state_bytes": self.state.size,
                "state_slots": self.session.state.slots,
                "answers_bytes": answers.size,
            }
            fds = [buffer.fileno() for buffer in (inputs, self.state, answers)]
        self._ask(Kind.REPLAY, fields, fds, Kind.DONE, worker)
        self.played = played
        return placed, answers

    @claims()
    def _replayed(self, worker: Worker, answer: Answer) -> str:
        """Return what is wrong with the output of the replay, or nothing."""
        placed, answers = self._play(worker, answer)
        reduction = self.session.reduction(answer)
        pairs = self._pairs(answer, placed, answers)
        found = ((name, compare(got, expected, reduction)) for name, got, expected in pairs)
        return next((f"{name}{comparison.message}" for name, comparison in found if not comparison.ok), "")

    def _copy_inputs(self, inputs: "Shared") -> None:
        """Copy the inputs, and leave NaN between and behind them, where only a load without a mask goes."""
        arenas.content(inputs).fill_(0xFF)
        for slot in self.session.inputs.slots:
            if slot.numel:
                arenas.raw(inputs, slot).copy_(arenas.raw(self.session.inputs_buffer, slot))

    def _binaries(self) -> list[dict[str, Any]]:
        """Return the code of each launch in the trace, on a device; it was compiled by no process of the candidate."""
        if not isinstance(self.compiling, LaunchByLaunch):
            return []
        launches = launches_of(self.trace.sequence("events"))
        return [self.compiling.of(launch, counted=self.compiles).binaries[0] for launch in launches]

    def _answer_launch(self, fields: wire.Fields, worker: Worker) -> None:
        """On a device, compile what the candidate is about to launch, and hand it the code; not on its time."""
        if not isinstance(self.compiling, LaunchByLaunch):
            return
        began = time.monotonic()
        found = self.compiling.of(_launch(fields), counted=self.compiles)
        self.deadline += time.monotonic() - began
        told = {"ok": found.ok, "message": found.message, "category": found.category}
        binary = found.binaries[0] if found.ok else {}
        worker.send(Kind.KERNEL, told | {"binary": binary}, [], self._left())

    def _ask(
        self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind, worker: Worker | None = None
    ) -> Message:
        """Send one step and return its answer, keeping the launches reported on the way.

        Whatever else the worker says or does is the candidate's failure, since its process belongs to it.
        """
        worker = worker or self.worker
        self.memory.settle()
        self.machine.lease.give_way()
        self.deadline = time.monotonic() + self.seconds_left
        try:
            worker.send(kind, fields, fds, self._left())
            while True:
                message = worker.receive(self._left())
                if message.kind is Kind.LAUNCH:
                    self._keep(message)
                    self._answer_launch(message.fields, worker)
                elif message.kind is Kind.FAILED:
                    raise blame.reported(message.fields, worker, self.config, self.evidence.flags)
                elif message.kind is answer:
                    return message
                else:
                    raise WireError(f"{message.kind.name} was sent; {answer.name} was expected.")
        except WorkerDiedError as error:
            raise blame.death(error, worker) from error
        except WorkerTimeoutError as error:
            raise blame.overrun(error, self.config.timeout_s) from error
        except (WireError, LayoutError, _native.NativeError) as error:
            raise CandidateFailedError(
                "runtime_error", "process_error", f"The candidate's process sent what is no answer: {error}"
            ) from error
        finally:
            # The reference's time and the judge's own are not the candidate's.
            self.seconds_left = self._left()

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _keep(self, message: Message) -> None:
        """Keep a reported launch. An honest worker reports each signature once, so that repeats count as well."""
        self.reports += 1
        self._keep_launch(_launch(message.fields))

    def _keep_launch(self, launch: dict[str, Any]) -> None:
        # As deep as the compile worker gets it: what cannot be handed on is refused here, as its sender's fault.
        key = wire.encode([[launch]])
        if key in self.launches and self.reports <= MAX_LAUNCHES:
            return
        too_many = max(self.reports, len(self.launches) + 1) > MAX_LAUNCHES
        if len(key) + sum(map(len, self.launches)) > MAX_LAUNCH_BYTES or too_many:
            raise WireError(f"a launch of {len(key)} bytes after {self.reports - 1} others is more than anybody needs")
        if self.compiles:
            self.launches[key] = launch


def _launch(fields: wire.Fields) -> dict[str, Any]:
    return {
        "kernel": fields.text("kernel", 200),
        "arguments": fields.mapping("arguments"),
        "options": fields.mapping("options"),
    }


_COUNTER_IN_USE: Final = re.compile(rf"{COUNTER}|momentum\s*=\s*None")
_OF_TRITON: Final = frozenset({"triton_jit_error", "triton_compilation_error"})
"""What Triton refuses, interpreted or compiled."""
_RESTRICTION: Final = re.compile(
    r"^.{0,60}(must be (a power of (2|two)|16-byte aligned)|shapes should have M >= \d+, N >= \d+)", re.MULTILINE
)
_NO_FAULT_OF_A_TRACE: Final = frozenset({"timeout", "out_of_memory", "illegal_memory_access"})
_NO_MISTAKES: Final = frozenset({"process_error", "segmentation_fault", "memory_fault"})
