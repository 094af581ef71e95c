"""The recordings of one candidate: each form of inputs is recorded on first use, detached if possible."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Self

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.acts import Finding
from warpsmith.evaluator.judge.host_execution.base import HostExecution, NeedsDeviceError
from warpsmith.evaluator.judge.host_execution.on_device import FORM_ATTEMPTS
from warpsmith.evaluator.judge.host_execution.recording_limits import claims_of_a_recording
from warpsmith.evaluator.judge.host_execution.registry import FALLBACK, HOST_EXECUTIONS
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.past_calls import PastCalls
from warpsmith.evaluator.judge.problem_facts import bytes_of
from warpsmith.evaluator.processes.failure_attribution import MAX_TEXT, CandidateFailedError, Failure, SuspectError
from warpsmith.evaluator.recordings import module_state
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, MadeWith, ReferenceSession

MOST_LEFT_OUT: Final = 16
"""Skipped recordings per form: as many as the configurations drawn for a kernel."""
MOST_SMALLER: Final = 2
"""Forms recorded in another order before the problem's own; plus one of the same shapes."""
STARTING_S: Final = 5.0
"""Time for calls that check others, besides as much as all earlier calls and replays took."""
_QUOTED: Final = MAX_TEXT // 5
"""Maximum characters of each of two messages: a trial's remark follows, after half of MAX_TEXT."""


@dataclass(frozen=True)
class LoadedModule:
    """What is known about the module that host code constructed.

    Attributes:
        lacks: a sentence on the problem's parameters that it lacks; empty if none.
        buffer_names: those of the problem's buffers that it has.
    """

    lacks: str = ""
    buffer_names: frozenset[str] = field(default_factory=frozenset)


@dataclass
class RecordedForm:
    """A form of inputs that host code was recorded on.

    Attributes:
        form: shapes, dtypes, strides and plain arguments.
        made_with: the arguments that made such inputs.
        answer: the form of the reference's answer to them, without values.
        recordings: of host code on this form.
        passed: whether a replay was right on such inputs.
        turns: how often `in_turn` was called.
    """

    form: Form
    made_with: MadeWith
    answer: Answer
    recordings: list[Recording]
    passed: bool = False
    turns: int = 0

    @classmethod
    def of(cls, session: ReferenceSession, answer: Answer, recordings: list[Recording]) -> Self:
        """Return the form of the session's inputs."""
        made_with = replace(session.made_with, draws=session.made_with.draws.with_tensors_as_made())
        return cls(session.inputs, made_with, replace(answer, expected=[]), recordings)

    def in_turn(self) -> list[Recording]:
        """Return the recordings, beginning with another one each time.

        Only the first is sure to be replayed, and trials of other forms in between must not decide which one that is.
        """
        first = self.turns % len(self.recordings)
        self.turns += 1
        return self.recordings[first:] + self.recordings[:first]

    def has(self, recording: Recording) -> bool:
        """Whether host code did the same when this form was recorded."""
        return any(one.pattern == recording.pattern for one in self.recordings)


class Recordings:
    """Loads a candidate and records it for each form of inputs.

    Attributes:
        module: the module loaded last.
        past: the inputs of earlier calls.
    """

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches) -> None:
        self.module = LoadedModule()
        self.past = PastCalls(session, candidate)
        self._session = session
        self._candidate = candidate
        self._launches = launches
        self._execution: HostExecution | None = None
        self._known: list[RecordedForm] = []
        self._left_out: set[frozenset[bytes]] = set()
        # By what holds the recordings of a form.
        self._left: dict[int, int] = {}

    # Loading -------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Let host code construct the module in the configured execution, or on the device if that one cannot."""
        execution = HOST_EXECUTIONS[self._candidate.config.recording]
        try:
            self._load_in(execution)
        except NeedsDeviceError as error:
            fallback = self._fallback(error)
            with _with_first_cause(error):
                self._load_in(fallback)

    def _fallback(self, error: NeedsDeviceError) -> type[HostExecution]:
        """Return the execution for host code that the configured one cannot record.

        Raises:
            CandidateFailedError, SuspectError: there is none, since nothing here runs the kernels.
        """
        machine = self._candidate.machine
        if machine.runs_kernels:
            return FALLBACK
        if isinstance(error.__cause__, CandidateFailedError | SuspectError):
            raise error.__cause__
        raise CandidateFailedError(
            "undecided", "needs_device", f"Host code can only be recorded on a GPU, and there is none: {error}."
        ) from error

    def _load_in(self, way: type[HostExecution]) -> None:
        if self._execution is not None:
            self._execution.close()
        execution = way(self._session, self._candidate, self._launches)
        evidence = self._candidate.evidence
        self._execution, evidence.recording = execution, execution.way
        self._candidate.note_tier(execution.worker)
        with claims_of_a_recording():
            loaded = execution.load()
            unmatched, buffers = loaded.texts("unmatched"), frozenset(loaded.texts("buffers"))
            lacks = module_state.unmatched_remark(unmatched, self._session.parameters, loaded.texts("hints"))
        execution.lacks = f"{lacks} " if lacks else ""
        if unmatched:
            evidence.flags.add("unmatched_parameters")
        if codec.Fields(self._session.state.tree).slot_map("buffers").keys() - buffers - self._session.constants:
            evidence.flags.add("missing_buffers")
        self.module = LoadedModule(lacks, buffers)

    def room_for(self, answer: Answer) -> Form:
        """Return the layout of a replay's results: the output, then the module's buffers."""
        kept = {
            name: slot
            for name, slot in answer.buffers.items()
            if name in self.module.buffer_names and not self._session.counts_idly(name, slot)
        }
        return Form.of({"output": answer.output, "buffers": kept}, self._candidate.config.max_tensor_bytes)

    # Recording -----------------------------------------------------------------------------------------------------

    def record_before_trials(self, answer: Answer, form: Form | None, rng: random.Random) -> None:
        """Record the problem's own form before the first trial, to compile while the reference answers that trial.

        Args:
            answer: the reference's answer to inputs of that form.
            form: the form of the inputs that `get_inputs()` returns; None if it changes from call to call.
            rng: seeds the inputs.
        """
        if self._execution is None or self._execution.sees_contents:
            return
        self._session.make_inputs(rng.getrandbits(48))
        if self._session.inputs == form:
            self._record_and_begin(answer)

    def record_early(self, answer: Answer) -> None:
        """Record the form of the session's inputs and begin to compile its launches, which a later trial needs.

        An error that host code raises here is raised again, and judged, in that trial.
        """
        if self._execution is None or self._execution.sees_contents:
            return
        flags = set(self._candidate.evidence.flags)
        try:
            self._record_and_begin(answer)
        except CandidateFailedError:
            self._candidate.evidence.flags &= flags

    def _record_and_begin(self, answer: Answer) -> None:
        known = RecordedForm.of(self._session, answer, [])
        known.recordings, _ = self._record(answer)
        self._known.append(known)
        for recording in known.recordings:
            self._launches.begin(recording.launches)

    def of_inputs(self, answer: Answer) -> tuple[list[Recording], bool]:
        """Return the recordings of the session's form, and whether the session's inputs were remade for them.

        A form has several if an autotuned kernel has several configurations, or a later call acts differently; they
        take turns in being the first.
        """
        known, remade = self._known_as(self._session.inputs), False
        if known is None:
            known = RecordedForm.of(self._session, answer, [])
            known.recordings, remade = self._record(answer)
            self._known.append(known)
        found = known.in_turn()
        filled = [self.past.fill(recording) for recording in found]
        return found, any(filled) or remade

    def of_recorded_inputs(self, rng: random.Random) -> tuple[list[Recording], Answer]:
        """Make inputs of a recorded form; return its recordings and the reference's answer."""
        session = self._session
        for _ in range(FORM_ATTEMPTS):
            session.make_inputs(rng.getrandbits(48))
            known = self._of_form(session.inputs)
            if known is not None:
                for recording in known:
                    self.past.fill(recording)
                return known, session.answer(rng.getrandbits(48))
        answer = session.answer(rng.getrandbits(48))
        found, remade = self.of_inputs(answer)
        self._launches.await_code(found[0].launches)
        return found[:1], session.answer(rng.getrandbits(48)) if remade else answer

    def form_of_inputs(self) -> RecordedForm:
        """Return what is known about the form of the session's inputs; KeyError if it was not recorded."""
        known = self._known_as(self._session.inputs)
        if known is None:
            raise KeyError("the session's inputs have a form that was not recorded")
        return known

    def _known_as(self, form: Form) -> RecordedForm | None:
        return next((known for known in self._known if known.form == form), None)

    def _of_form(self, form: Form) -> list[Recording] | None:
        known = self._known_as(form)
        return None if known is None else known.recordings

    def _record(self, answer: Answer) -> tuple[list[Recording], bool]:
        placed = self.room_for(answer)
        try:
            return self._recorded(answer, placed)
        except NeedsDeviceError as error:
            fallback = self._fallback(error)
            with _with_first_cause(error):
                self._load_in(fallback)
                return self._recorded(answer, placed)

    def _recorded(self, answer: Answer, placed: Form) -> tuple[list[Recording], bool]:
        assert self._execution is not None
        with claims_of_a_recording():
            found = self._execution.record(answer, placed)
        evidence = self._candidate.evidence
        evidence.problem_bytes = max(evidence.problem_bytes, bytes_of(self._session, answer))
        evidence.allocated_bytes = max([evidence.allocated_bytes, *(one.allocated_bytes for one in found)])
        return found, self._execution.sees_contents

    # Another order of calls ------------------------------------------------------------------------------------------

    def note_passed(self) -> None:
        """Note that a replay was right on inputs of the session's form."""
        for known in self._known:
            known.passed |= known.form == self._session.inputs

    def has_other_numbers(self) -> bool:
        """Whether a form has passed that differs from the problem's own only in its plain arguments."""
        own = self._known[0].form
        return any(one.passed and one.form != own and one.form.slots == own.slots for one in self._known)

    def in_another_order(self) -> list[tuple[RecordedForm, Recording]]:
        """Record forms that passed in another process, the smallest first and the problem's own last.

        Returns:
            Each form on which host code then does something new, and what. For an autotuned kernel, whose
            configurations differ between processes anyway, the problem's own form is enough.

        Raises:
            CandidateFailedError: host code fails in this order only.
        """
        own, passed = self._known[0], self._before_others()
        if self._execution is None or not passed:
            return []
        forms = [*passed, own]
        return [
            (one, made)
            for one, made in zip(forms, self._made_in_another_order(forms), strict=False)
            if made is not None and not one.has(made) and (one is own or not made.remark)
        ]

    def _made_in_another_order(self, forms: list[RecordedForm]) -> list[Recording | None]:
        """Return the recordings of one call on each form, made in another process; none if no inputs can be drawn.

        Each of these calls works in the recorded order. So whatever ends this process is the candidate's failure,
        unless the machine may be to blame: then a second process tries once more, as the candidate's only one. Values
        that host code reads in this order alone it gets on the device.
        """
        assert self._execution is not None
        first, alone = type(self._execution), False
        way = first
        while True:
            try:
                made = self._made_by(way, forms)
                if alone:
                    self._load_in(first)
                return made
            except BadProblemError:
                return []
            except NeedsDeviceError as error:
                way = self._fallback(error)
            except (CandidateFailedError, SuspectError) as error:
                if alone or not _may_lack_means(error):
                    raise
                alone = True
                self.end()
                self.close()

    def _made_by(self, way: type[HostExecution], forms: list[RecordedForm]) -> list[Recording | None]:
        conversation = self._candidate.conversation
        execution = way(self._session, self._candidate, self._launches)
        try:
            # Within the time that all earlier calls and replays took, these few end too.
            with conversation.beside_limit(conversation.used_s + STARTING_S), self._launches.uncounted():
                execution.load()
                return [self._recorded_after_others(execution, one) for one in forms]
        finally:
            # Wait for the end: none of it may run during a timing.
            execution.end()
            execution.close()

    def _before_others(self) -> list[RecordedForm]:
        """Return the smallest forms that passed, and one with the problem's own shapes."""
        own, *others = self._known
        passed = sorted((one for one in others if one.passed), key=lambda one: one.form.size)
        alike = [one for one in passed[MOST_SMALLER:] if one.form.slots == own.form.slots]
        return [*passed[:MOST_SMALLER], *alike[:1]]

    def _recorded_after_others(self, execution: HostExecution, known: RecordedForm) -> Recording | None:
        """Return the recording of a call on inputs of a form; None if no such inputs are drawn."""
        if not made_of_form(self._session, known, self._candidate.rng):
            return None
        with claims_of_a_recording():
            return execution.record_once(known.answer, self.room_for(known.answer))

    # Configurations of autotuned kernels ----------------------------------------------------------------------------

    def leave_out(self, recording: Recording, failure: Failure, answer: Answer) -> bool:
        """Drop a configuration that the language's autotuner would skip, if others are left; return whether it did.

        Args:
            recording: of the form of the session's inputs; its replay failed.
            failure: how it failed.
            answer: the reference's answer to the session's inputs.
        """
        if not self.is_skipped(recording, failure):
            return False
        return self._without([recording], self._of_form(self._session.inputs) or [], answer)

    def leave_out_uncompiled(self, rng: random.Random) -> bool:
        """Leave out configurations that do not compile, as `leave_out` does; return whether something changed."""
        failed = self._launches.result()
        if failed.ok or not self._may_leave_out(failed.category, failed.message):
            return False
        answers = self._answers_of_recorded_forms(rng)
        changed = False
        for number, found in enumerate(known.recordings for known in self._known):
            counted = self._launches.counts([launch for one in found for launch in one.launches])
            if counted and all(one.remark for one in found):
                changed |= self._without(self._uncompiled(found), found, answers.get(number))
        return changed

    def _uncompiled(self, found: list[Recording]) -> list[Recording]:
        """Return the recordings that do not compile for a reason for which the autotuner skips a configuration."""
        results = [(one, self._launches.alone(one.launches)) for one in found]
        return [
            one for one, result in results if not result.ok and self._may_leave_out(result.category, result.message)
        ]

    def is_skipped(self, recording: Recording, failure: Failure) -> bool:
        """Whether a replay failed because of a configuration that the language's autotuner would skip."""
        return bool(recording.remark) and self._may_leave_out(failure.category, failure.message)

    def _may_leave_out(self, category: str | None, message: str) -> bool:
        """Whether the autotuner skips this. On a device it has already chosen among the configurations that run."""
        detached = self._execution is not None and not self._execution.sees_contents
        language = self._candidate.machine.language
        return detached and not self._launches.load_code and language.autotuner_skips(category, message)

    def _answers_of_recorded_forms(self, rng: random.Random) -> dict[int, Answer]:
        """Make inputs of the problem's own form; return the answer to them, by the number of that form."""
        self._session.make_inputs(rng.getrandbits(48))
        forms = [known.form for known in self._known]
        if self._session.inputs not in forms:
            return {}
        return {forms.index(self._session.inputs): self._session.answer(rng.getrandbits(48))}

    def _without(self, unfit: list[Recording], found: list[Recording], answer: Answer | None) -> bool:
        """Leave `unfit` out of `found`, the recordings of the form of `answer`, if others are left or can be recorded.

        Returns:
            Whether something was left out.
        """
        self._left[id(found)] = left_over = self._left.get(id(found), MOST_LEFT_OUT) - len(unfit)
        if not unfit or left_over < 0:
            return False
        self._left_out |= {_launches_in(one) for one in unfit}
        left = [one for one in found if one not in unfit]
        if not left and answer is not None:
            more, _ = self._record(answer)
            left = [one for one in more if _launches_in(one) not in self._left_out]
        if not left:
            return False
        dropped = [launch for one in unfit for launch in one.launches]
        found[:] = left
        if self._launches.counts(dropped):
            self._launches.keep(launch for one in left for launch in one.launches)
            self._launches.leave_out(
                dropped, [launch for known in self._known for one in known.recordings for launch in one.launches]
            )
        return True

    def try_content(self, placed: Form) -> Finding:
        """Call host code on the values in the session's arenas and on others; return what that shows.

        Call it when no replay will have these values any more: host code that runs on the device sees them.

        Raises:
            CandidateFailedError, SuspectError: a call fails, though not because of its content.
        """
        known = self._known_as(self._session.inputs)
        conversation = self._candidate.conversation
        if self._execution is None or known is None or conversation.spare_s <= 0:
            return Finding()
        # These few calls end within the time that all earlier ones and the replays took, whatever the machine's load.
        with conversation.beside_limit(conversation.used_s + STARTING_S), self._launches.uncounted():
            return self._execution.try_content(known.answer, placed)

    def end(self) -> None:
        """End the host worker and wait until it is gone, so that none of it runs during timing."""
        if self._execution is not None:
            self._execution.end()

    def close(self) -> None:
        """End the worker."""
        if self._execution is not None:
            self._execution.close()


def made_of_form(session: ReferenceSession, known: RecordedForm, rng: random.Random) -> bool:
    """Make other inputs of a form in the session's arena; return whether that succeeded."""
    made_with = known.made_with
    for _ in range(FORM_ATTEMPTS):
        session.make_inputs(rng.getrandbits(48), made_with.sizes, made_with.draws)
        if session.inputs == known.form:
            return True
    return False


def _may_lack_means(error: CandidateFailedError | SuspectError) -> bool:
    """Whether a failure can come from a lack of memory or time on the machine rather than from the order of calls."""
    return isinstance(error, SuspectError) or error.failure.category == "out_of_memory"


@contextmanager
def _with_first_cause(error: NeedsDeviceError) -> Iterator[None]:
    """Add to an error that host code raises on the device the one that it raised without a device, if it differs.

    The first is often the real cause: the second can come from a difference between the two ways.
    """
    try:
        yield
    except CandidateFailedError as failed:
        first, second = error.__cause__, failed.failure
        if (
            isinstance(first, CandidateFailedError)
            and first.failure.category != "needs_device"
            and second.status in {"runtime_error", "compile_error"}
            and _first_line(first.failure.message) != _first_line(second.message)
        ):
            both = f"{second.message[:_QUOTED]}\n(before that, without a device: {first.failure.message[:_QUOTED]})"
            failed.failure = replace(second, message=both)
        raise


def _launches_in(recording: Recording) -> frozenset[bytes]:
    return frozenset(codec.encode([launch]) for launch in recording.launches)


def _first_line(message: str) -> str:
    return message.partition("\n")[0]
