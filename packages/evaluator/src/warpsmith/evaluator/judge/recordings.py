"""A candidate's recordings, as the judge gets and holds them.

A recording is what host code did with inputs of one form: allocations, fills, copies, launches with their arguments.
It belongs to the form, never to a content: whatever is judged is a replay of it on contents that host code never saw.

There are two ways to one. **Detached**: host code runs in a worker that has no device, on tensors of the right form
that hold zeros, so that no content can enter the recording. **On-device**: host code that reads a content, that times
its kernels, or that asks for facts of a compiled kernel runs where kernels do (on a CPU interpreted), on inputs and
parameters that no trial uses. What a recording knows of those is wrong in every trial.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig, RecordingWay
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.memory import DeviceMemory, HostMemory
from warpsmith.evaluator.errors import BadProblemError, LayoutError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.compile_service import Compilation
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, SuspectError
from warpsmith.evaluator.processes.pool import Machine, Worker
from warpsmith.evaluator.recordings import operators
from warpsmith.evaluator.recordings.history import Called, History, Past
from warpsmith.evaluator.recordings.outputs import form_mismatch
from warpsmith.evaluator.recordings.signature import launches_of
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceSession
from warpsmith.evaluator.sandbox.policies import Role
from warpsmith.evaluator.workers import gpu_stand_in

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MAX_LAUNCHES: Final = 256
MAX_LAUNCH_BYTES: Final = 128 << 10
MAX_TUNED: Final = 300
MAX_LINE: Final = 120
"""Characters of a line of the source in a message."""
LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python; `str.splitlines` knows more."""
MOST_VARIANTS: Final = 3
"""Configurations that an autotuned kernel is recorded with, of those that it may run with."""
MOST_CALL_BYTES: Final = 36 << 20
"""Of the recording of one call: constants of 32 MiB, and events."""
MOST_RECORDINGS: Final = 5
"""Of one form."""
FORM_ATTEMPTS: Final = 8
DETACHED_S: Final = 5.0
"""What one step of host code may take detached before it is tried on the device."""
MOST_KEPT_BYTES: Final = 64 << 20
"""Of inputs that host code saw: up to this size the next ones are like them at both ends."""
DETACHED_STATE_BYTES: Final = 64 << 20
"""Of parameters and buffers: a constructor that draws more on the host takes long."""


Compile = Callable[[dict[str, Any]], Compilation | None]


class NeedsDeviceError(Exception):
    """Host code cannot be recorded detached; what it does is to be seen on the device."""


@dataclass(frozen=True)
class Recording:
    """What host code did with inputs of one form.

    Attributes:
        form: of the inputs, plain arguments included.
        events: allocations, fills, copies and launches, in order: `trace.py` describes them.
        outputs: which tensors of the recording are the outputs, and the module's buffers after them.
        launches: what each launch compiles to, in order.
        way: how it was made.
        remark: the configurations of autotuned kernels, for people; empty where there are none.
        past: the inputs of earlier calls, whose events come first, in a call that uses memory of theirs.
    """

    form: Placed
    events: list[Any]
    outputs: list[Any]
    launches: list[dict[str, Any]]
    way: RecordingWay
    remark: str = ""
    past: tuple[Past, ...] = ()

    @property
    def has_constants(self) -> bool:
        """Whether it brings along the content of tensors that were made before the call."""
        return any(event[:1] == ["const"] and event[2:] != [b""] for event in self.events)


@dataclass(frozen=True)
class CandidateUnderTest:
    """What every worker of a candidate is asked with.

    Attributes:
        source: the candidate's.
        seeds: seeds that a candidate may know.
    """

    source: str
    machine: Machine
    config: EvaluatorConfig
    evidence: Evidence
    conversation: Conversation
    seeds: Iterator[int]


class Recorder:
    """One way to a recording.

    Raises (from `load` and `record`):
        CandidateFailedError, SuspectError: the candidate's failure.
        NeedsDeviceError: it cannot be recorded in this way.
    """

    way: ClassVar[RecordingWay]
    role: ClassVar[Role]
    calls: ClassVar[int]

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest) -> None:
        self.session = session
        self.machine = candidate.machine
        self.config = candidate.config
        self.evidence = candidate.evidence
        self.worker: Worker = self.machine.take(self.role, self.config.start_timeout_s)
        self._candidate = candidate
        self._source = candidate.source
        self._conversation = candidate.conversation
        self._seeds = candidate.seeds
        self._arenas: dict[str, tuple[int, Shared]] = {}
        self._history = History()
        self._patterns: set[bytes] = set()
        # Which parameters of the problem the module lacks, for people; empty for none, and else a sentence and a blank.
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
            raise no_kernel(self.evidence)
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
                f"forward computes with torch instead of Triton: {self._in_source(refused)}. {operators.ADVICE}",
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
            raise CandidateFailedError("incorrect", None, f"{mismatch}.")

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
        made = self._memory().create(f"candidate-{name}", size)
        self._arenas[name] = (size, made)
        return made, True

    def end(self) -> None:
        """End the worker and wait until it is gone: what it left running would be beside what is timed."""
        self.worker.end()

    def close(self) -> None:
        self.worker.close()

    def _memory(self) -> HostMemory | DeviceMemory:
        raise NotImplementedError

    def _fill_state(self, arena: "Shared") -> None:
        raise NotImplementedError

    def _fill_inputs(self, arena: "Shared") -> None:
        raise NotImplementedError

    def _prepare_inputs(self) -> None:
        """Let the session's arena hold what host code is going to see."""

    def _properties(self) -> dict[str, Any]:
        """Return what host code is told of the device where it has none."""
        return {}

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        raise NotImplementedError


class DetachedRecorder(Recorder):
    """Records host code in a worker without a device, on memory of the host that holds zeros.

    The recording of a module that brings tensors of its own along is made twice, in processes of their own and from
    two sets of parameters: a constant that depends on these, or on anything else that changes, is refused.
    """

    way = "detached"
    role: ClassVar[Role] = "host"
    calls: ClassVar[int] = 5

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest) -> None:
        super().__init__(session, candidate)
        self._host_memory = HostMemory()

    def record(self, answer: Answer, room: Placed) -> list[Recording]:
        """As of `Recorder`; constants are compared with those of a second process."""
        found = super().record(answer, room)
        if found[0].has_constants:
            self._check_constants(found[0], answer, room)
        return found

    def _check_constants(self, one: Recording, answer: Answer, room: Placed) -> None:
        other = DetachedRecorder(self.session, self._candidate)
        try:
            other.load()
            _, two, _ = other._recorded(answer, room)
        finally:
            other.close()
        if codec.encode(constants_of(one)) != codec.encode(constants_of(two)):
            raise CandidateFailedError(
                "rejected",
                None,
                f"{self.lacks}forward uses tensors whose content the constructor derives from parameters or random "
                "numbers, which change after construction. Compute what depends on a parameter in forward, in a "
                "kernel.",
            )

    def load(self) -> codec.Fields:
        if self.session.state.size > DETACHED_STATE_BYTES:
            raise NeedsDeviceError("the module is large")
        return super().load()

    def _recorded(self, answer: Answer, room: Placed) -> tuple[bytes, Recording, int]:
        with self.machine.lease.released():
            return super()._recorded(answer, room)

    def _check_rules(self, done: codec.Fields, answer: Answer) -> None:
        if done.flag("host_memory") and isinstance(self.machine.memory, DeviceMemory):
            raise NeedsDeviceError("forward makes memory of the host")
        super()._check_rules(done, answer)

    def _memory(self) -> HostMemory:
        return self._host_memory

    def _fill_state(self, arena: "Shared") -> None:
        """Hand over the constructor's tensors, which never change; parameters and buffers stay zeros."""
        source = tensor_views.content(self.session.state_buffer)
        target = tensor_views.content(arena)
        for slot in codec.slots(codec.Fields(self.session.state.tree).value("init")):
            span = slice(slot.offset, slot.offset + slot.nbytes)
            target[span] = source[span].cpu()

    def _fill_inputs(self, arena: "Shared") -> None:
        """Leave zeros there: host code has no content, and what it does not touch takes no memory."""

    def _arena(self, name: str, size: int) -> "tuple[Shared, bool]":
        try:
            return super()._arena(name, size)
        except _native.NativeError as error:
            raise NeedsDeviceError(f"the host has no room for its tensors: {error}") from error

    def _properties(self) -> dict[str, Any]:
        memory = self.machine.memory
        if not isinstance(memory, DeviceMemory):
            return {}
        found = torch.cuda.get_device_properties(memory.device)
        told = {name: getattr(found, name, None) for name in vars(gpu_stand_in.PROPERTIES)}
        return {name: value for name, value in told.items() if isinstance(value, int | str)}

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        """Ask; every failure of the process itself is for the device to explain."""
        try:
            return self._conversation.ask(self.worker, kind, fields, fds, answer, at_most_s=DETACHED_S)
        except (CandidateFailedError, SuspectError) as error:
            raise NeedsDeviceError(str(error)) from error


class OnDeviceRecorder(Recorder):
    """Records host code where kernels run, on inputs and parameters that no trial uses.

    Args:
        on_launch: called with each launch that is reported before it runs; returns its code on a device.
    """

    way = "on_device"
    role: ClassVar[Role] = "candidate"
    calls: ClassVar[int] = 2

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, on_launch: Compile) -> None:
        super().__init__(session, candidate)
        self._launched = on_launch
        self._reports = 0
        self._last: torch.Tensor | None = None

    def load(self) -> codec.Fields:
        with self.machine.lease.shared():
            return super().load()

    def _memory(self) -> HostMemory | DeviceMemory:
        return self.machine.memory

    def _fill_state(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(self.session.constructed_state)

    def _fill_inputs(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(tensor_views.content(self.session.inputs_buffer))

    def _prepare_inputs(self) -> None:
        """Make other inputs of the form of those in the session's arena, where they then lie."""
        session, form, made_with = self.session, self.session.inputs, self.session.made_with
        for _ in range(FORM_ATTEMPTS):
            session.make_inputs(next(self._seeds), made_with.sizes)
            if session.inputs == form:
                break
        else:
            self._check_unreplayed_is_allowed()
            session.make_again(made_with)
            return
        inputs = tensor_views.content(session.inputs_buffer)
        if form.size > MOST_KEPT_BYTES:
            return
        if self._last is not None and self._last.shape == inputs.shape:
            _keep_ends(inputs, self._last, form)
        self._last = inputs.clone()

    def depends_on_content(self, room: Placed) -> bool:
        """As of `Recorder`: host code is called once more, on the content of a trial that has failed."""
        tensor_views.content(self._arena("state", self.session.state.size)[0]).copy_(
            tensor_views.content(self.session.state_buffer)
        )
        try:
            return self._read(self._call(room), room)[1] not in self._patterns
        except (CandidateFailedError, SuspectError, WireError, LayoutError):
            return False

    def record(self, answer: Answer, room: Placed) -> list[Recording]:
        """As of `Recorder`. The session's arena holds the inputs again that it held before; answer them anew."""
        made_with = self.session.made_with
        try:
            return super().record(answer, room)
        finally:
            self.session.make_again(made_with)

    def _check_unreplayed_is_allowed(self) -> None:
        if not self.config.allow_unreplayed:
            raise BadProblemError(
                "get_inputs() gives other shapes or dtypes at each call, so that a candidate whose host code reads a "
                "content cannot be replayed on inputs that it never saw.",
                "Fix the shapes of the problem's inputs, or set allow_unreplayed to have such verdicts flagged "
                "`not_replayed`.",
            )
        self.evidence.flags.add("not_replayed")

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        return self._conversation.ask(self.worker, kind, fields, fds, answer, on_launch=self._on_launch)

    def _on_launch(self, message: Message, worker: Worker) -> None:
        """Keep a reported launch; on a device, compile it and hand the code over, not on the candidate's time."""
        self._reports += 1
        launch = {
            "kernel": message.fields.text("kernel", 200),
            "arguments": message.fields.mapping("arguments"),
            "options": message.fields.mapping("options"),
        }
        if self._reports > MAX_LAUNCHES or len(codec.encode([[launch]])) > MAX_LAUNCH_BYTES:
            raise WireError(f"a launch after {self._reports - 1} others is more than anybody needs")
        began = time.monotonic()
        found = self._launched(launch)
        if found is not None:
            self._conversation.extend(time.monotonic() - began)
            told = {"ok": found.ok, "message": found.message, "category": found.category}
            binary = found.binaries[0] if found.ok else {}
            worker.send(Kind.KERNEL, told | {"binary": binary}, [], self._conversation.left())


def _keep_ends(inputs: torch.Tensor, before: torch.Tensor, form: Placed) -> None:
    """Put back what was there before but for the middle of each tensor: what is known by a few numbers is known again.

    What reads other values in place of these is recorded likewise, for no trial is on either.
    """
    for slot in form.slots:
        quarter = slot.nbytes // 4
        for start, stop in ((0, quarter), (slot.nbytes - quarter, slot.nbytes)):
            span = slice(slot.offset + start, slot.offset + stop)
            inputs[span] = before[span]


@contextmanager
def claims_of_a_recording() -> Iterator[None]:
    """Read what a worker of the candidate claims: what is malformed is the candidate's failure."""
    try:
        yield
    except (WireError, LayoutError) as error:
        raise CandidateFailedError(
            "runtime_error", "process_error", f"The candidate's process sent what is no recording: {error}"
        ) from error


def constants_of(recording: Recording) -> list[Any]:
    """Return the contents that a recording brings along."""
    return [event[2:] for event in recording.events if event[:1] == ["const"]]


def check_size(call: Called) -> None:
    """Raise WireError for more calls, or larger ones, than the judge keeps of a module."""
    if len(codec.encode([call.events, call.outputs])) > MOST_CALL_BYTES:
        raise WireError("a call brings along more than a recording may")


def check_launches(launches: list[dict[str, Any]]) -> None:
    """Raise WireError for more launches, or larger ones, than anybody needs."""
    known = {codec.encode([[launch]]) for launch in launches}
    if len(known) > MAX_LAUNCHES or sum(map(len, known)) > MAX_LAUNCH_BYTES:
        raise WireError(f"{len(known)} different launches are more than anybody needs")


def no_kernel(evidence: Evidence) -> CandidateFailedError:
    """Return the failure of a forward that launches nothing."""
    evidence.flags.add("no_kernel")
    return CandidateFailedError(
        "rejected", None, "forward launched no Triton kernel: compute in @triton.jit kernels that forward launches."
    )


def overwrites_outputs() -> CandidateFailedError:
    """Return the failure of a forward whose answer the next call would change in its caller's hands."""
    return CandidateFailedError(
        "rejected",
        None,
        "forward returns memory that an earlier call or the constructor made, which the next call overwrites: allocate "
        "the output in each call, as by torch.empty_like. What is kept from call to call may be scratch memory.",
    )


def tuning_remark(done: codec.Fields) -> str:
    """Return what a writer should know about the configurations that ran; nothing where no kernel is autotuned."""
    tuned = done.text("tuned", MAX_TUNED)
    if not tuned:
        return ""
    timed = "; it ran once beforehand too, as to be timed: what updates its output needs reset_to_zero or restore_value"
    return (
        f" (triton.autotune took {tuned}; on a GPU any configuration may be the fastest"
        f"{timed if done.flag('timed') else ''})"
    )
