"""The candidate worker: runs host code, and records what it does. None of its results are judged.

Everything here runs in a process that belongs to the candidate, so its reports are only hints: a recording can only
move data and launch kernels of the source, and a player replays it on contents that this process never sees.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.autograd.graph import increment_version

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.languages.base import Hooks, HostServices, KernelLanguage, RequestBuild
from warpsmith.evaluator.recordings import library_calls, module_state, outputs
from warpsmith.evaluator.recordings.errors import DetachedError, InputMutationError
from warpsmith.evaluator.recordings.library_calls import LibraryCall
from warpsmith.evaluator.recordings.library_policy import policy_of
from warpsmith.evaluator.recordings.operators import COUNTER, MAKES, READS, OperatorWatch, Watched
from warpsmith.evaluator.recordings.outputs import OutputError
from warpsmith.evaluator.recordings.recorder import Recorder
from warpsmith.evaluator.workers import calling, eager, fake_cuda, gpu_stand_in
from warpsmith.evaluator.workers.error_categories import CandidateError, categorise
from warpsmith.evaluator.workers.foreign_code import MAX_MESSAGE, execute, failure, root_cause
from warpsmith.evaluator.workers.loan import loans_of
from warpsmith.evaluator.workers.player import Player, player_for
from warpsmith.evaluator.workers.unreadable import ReadWatch, Unreadable, UnreadableWatch, new_memory

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MODULE_NAME: Final = "candidate"
DEVICE_SHARE: Final = 0.6
"""Share of a device's memory that torch may give a candidate; other allocations are detected later."""


def prepare(language: KernelLanguage) -> None:
    """Do one-time work that the first candidate would otherwise pay for; called in the zygote."""
    watch = OperatorWatch("none", lambda tensor: False, lambda name: None, lambda tensor: None)
    with Watched(watch), gpu_stand_in.GpuHost():
        torch.empty_like(torch.zeros(4)).view(2, 2).transpose(0, 1).contiguous()
    language.prepare_recording()


class Candidate:
    """One candidate: its module on the judge's parameters, and the watches around its forward.

    Args:
        channel: to the judge.
        fields: of LOAD.
        device: that its tensors lie on.
        language: that its kernels are written in.
        detached: whether there is neither a device nor content here: launches are recorded and do not run.
    """

    def __init__(
        self,
        channel: _native.Channel,
        fields: codec.Fields,
        device: Device,
        language: KernelLanguage,
        *,
        detached: bool,
    ) -> None:
        self.device = device
        self.language = language
        self.memory = Mappings(device)
        self.detached = detached
        self.unreadable = Unreadable(self.memory) if detached else None
        properties = fields.mapping("properties")
        # The same holds where there is no GPU to be detached from: the judge then sends no properties.
        self.interpreted = device.kind.interprets and not properties
        device.limit(DEVICE_SHARE)
        self.streams = fake_cuda.Streams()
        if device.kind.interprets:
            stand_in_properties = gpu_stand_in.properties_of(properties)
            self.streams = gpu_stand_in.install(stand_in_properties, disguised=True)
            language.stand_in(stand_in_properties)
        if detached:
            services = _services(language, partial(_build, channel), self.streams)
            hooks = language.record_detached(has_device=bool(properties), **services)
        elif device.kind.interprets:
            hooks = language.record_interpreted(partial(messages.send, channel, Kind.LAUNCH), self._is_read_only)
        else:
            hooks = _on_device(channel, device, language, self.streams)
        self.monitor, self.tuning = hooks.monitor, hooks.tuning
        self.operators = policy_of(fields.text("operators"))
        self._whole = library_calls.keep_whole() if self.operators != "none" else []
        self.gpu_host: gpu_stand_in.GpuHost | None = None
        self.buffers: dict[str, TensorSlot] = {}
        # Parameters in a layout of the candidate's own, each with the slot copied into it before each call.
        self.copied: list[tuple[torch.Tensor, TensorSlot]] = []
        self.inputs: dict[TensorSlot, torch.Tensor] = {}
        self.buffer_names: dict[str, str] = {}
        self.recorder = Recorder(self.memory, language, hooks.may_change)
        self.host_memory = False
        self.unread: DetachedError | None = None

    def load(self, fields: codec.Fields, fds: list[int], path: Path) -> dict[str, Any]:
        """Execute the source, construct `ModelNew` and bind its parameters; return the fields of LOADED."""
        self.loaded, self.path = fields, str(path)
        self.memory.receive("state", fields.integer("bytes"), fds, writable=False)
        with self._host():
            self.namespace = execute(fields.text("source"), path, MODULE_NAME)
        binding = self._construct(fields.integer("seed"))
        return {"unmatched": binding.unmatched, "hints": binding.hints, "buffers": sorted(self.buffers)}

    def _host(self) -> AbstractContextManager[Any]:
        """Let host code written for a GPU run without one."""
        if not self.device.kind.interprets:
            return nullcontext()
        self.gpu_host = gpu_stand_in.GpuHost(disguised=True)
        return self.gpu_host

    def _construct(self, seed: int) -> module_state.Binding:
        """Construct `ModelNew` on the judge's parameters and buffers; return how its parameters were matched."""
        if not isinstance(self.namespace.get("ModelNew"), type):
            raise CandidateError(
                "The source defines no class ModelNew. Define `class ModelNew(nn.Module)`, whose constructor takes the "
                "same arguments as Model's."
            )
        state = self.memory.buffers["state"]
        init = tensor_views.materialise(self.loaded.value("init"), lambda slot: tensor_views.apart(state, slot).clone())
        self.device.seed(seed)
        with self._host(), self.device.as_default():
            model = calling.constructed(self.namespace["ModelNew"], init)
        if not isinstance(model, nn.Module):
            raise CandidateError(
                f"ModelNew is not a torch.nn.Module: its constructor returns a {type(model).__name__}. Write "
                "`class ModelNew(nn.Module)`, and call super().__init__() first."
            )
        with self._host():
            self.model = model.to(self.device.torch_device)
        self._match_buffers()
        binding = module_state.bind(
            self.model,
            self.loaded.slot_map("parameters"),
            self.loaded.mapping("other_names"),
            lambda slot: tensor_views.apart(state, slot),
        )
        self.copied = binding.copied
        return binding

    def _own_buffers(self) -> dict[str, torch.Tensor]:
        """Return the module's tensors for the reference's buffers, by the reference's names."""
        own = module_state.tensors(self.model)
        return {name: own[self.buffer_names[name]] for name in self.buffers}

    def _match_buffers(self) -> None:
        """Find the reference's buffers that the module has, with the same shape and under any of their names."""
        slots, other_names = self.loaded.slot_map("buffers"), self.loaded.mapping("other_names")
        self.buffer_names = module_state.matching(self.model, slots, other_names)
        self.buffers = {name: slots[name] for name in self.buffer_names}

    def call(self, fields: codec.Fields, fds: list[int]) -> dict[str, Any]:
        """Run forward once; return the fields of DONE."""
        if fds:
            self.inputs.clear()
        inputs = self.memory.receive("inputs", fields.integer("inputs_bytes"), fds, writable=False)
        self._restore_state()
        self._show_changes()
        arguments = tensor_views.materialise(fields.value("inputs"), lambda slot: self._input(inputs, slot))
        output, watch = self._forward(arguments, fields)
        found: list[torch.Tensor] = []
        form = outputs.canonical(output, self._plain)
        described = tensor_views.describe(outputs.arranged(form, fields.mapping("answer")["output"]), found)
        return {
            "launches": self.monitor.launches,
            "refused": {name: watch.lines.get(name, 0) for name in list(watch.refused)[:20]},
            "host_memory": self.host_memory,
            "unawaited": bool(self.streams.pending),
            "timed": self.tuning.timed,
            "tuned": "; ".join(f"{name}({taken})" for name, taken in self.tuning.taken.items())[:200],
            "variants": self.tuning.variants,
            "output": described,
            "returns_input": any(self._is_read_only(tensor) for tensor in found),
            "trace": self._trace(found, fields.mapping("answer")["buffers"]),
        }

    def _input(self, memory: "Shared", slot: TensorSlot) -> torch.Tensor:
        """Return an input tensor, reusing the previous call's object at the same address, as a usual caller would.

        So host code finds again whatever it remembers by a tensor's identity or in its attributes.
        """
        made, known = tensor_views.apart(memory, slot), self.inputs.get(slot)
        if known is None or _layout(known) != _layout(made):
            self.inputs[slot] = known = made
        return known

    def _forward(self, arguments: list[Any] | dict[str, Any], fields: codec.Fields) -> tuple[Any, OperatorWatch]:
        self._begin_recording()
        on_done = self._note if self.detached else self.recorder.operator
        watch = UnreadableWatch(
            self.operators,
            self._is_read_only,
            _refuse_write,
            self._check_dtype,
            on_done=on_done,
            on_library=self._note_library,
        )
        watch.unreadable = self.unreadable
        watch.fills = watch.computes = not self.detached
        watch.path, watch.compiled = self.path, eager.is_compiled
        watch.counters = frozenset(
            buffer.data_ptr() for name, buffer in self.model.named_buffers() if name.rpartition(".")[2] == COUNTER
        )
        self.monitor.launches = 0
        self.unread = None
        self.streams.current = self.streams.default
        self.streams.pending.clear()
        self.monitor.on_launch = self.recorder.launch
        if not fields.flag("repeats"):
            self.tuning.next_call(fields.integer("seed"))
        self.device.seed(fields.integer("seed"))
        with Watched(watch), self._host() as host, self._without_contents():
            output = calling.called(self.model, arguments)
        if self.unread is not None:
            # Host code caught it, and continued as it would not on a device.
            raise self.unread
        # Work on other streams belongs to the call as well; its faults surface here.
        self.device.settle()
        self.host_memory = isinstance(host, gpu_stand_in.GpuHost) and host.host_memory
        return output, watch

    def _note(self, func: Any, name: str, args: Any, result: Any) -> None:
        """Record an operator where there is no device; tensors have no meaningful content there."""
        if name in READS:
            self._refuse_read(name)
        if not self.interpreted and name in MAKES and not (self.gpu_host is not None and self.gpu_host.making):
            raise DetachedError(f"{name} is called in a way that does not name its device")
        if self.unreadable is not None:
            self.unreadable.move(new_memory(func, name, args, result))
        self.recorder.operator(func, name, args, result)

    def _note_library(self, call: LibraryCall, results: Sequence[torch.Tensor]) -> None:
        if self.unreadable is not None and call.into is None:
            self.unreadable.move(results)
        self.recorder.library(call, results)

    def _refuse_read(self, name: str) -> None:
        self.unread = DetachedError(f"{name} reads a tensor's content")
        raise self.unread

    @contextmanager
    def _without_contents(self) -> Iterator[None]:
        """Where there is no device, let no code but an operator read a tensor's content."""
        if self.unreadable is None:
            yield
            return
        with ReadWatch(self._refuse_read), self.unreadable.during_call():
            yield

    def _check_dtype(self, tensor: torch.Tensor) -> None:
        if self.interpreted:
            self.language.check_interpreted(tensor)

    def _begin_recording(self) -> None:
        """Start recording a call whose buffers begin as in the judge's memory."""
        self.recorder.begin()
        restored = self._restored()
        shared = module_state.shared_memory(self.model, [tensor for tensor, _ in restored])
        for tensor, slot in restored:
            self.recorder.starts_as(tensor, slot, shared)

    def _trace(self, found: list[torch.Tensor], buffers: dict[str, TensorSlot]) -> dict[str, Any]:
        """Return the events, and the places of the outputs and then of the buffers after them."""
        own = self._own_buffers()
        described = [self.recorder.tensor(tensor) for tensor in (*found, *(own[name] for name in buffers))]
        return {"events": self.recorder.events, "outputs": described}

    def _restored(self) -> list[tuple[torch.Tensor, TensorSlot]]:
        """Return the module's tensors that are the candidate's own memory, each with the slot that it starts as."""
        own = self._own_buffers()
        return [*((own[name], slot) for name, slot in self.buffers.items()), *self.copied]

    def _restore_state(self) -> None:
        for tensor, slot in self._restored():
            tensor.data.copy_(tensor_views.view(self.memory.buffers["state"], slot))

    def _show_changes(self) -> None:
        """Give parameters and buffers a new version, as a copy into them does.

        torch does not see the judge's writes, and a module may reuse derived values until a version changes.
        """
        own = module_state.tensors(self.model).values()
        increment_version([tensor for tensor in own if not tensor.is_inference()])

    def _plain(self, tensor: torch.Tensor, place: str) -> torch.Tensor:
        """Detach an output from autograd; OutputError if it is not a plain, dense tensor."""
        device = "cuda"  # without a GPU, tensors claim to be on one
        if type(tensor) not in {torch.Tensor, nn.Parameter}:
            # A subclass could compute something when it is read.
            raise OutputError(f"{place} is a {type(tensor).__name__}. Return a plain torch.Tensor.")
        if tensor.layout != torch.strided or tensor.dtype not in tensor_views.NAMES:
            raise OutputError(
                f"{place} is a {tensor.layout} tensor of {tensor.dtype}. Return a dense one of the dtype of Model's."
            )
        if tensor.device.type != device:
            raise OutputError(
                f"{place} is on {tensor.device}, not on {device}. Make it on the device of the inputs: "
                "torch.empty(..., device=x.device)."
            )
        return tensor.detach()

    def _is_read_only(self, tensor: torch.Tensor) -> bool:
        return self.memory.is_read_only(tensor.untyped_storage().data_ptr())


def _build(channel: _native.Channel, fields: dict[str, Any]) -> codec.Fields:
    """Let the judge compile what host code asks for."""
    messages.send(channel, Kind.BUILD, fields)
    return messages.receive(channel).fields


def _on_device(channel: _native.Channel, device: Device, language: KernelLanguage, streams: fake_cuda.Streams) -> Hooks:
    def built(fields: dict[str, Any]) -> codec.Fields:
        device.settle()
        return _build(channel, fields)

    def compiled(launch: dict[str, Any]) -> codec.Fields:
        # The judge leaves the device to others meanwhile.
        device.settle()
        messages.send(channel, Kind.LAUNCH, launch)
        return messages.receive(channel).fields

    hooks = language.record_on_device(device, compiled, **_services(language, built, streams))
    language.stand_in(device.properties())
    gpu_stand_in.install_beside_device(streams)
    return hooks


def _services(language: KernelLanguage, build: RequestBuild, streams: fake_cuda.Streams) -> dict[str, HostServices]:
    """Return the argument `services` for a language that takes one; others need not know about it."""
    return {"services": HostServices(build, streams)} if language.builds_ahead else {}


def _refuse_write(operator: str) -> None:
    raise InputMutationError(
        f"{operator} writes to an input or a parameter; both are read-only. Write to memory of torch.empty_like."
    )


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what a candidate can change about a tensor without writing to it (`unsqueeze_`, `requires_grad_`)."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad


def serve(
    channel: _native.Channel, scratch: Path, device: Device, language: KernelLanguage, *, detached: bool = False
) -> None:
    """Record one candidate, or play recordings, until the judge closes the channel.

    `detached`: launches are only recorded, in a process without a device.
    """
    path = scratch / f"{MODULE_NAME}.py"
    held: Candidate | Player | None = None
    with torch.no_grad():
        while True:
            message = messages.receive_work(channel)
            try:
                held = _step(channel, held, message, path, device, language=language, detached=detached)
            except SystemExit as error:
                messages.send(channel, Kind.FAILED, _failure(message, error, path, language))
            except Exception as error:  # noqa: BLE001  (foreign code may raise anything; the judge hears what)
                messages.send(channel, Kind.FAILED, _failure(message, error, path, language))


def _failure(message: Message, error: BaseException, path: Path, language: KernelLanguage) -> dict[str, Any]:
    root = root_cause(error)
    report = failure(message.kind.name.lower(), root, path)
    trace = report["trace"] or failure("", error, path)["trace"]
    text = f"{report['message']}{_hint(root, path, language)}"[: 2 * MAX_MESSAGE]
    return report | {"message": text, "trace": trace, "category": categorise(error, language)}


def _hint(error: BaseException, path: Path, language: KernelLanguage) -> str:
    """Return what is expected, if a source is not Python or needs a missing package; otherwise an empty text."""
    match error:
        case SyntaxError(filename=str(name)) if name == str(path) and "ModelNew" not in path.read_text(
            "utf-8", "replace"
        ):
            return f". A candidate is a Python module that defines ModelNew, with {language.kernel_form}."
        case ModuleNotFoundError(name=str(name)):
            return (
                f". The judge's environment has no {name}: write kernels in {language.title}, and host code with torch."
            )
        case _:
            return ""


def _step(
    channel: _native.Channel,
    held: Candidate | Player | None,
    message: Message,
    path: Path,
    device: Device,
    *,
    language: KernelLanguage,
    detached: bool,
) -> Candidate | Player | None:
    """Answer one message; return the object that serves the next one."""
    fields, fds = message.fields, message.fds
    match message.kind, held:
        case Kind.LOAD, None:
            held = Candidate(channel, fields, device, language, detached=detached)
            messages.send(channel, Kind.LOADED, held.load(fields, fds, path))
        case Kind.CALL, Candidate():
            messages.send(channel, Kind.DONE, held.call(fields, fds))
        case Kind.REPLAY, None | Player():
            held = held or player_for(device, language, path.parent)
            messages.send(channel, Kind.DONE, held.play(fields, fds, loans_of(channel, fields, device.settle)))
        case Kind.PROFILE, Player():
            messages.send(channel, Kind.PROFILED, held.profile())
        case Kind.RING, Player():
            held.ring(fields, fds, loans_of(channel, fields, device.settle))
            messages.send(channel, Kind.RINGED, {})
        case Kind.ROUND, Player():
            messages.send(channel, Kind.ROUNDED, held.round(fields, loans_of(channel, fields, device.settle)))
        case _:
            raise WireError(f"A candidate worker cannot handle {message.kind.name} now.")
    return held
