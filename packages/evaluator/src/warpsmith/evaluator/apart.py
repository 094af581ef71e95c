"""One evaluation in which the candidate's host code never sees a device: it is run apart, and its launches are judged.

A worker without a GPU runs `forward` on memory of the right shapes and without content. What it would have allocated,
copied and launched comes back as a trace, and every trial is a replay of that trace on a device, in a worker that holds
none of the host code. So an evaluation needs one context in place of two, and hostile host code has no device at all.

What cannot be judged so is judged as otherwise, whatever the reason: host code that reads a content or asks for facts
of a compiled kernel, autotuned kernels, memory that was made before the call, and every error. A candidate can bring
that about when it likes, and gains nothing by it.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch

from warpsmith.evaluator import gpuhost, wire
from warpsmith.evaluator.blame import CandidateFailedError, SuspectError
from warpsmith.evaluator.compare import form_mismatch
from warpsmith.evaluator.compilation import CompileRun, LaunchByLaunch
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.errors import LayoutError, WireError
from warpsmith.evaluator.evaluation import FORM_ATTEMPTS, MAX_LAUNCH_BYTES, MAX_LAUNCHES, CandidateRun
from warpsmith.evaluator.evidence import Evidence, claims
from warpsmith.evaluator.memory import DeviceMemory, HostMemory
from warpsmith.evaluator.phases import in_phase
from warpsmith.evaluator.pool import Machine, Worker
from warpsmith.evaluator.protocol import Kind, Message
from warpsmith.evaluator.reference import Answer, Placed, ReferenceSession
from warpsmith.evaluator.signature import launches_of
from warpsmith.evaluator.trials import Trial

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import Shared

MOST_BYTES: Final = 64 << 20
"""Of state, and of inputs and outputs together. Host code that fills memory of the host takes long for more."""
MOST_CALLS: Final = 5
"""Of forward on inputs of the first form, of which each must launch the same."""
HOST_S: Final = 5.0
"""What one step of host code may take here before it is tried on the device."""


class NeedsDeviceError(Exception):
    """This candidate is to be judged with its host code on the device."""


@contextmanager
def _else_on_the_device() -> Iterator[None]:
    try:
        yield
    except (CandidateFailedError, SuspectError, WireError, LayoutError) as error:
        raise NeedsDeviceError(str(error)) from error


def check_problem(session: ReferenceSession) -> None:
    """Raise NeedsDeviceError for a problem of which, as far as is known, no candidate can be judged apart."""
    if [*wire.slots(wire.Fields(session.state.tree).value("init"))] or session.state.size > MOST_BYTES:
        raise NeedsDeviceError("the constructor is given tensors, or the module is large")
    if session.steady_bytes > MOST_BYTES:
        raise NeedsDeviceError("its tensors are large")


class ApartRun(CandidateRun):
    """One candidate, its host code in `host` and its launches in a worker that replays them.

    Raises (from `conduct`):
        NeedsDeviceError: nothing is known of the candidate but that it cannot be judged so.
    """

    host_code = "apart"

    def __init__(
        self, session: ReferenceSession, machine: Machine, host: Worker, source: str, config: EvaluatorConfig
    ) -> None:
        super().__init__(session, machine, host, source, config)
        self._host_memory = HostMemory()
        self._host_arenas: dict[str, tuple[int, Shared]] = {}
        self._traces: list[tuple[Placed, wire.Fields]] = []
        self._of_sample: tuple[wire.Fields, Placed | None] = (self.trace, None)
        self._calls = 1
        self._player: Worker | None = None

    def conduct(self, count: int, rng: random.Random, compiling: CompileRun | LaunchByLaunch) -> Evidence:
        """As of `CandidateRun`; host code is called up to five times before, and must launch the same each time.

        Raises:
            NeedsDeviceError, TransientError
        """
        self._calls = min(count, MOST_CALLS)
        try:
            return super().conduct(count, rng, compiling)
        finally:
            if self._player is not None:
                self._player.close()

    def _judge_all(self, count: int, rng: random.Random, compiling: CompileRun | LaunchByLaunch) -> None:
        self._load()
        self._run_trials(count, rng, compiling)
        # What it left running would be beside what is timed.
        self.worker.end()
        self.trace, self.traced_inputs = self._of_sample
        self._replay_without_kernels(rng)
        if compiling.result().ok:
            self._replay_without_host_code(rng)

    # Host code -------------------------------------------------------------------------------------------------------

    @in_phase("correctness")
    def _load(self) -> None:
        fields = self.to_load() | {"properties": _properties(self.memory)}
        with _else_on_the_device():
            state, _ = self._host_arena("state", self.session.state.size)
            loaded = self._ask_host(Kind.LOAD, fields, [state.fileno()], Kind.LOADED).fields
            if loaded.texts("unmatched"):
                raise NeedsDeviceError("the module lacks parameters of the problem")
        self.loaded = True
        self.note_buffers(loaded)

    def _trace_of(self, answer: Answer) -> wire.Fields:
        """Return what forward does with inputs of this form; NeedsDeviceError unless it does the same in each call."""
        for inputs, known in self._traces:
            if inputs == self.session.inputs:
                return known
        calls = 1 if self._traces else self._calls
        with self.machine.lease.left(), _else_on_the_device():
            first = self._called(answer)
            trace, said = wire.Fields(first), wire.encode(first)
            _check(trace)
            # Each may carry as much as a frame can: none but the first is kept.
            for _ in range(calls - 1):
                if wire.encode(self._called(answer)) != said:
                    raise NeedsDeviceError("forward does not do the same in each call")
        self._traces.append((self.session.inputs, trace))
        return trace

    def _called(self, answer: Answer) -> dict[str, Any]:
        """Let host code run forward once; return the trace."""
        inputs, answers = self.session.inputs, self._room_for(answer)
        if inputs.size + answers.size > MOST_BYTES:
            raise NeedsDeviceError("its tensors are large")
        room, fresh_room = self._host_arena("answers", answers.size)
        given, fresh_given = self._host_arena("inputs", inputs.size)
        fields = {
            "inputs": inputs.tree,
            "inputs_bytes": inputs.size,
            "answer": answers.tree,
            "answers_bytes": answers.size,
            "fresh": ["inputs"] * fresh_given + ["answers"] * fresh_room,
            "seed": next(self.told_seeds),
            "ghost": False,
            "trace": True,
        }
        fds = [given.fileno()] * fresh_given + [room.fileno()] * fresh_room
        done = self._ask_host(Kind.CALL, fields, fds, Kind.DONE).fields
        if done.mapping("refused") or done.flag("host_memory") or form_mismatch(done.value("output"), answer.output):
            raise NeedsDeviceError("forward does what a kernel should, or returns something else")
        if done.flag("returns_input"):
            self.evidence.flags.add("returns_input")
        return done.mapping("trace")

    def _host_arena(self, name: str, size: int) -> "tuple[Shared, bool]":
        """Return memory of the host for host code to work on, and whether it is new."""
        known = self._host_arenas.get(name)
        if known is not None and known[0] == size:
            return known[1], False
        made = self._host_memory.create(f"host-{name}", size, writable_by_peer=name == "answers")
        self._host_arenas[name] = (size, made)
        return made, True

    def _ask_host(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        given = self.seconds_left
        self.seconds_left = lent = min(given, HOST_S)
        try:
            return self._ask(kind, fields, fds, answer)
        finally:
            self.seconds_left += given - lent

    def _keep(self, message: Message) -> None:
        raise WireError(f"{message.kind.name} was sent; nothing is compiled on demand here.")

    # Launches --------------------------------------------------------------------------------------------------------

    @claims()
    def _try(self, trial: Trial, answer: Answer, *, traced: bool) -> None:
        """Run one trial as a replay and raise CandidateFailedError if the candidate does not pass it."""
        self.trace = self._trace_of(answer)
        if self.compiles:
            self._take_trace(self.trace)
            self._of_sample = self.trace, self.traced_inputs
        self._compile()
        self.answers = self._play(self._fresh_worker(), answer, garbage=True)
        self.evidence.trials += 1
        wrong = self._judge(answer)
        if wrong:
            remark = f" (this trial had {trial.remark})" if trial.remark else ""
            raise CandidateFailedError("incorrect", None, f"{wrong}{remark}.")

    def _compile(self) -> None:
        """On a device, wait until what the trace launches is compiled; no launch needs that where there is none."""
        if isinstance(self.compiling, CompileRun):
            return
        assert self.compiling is not None
        launches = launches_of(self.trace.sequence("events"))
        self.compiling.begin(launches)
        for launch in launches:
            found = self.compiling.of(launch, counted=self.compiles)
            if not found.ok and not self.compiles:
                raise NeedsDeviceError("what other shapes launch does not compile")
            if not found.ok:
                raise CandidateFailedError("runtime_error", found.category, found.message)

    def _make_ghost_inputs(self, rng: random.Random) -> None:
        for _ in range(FORM_ATTEMPTS):
            super()._make_ghost_inputs(rng)
            if self.session.inputs == self.traced_inputs:
                return
        raise NeedsDeviceError("its inputs have another form each time")

    def _ghost_is_right(self, answer: Answer) -> bool:
        try:
            self.answers = self._play(self._fresh_worker(), answer, ghost=True)
            return self._is_right(answer)
        except (CandidateFailedError, WireError):
            return False

    def _fresh_worker(self) -> Worker:
        """Return the worker that plays every replay of this evaluation."""
        if self._player is None:
            self._player = super()._fresh_worker()
            self.evidence.tier = min(self.evidence.tier, self._player.tier, key=TIER_STRENGTH.__getitem__)
        return self._player


def _check(trace: wire.Fields) -> None:
    """Raise for a trace that launches nothing, or that brings a content along."""
    events = trace.sequence("events")
    launches = {wire.encode(launch) for launch in launches_of(events)}
    if not launches:
        raise NeedsDeviceError("forward launches nothing")
    if len(launches) > MAX_LAUNCHES or sum(map(len, launches)) > MAX_LAUNCH_BYTES:
        raise NeedsDeviceError("forward launches more than is taken")
    if any(event[:1] == ["const"] and event[2:] != [b""] for event in events):
        raise NeedsDeviceError("forward uses memory that was made before it")


def _properties(memory: HostMemory | DeviceMemory) -> dict[str, Any]:
    """Return what host code is told of the device; nothing where there is none."""
    if not isinstance(memory, DeviceMemory):
        return {}
    found = torch.cuda.get_device_properties(memory.device)
    told = {name: getattr(found, name, None) for name in vars(gpuhost.PROPERTIES)}
    return {name: value for name, value in told.items() if isinstance(value, int | str)}
