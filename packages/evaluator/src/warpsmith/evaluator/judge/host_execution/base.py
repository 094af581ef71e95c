"""How host code is executed so that what it does is recorded: the interface of the ways to a recording.

A recording belongs to the form of inputs, never to a content: whatever is judged is a replay of it on contents that
host code never saw.
"""

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.recording import (
    Recording,
    check_launches,
    check_size,
    no_kernel,
    overwrites_outputs,
    tuning_remark,
)
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, WrongFormError
from warpsmith.evaluator.processes.pool import Worker
from warpsmith.evaluator.recordings import operators
from warpsmith.evaluator.recordings.history import Called, History
from warpsmith.evaluator.recordings.outputs import form_mismatch
from warpsmith.evaluator.recordings.signature import launches_of
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_LINE: Final = 120
"""Characters of a line of the source in a message."""
LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python; `str.splitlines` knows more."""
MOST_VARIANTS: Final = 3
"""Configurations that an autotuned kernel is recorded with, of those that it may run with."""
MOST_RECORDINGS: Final = 5
"""Of one form."""


class NeedsDeviceError(Exception):
    """Host code cannot be recorded detached; what it does is to be seen on the device."""


class HostExecution(ABC):
    """One way to run host code and to record what it does, in a worker of its own.

    Raises (from `load` and `record`):
        CandidateFailedError, SuspectError: the candidate's failure.
        NeedsDeviceError: it cannot be recorded in this way.

    Attributes:
        way: its name in a configuration and in a verdict.
        role: of its worker.
        calls: how often forward is called on the first form of inputs.
        sees_contents: whether host code sees contents. It is shown some that no trial uses, so that the session's
            inputs are made anew after each recording.
        lacks: which parameters of the problem the module lacks, for people; empty for none, and else a sentence and a
            blank.
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
            # No parameter of the candidate's own making is one of the problem's.
            "seed": next(self._seeds),
            "bytes": state.size,
            "init": tree.value("init"),
            "parameters": tree.slot_map("parameters"),
            "buffers": tree.slot_map("buffers"),
            "other_names": self.session.other_names,
            "extra_operators": list(self.config.extra_operators),
            "properties": self._properties(),
        }
        return self._ask(Kind.LOAD, fields, [arena.fileno()], Kind.LOADED).fields

    def record(self, answer: Answer, room: Placed) -> list[Recording]:
        """Return what host code does with inputs of the form that the session's have, call after call.

        There is one recording where each call does the same, and there are several where an autotuned kernel runs with
        any of several configurations, or where a call uses memory that an earlier one made.

        Args:
            answer: the reference's, whose form the candidate's output must have.
            room: the slots of that output and of the module's buffers.
        """
        found: dict[bytes, Recording] = {}
        made, wanted = 0, 1 if self._history.calls else self.calls
        while made < wanted and len(found) < MOST_RECORDINGS:
            pattern, recording, variants = self._recorded(answer, room)
            made += 1
            found.setdefault(pattern, recording)
            if len(found) < min(variants, MOST_VARIANTS):
                # Configurations may be alike, and a kernel may run in the first call alone: no more calls than these.
                wanted = min(max(wanted, made + 1), self.calls + MOST_VARIANTS)
        return list(found.values())

    def _recorded(self, answer: Answer, room: Placed) -> tuple[bytes, Recording, int]:
        """Return what one call does as a pattern and as a recording, and how many variants there are."""
        self._prepare_inputs()
        done = self._call(room)
        self._check_rules(done, answer)
        call, pattern = self._read(done, room)
        self._patterns.add(pattern)
        if self._history.overwrites_outputs(call):
            raise overwrites_outputs()
        events, past = self._history.with_its_past(call)
        self._history.calls.append(call)
        launches = launches_of(events)
        check_launches(launches)
        if not launches:
            raise no_kernel(self.evidence, self.machine.language)
        made = Recording(call.form, events, call.outputs, launches, self.way, tuning_remark(done), past)
        return pattern, made, done.integer("variants")

    def _read(self, done: codec.Fields, room: Placed) -> tuple[Called, bytes]:
        """Return the call that DONE tells of, and its pattern."""
        trace, session = codec.Fields(done.mapping("trace")), self.session
        events, outputs = trace.sequence("events"), trace.sequence("outputs")
        buffers = len(codec.Fields(room.tree).mapping("buffers"))
        call = Called(session.inputs, session.made_with.sizes, events, outputs, buffers)
        check_size(call)
        check_launches(launches_of(call.events))
        return call, self._history.pattern(call)

    def depends_on_content(self, room: Placed) -> bool:
        """Whether host code does something else with the content that the session's arenas hold than it did before."""
        return False

    def _call(self, room: Placed) -> codec.Fields:
        """Let host code run forward once more, and return the fields of DONE."""
        inputs = self.session.inputs
        given, fresh = self._arena("inputs", inputs.size)
        self._fill_inputs(given)
        fields = {
            "inputs": inputs.tree,
            "inputs_bytes": inputs.size,
            "answer": room.tree,
            "seed": next(self._seeds),
        }
        return self._ask(Kind.CALL, fields, [given.fileno()] if fresh else [], Kind.DONE).fields

    def _check_rules(self, done: codec.Fields, answer: Answer) -> None:
        refused = done.mapping("refused")
        if refused:
            self.evidence.flags.add("torch_fallback")
            raise CandidateFailedError(
                "rejected",
                None,
                f"forward computes with torch instead of {self.machine.language.title}: {self._in_source(refused)}. "
                f"{operators.ADVICE}",
            )
        if done.flag("unawaited"):
            raise CandidateFailedError(
                "incorrect",
                None,
                "forward returns while work on a stream of its own is under way, which may come too late. Call "
                "torch.cuda.current_stream().wait_stream(stream) before the outputs are used.",
            )
        for flag in ("returns_input", "host_memory"):
            if done.flag(flag):
                self.evidence.flags.add(flag)
        mismatch = form_mismatch(done.value("output"), answer.output)
        if mismatch:
            raise WrongFormError(f"{mismatch}.")

    def _in_source(self, used: dict[str, Any]) -> str:
        """Return the names of operators, each with the line of the source that the worker says uses it first."""
        lines = LINE_END.split(self._source)
        known = {name: line for name, line in used.items() if type(line) is int and 0 < line <= len(lines)}
        texts = {name: lines[line - 1].strip()[:MAX_LINE] for name, line in known.items()}
        return ", ".join(
            f"{name} (line {known[name]}: {texts[name]})" if name in known else name for name in sorted(used)[:8]
        )

    def _arena(self, name: str, size: int) -> "tuple[Shared, bool]":
        """Return memory that is shared with the worker, and whether it is new."""
        known = self._arenas.get(name)
        if known is not None and known[0] == size:
            return known[1], False
        made = self._arena_device().create(f"candidate-{name}", size)
        self._arenas[name] = (size, made)
        return made, True

    def end(self) -> None:
        """End the worker and wait until it is gone: what it left running would be beside what is timed."""
        self.worker.end()

    def close(self) -> None:
        self.worker.close()

    @abstractmethod
    def _arena_device(self) -> Device:
        """Return the device that the worker's arenas lie on."""

    @abstractmethod
    def _fill_state(self, arena: "Shared") -> None:
        """Write the parameters and buffers that host code is given."""

    @abstractmethod
    def _fill_inputs(self, arena: "Shared") -> None:
        """Write the inputs that host code is given."""

    @abstractmethod
    def _prepare_inputs(self) -> None:
        """Let the session's arena hold what host code is going to see."""

    def _properties(self) -> dict[str, Any]:
        """Return what host code is told of the device where it has none."""
        return {}

    @abstractmethod
    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        """Ask the worker for one step."""
