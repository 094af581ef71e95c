"""The interface of a host execution: one way to run host code and record what it does.

A recording belongs to a form of inputs, never to their values: its replay is judged on values that host code never saw.
"""

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.recording_limits import (
    changes_the_callers,
    check_launches,
    check_size,
    no_kernel,
    overwrites_outputs,
    refused_operators,
    shares_memory,
    tuning_remark,
)
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, WrongFormError
from warpsmith.evaluator.processes.worker import Worker
from warpsmith.evaluator.recordings import library_calls, sharing, side_effects
from warpsmith.evaluator.recordings.history import Called, History
from warpsmith.evaluator.recordings.library_policy import event_name
from warpsmith.evaluator.recordings.outputs import form_mismatch
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_LINE: Final = 120
"""Longest excerpt of a source line in a message, in characters."""
LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""Python's line ends; `str.splitlines` splits at others too."""
MOST_VARIANTS: Final = 3
"""Configurations of an autotuned kernel that are recorded."""
MOST_RECORDINGS: Final = 5
"""For one form of inputs."""


class NeedsDeviceError(Exception):
    """Host code cannot be recorded detached and must be recorded on the device."""


class HostExecution(ABC):
    """One way to run host code and record what it does, in a worker of its own.

    Raises (from `load` and `record`):
        CandidateFailedError, SuspectError: the candidate's failure.
        NeedsDeviceError: host code cannot be recorded in this way.

    Attributes:
        way: its name in a configuration and in a verdict.
        role: its worker's role.
        calls: number of calls of forward on the first form of inputs.
        sees_contents: whether host code sees values of tensors. No trial uses those values, so the session's inputs are
            remade after each recording.
        lacks: a sentence, with a trailing space, on the problem's parameters that the module lacks; empty if none.
    """

    way: ClassVar[RecordingWay]
    role: ClassVar[Role]
    calls: ClassVar[int]
    sees_contents: ClassVar[bool]

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches) -> None:
        self.session = session
        self.machine = candidate.machine
        self.config = candidate.config
        self.evidence = candidate.evidence
        self.worker: Worker = self.machine.take(self.role, self.config.start_timeout_s)
        self._candidate = candidate
        self._launches = launches
        self._source = candidate.source
        self._conversation = candidate.conversation
        self._seeds = candidate.seeds
        self._arenas: dict[str, tuple[int, Shared]] = {}
        self._history = History()
        self._patterns: set[bytes] = set()
        self.lacks = ""

    def load(self) -> codec.Fields:
        """Let the worker execute the source and construct `ModelNew`; return the fields of LOADED."""
        state, tree = self.session.state, codec.Fields(self.session.state.tree)
        arena, _ = self._arena("state", state.size)
        self._fill_state(arena)
        fields = {
            "source": self._source,
            # So the parameters that the candidate draws itself differ from the problem's.
            "seed": next(self._seeds),
            "bytes": state.size,
            "init": tree.value("init"),
            "parameters": tree.slot_map("parameters"),
            "buffers": tree.slot_map("buffers"),
            "other_names": self.session.other_names,
            "operators": self.config.operators,
            "properties": self._properties(),
        }
        return self._ask(Kind.LOAD, fields, [arena.fileno()], Kind.LOADED).fields

    def record(self, answer: Answer, room: Form) -> list[Recording]:
        """Return the recordings of host code on inputs of the session's form.

        There is one recording if all calls do the same, and several if an autotuned kernel can run with several
        configurations, or if a call uses memory that an earlier one made.

        Args:
            answer: the reference's; the candidate's output must have its form.
            room: the slots of the output and of the module's buffers.
        """
        found: dict[bytes, Recording] = {}
        made, wanted = 0, 1 if self._history.calls else self.calls
        while made < wanted and len(found) < MOST_RECORDINGS:
            pattern, recording, variants = self._recorded(answer, room)
            made += 1
            found.setdefault(pattern, recording)
            if len(found) < min(variants, MOST_VARIANTS):
                # Bounded: configurations can be equal, and a kernel can run in the first call only.
                wanted = min(max(wanted, made + 1), self.calls + MOST_VARIANTS)
        return list(found.values())

    def _recorded(self, answer: Answer, room: Form) -> tuple[bytes, Recording, int]:
        """Return one call's pattern, its recording, and the number of variants."""
        self._prepare_inputs()
        done = self._call(room)
        self._check_rules(done, answer)
        call, pattern = self._read(done, room)
        self._patterns.add(pattern)
        if self._history.overwrites_outputs(call):
            raise overwrites_outputs()
        if unlike := sorted(call.shares - answer.shares):
            raise shares_memory(unlike[0])
        events, past = self._history.with_dependencies(call)
        self._history.calls.append(call)
        launches = self.machine.language.launches_of(events)
        check_launches(launches)
        self._note_operators(events)
        if not launches:
            raise no_kernel(self.evidence, self.machine.language)
        made = Recording(call.form, events, call.outputs, launches, self.way, tuning_remark(done), past)
        return pattern, made, done.integer("variants")

    def _note_operators(self, events: list[Any]) -> None:
        """Note the library operators of a recording; only its events count, not what the worker says about them."""
        policy = self.config.operators
        names = {name for name in map(event_name, events) if name is not None}
        unfit = [event for event in events if event_name(event) and library_calls.why_not(policy, event[1], event[2])]
        if unfit:
            used = ", ".join(sorted({str(event[1])[:80] for event in unfit})[:8])
            raise refused_operators(self.evidence, self.machine.language, policy, used)
        self.evidence.operators |= names

    def _read(self, done: codec.Fields, room: Form) -> tuple[Called, bytes]:
        """Return the call that DONE reports, and its pattern."""
        trace, session = codec.Fields(done.mapping("trace")), self.session
        events, outputs = trace.sequence("events"), trace.sequence("outputs")
        buffers = len(codec.Fields(room.tree).mapping("buffers"))
        made_with = session.made_with
        draws = made_with.draws.with_tensors_as_made()
        call = Called(session.inputs, made_with.sizes, events, outputs, buffers, draws)
        check_size(call)
        check_launches(self.machine.language.launches_of(call.events))
        return call, self._history.pattern(call)

    def record_once(self, answer: Answer, room: Form) -> Recording:
        """Return the recording of one call of host code on inputs of the session's form."""
        return self._recorded(answer, room)[1]

    def depends_on_content(self, room: Form) -> bool:
        """Whether host code acts differently on the values now in the session's arenas than on others of the form."""
        return False

    def _call(self, room: Form, *, as_with: int | None = None) -> codec.Fields:
        """Let host code run forward once, and return the fields of DONE.

        Args:
            room: the slots of the output and of the module's buffers.
            as_with: the seed of the call that this one repeats, so that an autotuned kernel keeps its configuration.
        """
        inputs = self.session.inputs
        arena, fresh = self._arena("inputs", inputs.size)
        self._fill_inputs(arena)
        fields = {
            "inputs": inputs.tree,
            "inputs_bytes": inputs.size,
            "answer": room.tree,
            "seed": next(self._seeds) if as_with is None else as_with,
            "repeats": as_with is not None,
        }
        return self._ask(Kind.CALL, fields, [arena.fileno()] if fresh else [], Kind.DONE).fields

    def _check_rules(self, done: codec.Fields, answer: Answer) -> None:
        refused = done.mapping("refused")
        if refused:
            raise refused_operators(
                self.evidence, self.machine.language, self.config.operators, self._in_source(refused)
            )
        if done.flag("unawaited"):
            raise CandidateFailedError(
                "incorrect",
                None,
                "forward returns while work on another stream is still running, so its output may be incomplete. Call "
                "torch.cuda.current_stream().wait_stream(stream) before the outputs are used.",
            )
        changed = side_effects.KINDS.intersection(done.sequence("side_effects", len(side_effects.KINDS)))
        if unlike := sorted(changed - answer.side_effects):
            raise changes_the_callers(unlike[0])
        if done.flag("host_memory"):
            self.evidence.flags.add("host_memory")
        # In a batch of one a copy in another order is the input itself, which says nothing about the problem's own
        # shapes.
        if done.flag("returns_input") and self._launches.on_own_shapes and sharing.INPUT not in answer.shares:
            self.evidence.flags.add("returns_input")
        mismatch = form_mismatch(done.value("output"), answer.output)
        if mismatch:
            raise WrongFormError(f"{mismatch}.")

    def _in_source(self, used: dict[str, Any]) -> str:
        """Return the names of operators, each with the source line that first uses it according to the worker."""
        lines = LINE_END.split(self._source)
        known = {name: line for name, line in used.items() if type(line) is int and 0 < line <= len(lines)}
        texts = {name: lines[line - 1].strip()[:MAX_LINE] for name, line in known.items()}
        return ", ".join(
            f"{name} (line {known[name]}: {texts[name]})" if name in known else name for name in sorted(used)[:8]
        )

    def _arena(self, name: str, size: int) -> "tuple[Shared, bool]":
        """Return memory shared with the worker, and whether it is new."""
        known = self._arenas.get(name)
        if known is not None and known[0] == size:
            return known[1], False
        made = self._created(f"candidate-{name}", size)
        self._arenas[name] = (size, made)
        return made, True

    def end(self) -> None:
        """End the worker and wait until it is gone, so that none of it runs during timing."""
        self.worker.end()

    def close(self) -> None:
        self.worker.close()

    @abstractmethod
    def _created(self, name: str, size: int) -> "Shared":
        """Return new memory where the worker has its arenas."""

    @abstractmethod
    def _fill_state(self, arena: "Shared") -> None:
        """Write the parameters and buffers that host code gets."""

    @abstractmethod
    def _fill_inputs(self, arena: "Shared") -> None:
        """Write the inputs that host code gets."""

    @abstractmethod
    def _prepare_inputs(self) -> None:
        """Put the inputs that host code will see into the session's arena."""

    def _properties(self) -> dict[str, Any]:
        """Return the device properties that host code gets if it runs without a device."""
        return {}

    @abstractmethod
    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        """Send the worker one request and return the reply."""
