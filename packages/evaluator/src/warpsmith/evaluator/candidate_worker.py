"""The candidate worker: runs `ModelNew`, interpreted on a CPU or for real on a GPU, on inputs that it only reads.

Everything here runs in a process that belongs to the candidate. What it reports is a hint; the judge believes the
content of the output buffer alone.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from triton.runtime.errors import InterpreterError

from warpsmith.evaluator import _native, arenas, descriptors, gpuhost, interpreting, launching, protocol, tuning, wire
from warpsmith.evaluator.chip import ChipDiffersError
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.kernels import ArgumentError, Binary
from warpsmith.evaluator.layout import TensorSlot
from warpsmith.evaluator.libdevice import UnsupportedOnCpuError
from warpsmith.evaluator.memory import DeviceMemory, HostMemory
from warpsmith.evaluator.operators import COUNTER, MAKES, READS, OperatorWatch, Watched
from warpsmith.evaluator.protocol import Kind, Message
from warpsmith.evaluator.replay import DeviceReplay, Replay
from warpsmith.evaluator.rounds import Rounds
from warpsmith.evaluator.trace import Recorder
from warpsmith.evaluator.worker import Memory, execute, failure, root_cause

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import Shared

MODULE_NAME: Final = "candidate"
DEVICE_SHARE: Final = 0.6
"""Share of a device's memory that torch gives a candidate; what takes more by other means is found out later."""


class CandidateError(RuntimeError):
    """The candidate's source has not the form that was asked for."""


def prepare() -> None:
    """Do what the first candidate would otherwise pay for; called in the zygote."""
    watch = OperatorWatch((), lambda tensor: False, lambda name: None, lambda tensor: None)
    with Watched(watch), gpuhost.GpuHost():
        torch.empty_like(torch.zeros(4)).view(2, 2).transpose(0, 1).contiguous()
    inspect.getsource(interpreting)


class Candidate:
    """One candidate: its module on the judge's parameters, and the watches around its forward."""

    def __init__(
        self, channel: _native.Channel, fields: wire.Fields, kind: HostMemory | DeviceMemory, *, apart: bool
    ) -> None:
        self.kind = kind
        self.memory = Memory(kind)
        self.apart = apart
        # So it is too where host code is apart from no GPU at all: the judge tells no properties of one then.
        self.interpreted = kind.device.type == "cpu" and not (apart and fields.mapping("properties"))
        kind.limit(DEVICE_SHARE)
        self.monitor: interpreting.LaunchMonitor | launching.DeviceMonitor | launching.ApartMonitor
        self.tuning: tuning.Tuning | launching.DeviceTuning | launching.NoTuning
        if apart:
            self.monitor, self.tuning = _apart(fields.mapping("properties"))
        elif isinstance(kind, DeviceMemory):
            self.monitor, self.tuning = _on_device(channel, kind)
        else:
            self.monitor, self.tuning = _interpreted(channel, self._is_read_only)
        extra_operators = fields.texts("extra_operators")
        self.extra_operators = extra_operators
        self.gpu_host: gpuhost.GpuHost | None = None
        self.buffers: dict[str, TensorSlot] = {}
        self.inputs: dict[TensorSlot, torch.Tensor] = {}
        self.recorder: Recorder | None = None
        self.host_memory = False

    def load(self, fields: wire.Fields, fds: list[int], path: Path) -> dict[str, Any]:
        """Execute the source, construct `ModelNew` and bind its parameters; return the fields of LOADED."""
        state = self.memory.receive("state", fields.integer("bytes"), fds, writable=False)
        with self._unread(), self._host():
            self.model = self._construct(execute(fields.text("source"), path, MODULE_NAME), fields, state)
            self.model = self.model.to(self.kind.device)
        unmatched = self._bind(fields.slot_map("parameters"), state)
        self.buffers = self._matching_buffers(fields.slot_map("buffers"))
        return {"unmatched": unmatched, "buffers": sorted(self.buffers)}

    def _host(self) -> AbstractContextManager[Any]:
        """Where there is no GPU, let host code that is written for one run."""
        if self.kind.device.type != "cpu":
            return nullcontext()
        self.gpu_host = gpuhost.GpuHost(disguised=self.apart)
        return self.gpu_host

    @contextmanager
    def _unread(self) -> Iterator[None]:
        """Apart from the device, let no constructor read a tensor: its random numbers are others than on one."""
        if not self.apart:
            yield
            return
        watch = OperatorWatch((), lambda _: False, lambda _: None, lambda _: None, _refuse_reads)
        watch.fills = False
        with Watched(watch):
            yield
        if exported := [name for name in watch.refused if name.startswith("Tensor.")]:
            raise launching.ApartError(f"the constructor calls {exported[0]}")

    def _construct(self, namespace: dict[str, Any], fields: wire.Fields, state: "Shared") -> nn.Module:
        if not isinstance(namespace.get("ModelNew"), type):
            raise CandidateError("the source defines no class ModelNew")
        self.kind.seed(fields.integer("seed"))
        init = arenas.materialise(fields.value("init"), lambda slot: arenas.view(state, slot).clone())
        with self.kind.placing():
            model = namespace["ModelNew"](*init)
        if not isinstance(model, nn.Module):
            raise CandidateError("ModelNew must be a subclass of torch.nn.Module")
        return model

    def _bind(self, slots: dict[str, TensorSlot], state: "Shared") -> list[str]:
        """Let parameters of the same name and shape live in the judge's memory; return the names that found none."""
        own = dict(self.model.named_parameters())
        for name in own.keys() & slots.keys():
            if arenas.slot_of(own[name]).same_kind(slots[name]):
                own[name].data = arenas.view(state, slots[name])
                del slots[name]
        return sorted(slots)

    def _matching_buffers(self, slots: dict[str, TensorSlot]) -> dict[str, TensorSlot]:
        own = dict(self.model.named_buffers())
        return {name: slot for name, slot in slots.items() if name in own and arenas.slot_of(own[name]).same_kind(slot)}

    def call(self, fields: wire.Fields, fds: list[int]) -> dict[str, Any]:
        """Run forward once and copy what it returns to the judge's buffer; return the fields of DONE."""
        fresh = fields.texts("fresh")
        inputs = self.memory.receive(
            "inputs", fields.integer("inputs_bytes"), fds[:1] if "inputs" in fresh else [], writable=False
        )
        answers = self.memory.receive(
            "answers", fields.integer("answers_bytes"), fds[-1:] if "answers" in fresh else [], writable=True
        )
        self._restore_buffers()
        if "inputs" in fresh:
            self.inputs.clear()
        arguments = arenas.materialise(fields.value("inputs"), lambda slot: self._input(inputs, slot))
        output, watch = self._forward(arguments, fields)
        described, mismatch = self._deliver(output, fields.mapping("answer"), answers)
        return {
            "launches": self.monitor.launches,
            "refused": dict(list(watch.refused.items())[:20]),
            "host_memory": self.host_memory,
            "timed": self.tuning.timed,
            "tuned": "; ".join(f"{name}({taken})" for name, taken in self.tuning.taken.items())[:200],
            "output": described,
            "mismatch": mismatch,
            "returns_input": any(self._is_read_only(tensor) for tensor in _tensors(output)),
            "trace": self._trace(output, fields.mapping("answer")["buffers"]),
        }

    def _input(self, memory: "Shared", slot: TensorSlot) -> torch.Tensor:
        """Return the tensor of the call before where it lies at the same address, as a caller that keeps its own does.

        So what is remembered by the identity of a tensor, or in an attribute of it, meets other content.
        """
        made, kept = arenas.view(memory, slot), self.inputs.get(slot)
        if kept is None or _layout(kept) != _layout(made):
            self.inputs[slot] = kept = made
        return kept

    def _forward(self, arguments: list[Any], fields: wire.Fields) -> tuple[Any, OperatorWatch]:
        self.recorder = self._new_recorder() if fields.flag("trace") else None
        on_done = self._note if self.apart else self.recorder.operator if self.recorder else None
        watch = OperatorWatch(self.extra_operators, self._is_read_only, _refuse_write, self._check_dtype, on_done)
        watch.fills = not self.apart
        watch.counters = frozenset(
            buffer.data_ptr() for name, buffer in self.model.named_buffers() if name.rpartition(".")[2] == COUNTER
        )
        self.monitor.launches = 0
        self.monitor.on_launch = self.recorder.launch if self.recorder else None
        self.monitor.ghost = fields.flag("ghost")
        self.tuning.next_call(fields.integer("seed"))
        self.kind.seed(fields.integer("seed"))
        with Watched(watch), self._host() as host:
            output = self.model(*arguments)
        # Work on other streams belongs to the call as well; a fault of it shows here.
        self.kind.settle()
        self.host_memory = isinstance(host, gpuhost.GpuHost) and host.host_memory
        return output, watch

    def _note(self, func: Any, name: str, args: Any, result: Any) -> None:
        """Note what an operator did where there is no device; nothing there has the content that it has on one."""
        _refuse_reads(func, name, args, result)
        if name in MAKES and not (self.gpu_host is not None and self.gpu_host.making):
            raise launching.ApartError(f"{name} is called in a way that does not tell its device")
        if self.recorder is not None:
            self.recorder.operator(func, name, args, result)

    def _check_dtype(self, tensor: torch.Tensor) -> None:
        if self.interpreted:
            _refuse_bf16(tensor)

    def _new_recorder(self) -> Recorder:
        """Return a recorder that knows where the module's buffers have their content from."""
        recorder, own = Recorder(self.memory), dict(self.model.named_buffers())
        for name, slot in self.buffers.items():
            recorder.starts_as(own[name], slot)
        return recorder

    def _trace(self, output: Any, buffers: dict[str, TensorSlot]) -> dict[str, Any]:
        """Return the events, and where the output and then the buffers lie after them."""
        if self.recorder is None:
            return {}
        own = dict(self.model.named_buffers())
        outputs = [self.recorder.tensor(tensor) for tensor in (*_tensors(output), *(own[name] for name in buffers))]
        return {"events": self.recorder.events, "outputs": outputs}

    def _restore_buffers(self) -> None:
        own = dict(self.model.named_buffers())
        for name, slot in self.buffers.items():
            own[name].copy_(arenas.view(self.memory.buffers["state"], slot))

    def _deliver(self, output: Any, answer: dict[str, Any], arena: "Shared") -> tuple[wire.Value, str]:
        """Copy the output where it has the expected form; return its own form and, where that differs, how."""
        found: list[torch.Tensor] = []
        described = arenas.describe(_checked(output, "cuda" if self.apart else self.kind.device.type), found)
        slots = list(wire.slots(answer["output"]))
        same = [slot.same_kind(arenas.slot_of(tensor)) for slot, tensor in zip(slots, found, strict=False)]
        if len(slots) != len(found) or not all(same):
            return described, "form"
        for slot, tensor in zip(slots, found, strict=True):
            arenas.view(arena, slot).copy_(tensor)
        own = dict(self.model.named_buffers())
        for name, slot in answer["buffers"].items():
            arenas.view(arena, slot).copy_(own[name])
        self.kind.settle()
        return described, ""

    def _is_read_only(self, tensor: torch.Tensor) -> bool:
        return self.memory.is_read_only(tensor.untyped_storage().data_ptr())


def _interpreted(
    channel: _native.Channel, is_read_only: Callable[[torch.Tensor], bool]
) -> tuple[interpreting.LaunchMonitor, tuning.Tuning]:
    monitor = interpreting.LaunchMonitor(lambda signature: protocol.send(channel, Kind.LAUNCH, signature), is_read_only)
    interpreting.install(monitor)
    turns = tuning.Tuning(monitor.report_only)
    tuning.install(turns)
    gpuhost.install()
    return monitor, turns


def _apart(properties: dict[str, Any]) -> tuple[launching.ApartMonitor, launching.NoTuning]:
    monitor, tunes_nothing = launching.ApartMonitor(), launching.NoTuning()
    launching.install(monitor, tunes_nothing)
    gpuhost.install(gpuhost.properties_of(properties), disguised=True)
    return monitor, tunes_nothing


def _on_device(
    channel: _native.Channel, memory: DeviceMemory
) -> tuple[launching.DeviceMonitor, launching.DeviceTuning]:
    def compiled(launch: dict[str, Any]) -> Binary:
        # The judge leaves the device to others meanwhile.
        memory.settle()
        protocol.send(channel, Kind.LAUNCH, launch)
        fields = protocol.receive(channel).fields
        if not fields.flag("ok"):
            raise launching.KernelFailedError(fields.text("message"), fields.text("category"))
        return Binary.of(fields.value("binary"))

    monitor = launching.DeviceMonitor(memory, compiled)
    best = launching.DeviceTuning(monitor)
    launching.install(monitor, best)
    return monitor, best


def _refuse_reads(func: Any, name: str, args: Any, result: Any) -> None:
    if name in READS:
        raise launching.ApartError(f"{name} reads a tensor's content")


def _refuse_write(operator: str) -> None:
    raise interpreting.InputMutationError(f"{operator} writes to an input or a parameter; both are read-only")


def _refuse_bf16(tensor: torch.Tensor) -> None:
    if tensor.dtype == torch.bfloat16:
        raise interpreting.UnsupportedDtypeError(interpreting.BF16_MESSAGE)


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what a candidate may have changed of a tensor without writing to it (`unsqueeze_`, `requires_grad_`)."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad


def _checked(tree: Any, device: str) -> Any:
    """Return an output tree with lists as tuples; raise for a tensor subclass, which could compute when read."""
    match tree:
        case torch.Tensor():
            if type(tree) not in {torch.Tensor, nn.Parameter}:
                raise CandidateError(f"forward returned a {type(tree).__name__}; a plain torch.Tensor was expected")
            if tree.device.type != device or tree.layout != torch.strided:
                raise CandidateError(
                    f"forward returned a {tree.layout} tensor on {tree.device}; a dense {device} one was expected"
                )
            return tree.detach()
        case list() | tuple():
            return tuple(_checked(item, device) for item in tree)
        case dict():
            return {key: _checked(item, device) for key, item in tree.items()}
        case _:
            return tree


def _tensors(tree: Any) -> list[torch.Tensor]:
    match tree:
        case torch.Tensor():
            return [tree]
        case list() | tuple():
            return [tensor for item in tree for tensor in _tensors(item)]
        case dict():
            return [tensor for item in tree.values() for tensor in _tensors(item)]
        case _:
            return []


_CATEGORIES: Final[dict[type[BaseException], str]] = {
    SyntaxError: "syntax_error",
    CandidateError: "parse_error",
    ArgumentError: "triton_jit_error",
    torch.OutOfMemoryError: "out_of_memory",
    interpreting.UnsupportedDtypeError: "unsupported_dtype",
    UnsupportedOnCpuError: "unsupported_architecture",
    ChipDiffersError: "interpreter_differs",
    interpreting.IllegalAccessError: "illegal_memory_access",
    interpreting.InputMutationError: "memory_fault",
    InterpreterError: "triton_jit_error",
}


_SAID_BY_CUDA: Final = {
    "an illegal memory access was encountered": "illegal_memory_access",
    "misaligned address": "illegal_memory_access",
    "CUDA error: out of memory": "out_of_memory",
    "CUDA_ERROR_OUT_OF_MEMORY": "out_of_memory",
}
"""What torch and the driver call by no type of their own."""


def categorise(error: BaseException) -> str:
    """Return the error category of what a candidate raised, looking at the first cause before the last."""
    for found in (root_cause(error), error):
        if isinstance(found, launching.KernelFailedError):
            return found.category
        for said, category in _SAID_BY_CUDA.items():
            if said in str(found):
                return category
        for kind, category in _CATEGORIES.items():
            if isinstance(found, kind):
                return category
        if descriptors.refuses(found):
            return "triton_jit_error"
    return "unknown"


class HostReplays:
    """Runs traces with the interpreted kernels of a source and nothing else of it, one after the other.

    Args:
        folder: where extracted sources may be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = Memory()
        # Once: a monitor stays as long as its process does.
        interpreting.install(interpreting.LaunchMonitor(lambda _: None, self._is_read_only))

    def _is_read_only(self, tensor: torch.Tensor) -> bool:
        return self._memory.is_read_only(tensor.untyped_storage().data_ptr())

    def play(self, fields: wire.Fields, fds: list[int]) -> None:
        """Run a trace on the memory that comes with it; as `ghost` without the kernels too."""
        self._memory = memory = Memory()
        for name in ("inputs", "state", "answers"):
            memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
        slots = {name: list(wire.slots(fields.value(f"{name}_slots"))) for name in ("inputs", "state")}
        given = {name: memory.buffers[name] for name in slots}
        player = Replay(fields.text("source"), self._folder, given, slots)
        events = fields.sequence("events")
        player.run([event for event in events if event[:1] != ["launch"]] if fields.flag("ghost") else events)
        player.deliver(fields.sequence("outputs"), fields.value("answer"), memory.buffers["answers"])


def replay_on_device(fields: wire.Fields, fds: list[int], kind: DeviceMemory) -> DeviceReplay:
    """Run a trace with compiled kernels, as `DeviceReplay.play` does; return what can run it again."""
    memory = Memory(kind)
    for name in ("inputs", "state", "answers"):
        memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
    binaries = [Binary.of(values) for values in fields.sequence("binaries")]
    player = DeviceReplay(kind, memory.buffers["state"], fields.sequence("events"), binaries)
    player.expect(fields.sequence("outputs"), fields.value("answer"))
    player.set_up(memory.buffers["inputs"], memory.buffers["answers"])
    _play(player, fields)
    return player


def _play(player: DeviceReplay, fields: wire.Fields) -> None:
    player.play(ghost=fields.flag("ghost"), garbage=fields.flag("garbage"))


def serve(channel: _native.Channel, scratch: Path, kind: HostMemory | DeviceMemory, *, apart: bool = False) -> None:
    """Load one candidate, or play one trace, until the judge closes the channel.

    `apart` has a candidate's launches written down alone, in a process that has no device.
    """
    path = scratch / f"{MODULE_NAME}.py"
    candidate: Candidate | DeviceReplay | HostReplays | Rounds | None = None
    with torch.no_grad():
        while True:
            message = protocol.receive_work(channel)
            try:
                candidate = _step(channel, candidate, message, path, kind, apart=apart)
            except SystemExit as error:
                protocol.send(channel, Kind.FAILED, _failure(message, error, path))
            except Exception as error:  # noqa: BLE001  (foreign code may raise anything; the judge hears what)
                protocol.send(channel, Kind.FAILED, _failure(message, error, path))


def _failure(message: Message, error: BaseException, path: Path) -> dict[str, Any]:
    root = root_cause(error)
    report = failure(message.kind.name.lower(), root, path)
    trace = report["trace"] or failure("", error, path)["trace"]
    return report | {"trace": trace, "category": categorise(error)}


def _step(
    channel: _native.Channel,
    held: Candidate | DeviceReplay | HostReplays | Rounds | None,
    message: Message,
    path: Path,
    kind: HostMemory | DeviceMemory,
    *,
    apart: bool,
) -> Candidate | DeviceReplay | HostReplays | Rounds | None:
    """Answer one message; return what the next one is for."""
    match message.kind, held:
        case Kind.LOAD, None:
            held = Candidate(channel, message.fields, kind, apart=apart)
            protocol.send(channel, Kind.LOADED, held.load(message.fields, message.fds, path))
        case Kind.REPLAY, DeviceReplay() if message.fields.flag("again"):
            _play(held, message.fields)
            protocol.send(channel, Kind.DONE, {})
        case Kind.REPLAY, None | DeviceReplay() if isinstance(kind, DeviceMemory):
            if held is not None:
                # Two traces at once could want more memory than there is.
                held.clear()
            held = replay_on_device(message.fields, message.fds, kind)
            protocol.send(channel, Kind.DONE, {})
        case Kind.REPLAY, None | HostReplays():
            held = held or HostReplays(path.parent)
            held.play(message.fields, message.fds)
            protocol.send(channel, Kind.DONE, {})
        case Kind.CALL, Candidate():
            protocol.send(channel, Kind.DONE, held.call(message.fields, message.fds))
        case Kind.RING, DeviceReplay() if isinstance(kind, DeviceMemory):
            held = Rounds(kind, held.ring(message.fields, message.fds))
            protocol.send(channel, Kind.RINGED, {})
        case Kind.ROUND, Rounds():
            protocol.send(channel, Kind.ROUNDED, held.round(message.fields))
        case _:
            raise WireError(f"A candidate worker has no answer to {message.kind.name} now.")
    return held
