"""Host code that reads contents, recorded with its kernels running: on an emulated device, so without a GPU.

The candidates are those that `test_on_device_cuda_gpu.py` has judged on a GPU. Here each is recorded twice, on two
contents, and its recordings are replayed on a third one; only the sandbox, the judge and memory protection are missing.
"""

import tempfile
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from content_readers import (
    COLUMNS,
    DISHONEST,
    HONEST,
    KERNELS,
    LAUNCHED,
    NOT_AWAITED,
    ON_MEMORY,
    ROWS,
    VARIABLES,
    Reader,
)
from emulated_gpu import EmulatedGpu, library_of

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import contiguous, pack
from warpsmith.evaluator.languages.cuda_cpp import arguments, compilation, toolkit
from warpsmith.evaluator.languages.cuda_cpp.execution import DetachedCalls, DeviceCalls
from warpsmith.evaluator.languages.cuda_cpp.extension_loader import Loader
from warpsmith.evaluator.languages.cuda_cpp.language import CUDA_CPP
from warpsmith.evaluator.languages.cuda_cpp.launches import SYMBOL
from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import LaunchMonitor, Runtime
from warpsmith.evaluator.recordings.errors import DetachedError, InputMutationError
from warpsmith.evaluator.recordings.history import Called, History
from warpsmith.evaluator.recordings.operators import OperatorWatch, Watched
from warpsmith.evaluator.recordings.recorder import Recorder
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.workers import fake_cuda
from warpsmith.evaluator.workers.player_host import Replay

pytestmark = pytest.mark.slow
SLOTS, SIZE = pack([contiguous("float32", (ROWS, COLUMNS))] * 2, 1 << 20)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The build of all candidates: its library and cubins as of nvcc, and its kernels as host code."""
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    kernels = library_of(KERNELS, LAUNCHED, tmp_path_factory.mktemp("kernels"))
    answers: dict[str, Any] = {}

    def request(fields):
        text = fields["build"]
        if text not in answers:
            found = compilation.compile_text(text, tmp_path_factory.mktemp("build"), 90, twins=False)
            assert found["ok"], found["message"]
            answers[text] = {"ok": True, "message": "", "category": "", "binary": found["binaries"][0]}
        return codec.Fields(answers[text])

    return SimpleNamespace(request=request, kernels=kernels)


class ReplayOnDevice(Replay):
    """Replays with launches of the emulated device."""

    def __init__(self, gpu, buffers, slots):
        super().__init__(None, buffers, slots)  # type: ignore[arg-type]
        self._gpu = gpu

    def _launch(self, kernel, grid, given, options):
        values = [arguments.on_device(given[name], self.tensor) for name in sorted(given)]
        if kernel == SYMBOL:
            (source,) = values
            held = [*source.tensors] or [torch.frombuffer(bytearray(source.packed()), dtype=torch.uint8)]
            target = torch.from_numpy(self._gpu.module.variable(options["variable"]))
            target[options["offset"] :][: options["size"]] = held[0][: options["size"]]
            return
        prepared = self._gpu.module.kernel(kernel, 0).prepare(
            grid, options["block"], (1, 1, 1), False, [one.packed() for one in values]
        )
        prepared.launch(0)


@dataclass(frozen=True)
class Recorded:
    """A recorded call: its pattern, and its events behind those of the calls that it depends on."""

    pattern: bytes
    events: list[Any]
    past: tuple[Any, ...]
    call: Called
    overwrites: bool

    @property
    def kinds(self):
        return [event[0] for event in self.call.events]

    @property
    def launches(self):
        return [event for event in self.call.events if event[0] == "launch"]


@dataclass
class Session:
    """A candidate in this process, recorded on an emulated device."""

    gpu: EmulatedGpu
    execution: Any
    streams: fake_cuda.Streams
    monitor: LaunchMonitor
    recorder: Recorder
    history: History = field(default_factory=History)
    begins: Any = None
    model: Any = None

    def call(self, x, y):
        """Run forward on contents; return the recorded call, and the output."""
        inputs = _written(x, y)
        memory = self.recorder._memory
        memory.buffers = {"inputs": inputs, "state": _buffer("state", 512)}
        given = [tensor_views.apart(inputs, slot) for slot in SLOTS]
        self.recorder.begin()
        self.begins()
        self.monitor.on_launch = self.recorder.launch
        self.streams.pending.clear()
        self.streams.current = self.streams.default
        watch = OperatorWatch(
            "none",
            lambda tensor: any(tensor.untyped_storage().data_ptr() == one.data_ptr() for one in given),
            _refuse_write,
            lambda tensor: None,
            on_done=self.recorder.operator,
        )
        with torch.no_grad(), Watched(watch):
            output = self.model(*given)
        assert not watch.refused
        events, place = self.recorder.events, self.recorder.tensor(output)
        call = Called(Form.of(SLOTS, 1 << 30), {}, events, [place])
        overwrites = self.history.overwrites_outputs(call)
        recorded = Recorded(self.history.pattern(call), *self.history.with_dependencies(call), call, overwrites)
        self.history.calls.append(call)
        return recorded, output.clone()

    def replayed(self, recorded, x, y):
        """Return the output of a recorded call's replay on other contents, after the calls that it depends on."""
        self.gpu.module.reset()
        names = ["inputs", *(one.name for one in recorded.past)]
        # Earlier calls had other contents still.
        buffers = {name: _written(*((x, y) if name == "inputs" else _drawn(99))) for name in names}
        replay = ReplayOnDevice(self.gpu, buffers, dict.fromkeys(names, SLOTS))
        replay.run(recorded.events)
        return replay.tensor(recorded.call.outputs[0]).clone()


def _buffer(name, size):
    return _native.Buffer.create(name, size, False)


def _written(x, y):
    buffer = _buffer("inputs", SIZE)
    for slot, value in zip(SLOTS, (x, y), strict=True):
        tensor_views.view(buffer, slot).copy_(value)
    return buffer


def _drawn(seed):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, COLUMNS, generator=drawn), torch.randn(ROWS, COLUMNS, generator=drawn)


def _refuse_write(operator):
    raise InputMutationError(f"{operator} writes to an input; both are read-only.")


@pytest.fixture
def opened(compiled, monkeypatch, tmp_path):
    """Returns a function that loads a candidate on the emulated device, or detached."""
    folders = count()

    def start(reader, *, detached=False):
        # A library that is loaded must not be written again.
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        gpu = EmulatedGpu(compiled.kernels, VARIABLES)
        gpu.module.reset()
        execution = DetachedCalls() if detached else DeviceCalls(gpu)
        monkeypatch.setattr(execution, "device", torch.device("cpu"), raising=False)
        streams, monitor = fake_cuda.Streams(), LaunchMonitor()
        runtime = Runtime(monitor, execution, streams)
        loader = Loader(compiled.request, runtime)
        monkeypatch.setattr(torch.utils.cpp_extension, "load_inline", loader.load_inline)
        recorder = Recorder(Mappings(gpu), CUDA_CPP, runtime.may_change)
        session = Session(gpu, execution, streams, monitor, recorder, begins=runtime.begin_call)
        namespace: dict[str, Any] = {}
        exec(reader.source.replace('device="cuda"', 'device="cpu"'), namespace)
        session.model = namespace["ModelNew"]()
        return session

    return start


def outcome(session):
    """Return how a candidate ends: `correct`, `incorrect`, or `rejected` if its launches depend on a content.

    As the judge finds it: two calls on two contents with the same ends, replays of what they did on others, and where
    one is wrong a call on the content of that trial.
    """
    first, second = _drawn(1), _drawn(2)
    for one, other in zip(first, second, strict=True):
        other[: ROWS // 4], other[-ROWS // 4 :] = one[: ROWS // 4], one[-ROWS // 4 :]
    recordings: dict[bytes, Recorded] = {}
    for contents in (first, second):
        recorded, _ = session.call(*contents)
        if recorded.overwrites:
            return "rejected"
        recordings.setdefault(recorded.pattern, recorded)
    for seed in (3, 4, 5):
        x, y = _drawn(seed)
        for recorded in recordings.values():
            if not torch.equal(session.replayed(recorded, x, y), x + y):
                again, _ = session.call(x, y)
                return "rejected" if again.pattern not in recordings else "incorrect"
    return "correct"


@pytest.mark.parametrize("name", HONEST)
def test_what_only_checks_a_content_is_right_on_other_contents(opened, name):
    session = opened(HONEST[name])
    x, y = _drawn(7)
    recorded, output = session.call(x, y)
    assert torch.equal(output, x + y), "the kernels ran"
    assert any(event[1] != SYMBOL for event in recorded.launches)
    assert outcome(opened(HONEST[name])) == "correct"


@pytest.mark.parametrize("name", DISHONEST)
def test_what_takes_its_output_from_a_content_is_found_out(opened, name):
    assert outcome(opened(DISHONEST[name])) in DISHONEST[name].permitted


@pytest.mark.parametrize("name", ["item_is_checked", "copy_is_checked", "async_copy_is_checked"])
def test_detached_each_ends_where_it_reads(opened, name):
    """But for `item`, which the worker's watch refuses."""
    session = opened(HONEST[name], detached=True)
    if name == "item_is_checked":
        recorded, _ = session.call(*_drawn(1))
        assert recorded.launches
    else:
        with pytest.raises(DetachedError, match="content to the host"):
            session.call(*_drawn(1))


@pytest.mark.parametrize("name", ["fills_an_input", "copies_to_an_input"])
def test_a_write_of_the_runtime_to_an_input_is_refused(opened, name):
    with pytest.raises(InputMutationError, match="read-only"):
        opened(ON_MEMORY[name]).call(*_drawn(1))


def test_work_on_a_stream_that_nobody_waits_for_is_noted_on_a_device_too(opened):
    session = opened(NOT_AWAITED)
    session.call(*_drawn(1))
    assert session.streams.pending
    session = opened(HONEST["two_streams"])
    session.call(*_drawn(1))
    assert len(session.streams.pending) <= 1, "the second stream waited for the first, and host code for the second"


def pointers(event):
    """Return memory, start, and first and last byte of each pointer of a launch, in order."""
    found = []
    for _, (_, content, given) in sorted(event[3].items()):
        for place, (_, memory, start, dtype, (size,), _, offset) in given:
            assert dtype == "uint8"
            assert content[place : place + 8] == bytes(8)
            found.append((memory, start, offset, offset + size))
    return found


BYTES = 4 * ROWS * COLUMNS
ROW = 4 * COLUMNS


def test_a_pointer_reaches_to_the_end_of_its_tensor_and_not_of_the_arena(opened):
    """Both inputs lie in one arena, one behind the other."""
    launches = opened(HONEST["from_the_middle"]).call(*_drawn(1))[0].launches
    assert len(launches) == ROWS
    for number, event in enumerate(launches):
        x, y, out = pointers(event)
        assert x == ("inputs", SLOTS[0].offset, number * ROW, BYTES)
        assert y == ("inputs", SLOTS[1].offset, number * ROW, BYTES)
        assert out[0] == "fresh"
        assert out[2:] == (number * ROW, BYTES)


def test_a_pointer_right_behind_a_tensor_is_its_end(opened):
    (event,) = opened(HONEST["to_an_end"]).call(*_drawn(1))[0].launches
    assert pointers(event)[1] == ("inputs", SLOTS[0].offset, BYTES, BYTES)


def test_pointers_in_nested_structs_are_found(opened):
    (event,) = opened(HONEST["of_struct"]).call(*_drawn(1))[0].launches
    assert [place for place, _ in event[3]["0"][2]] == [8, 16, 24]
    assert [found[0] for found in pointers(event)] == ["inputs", "inputs", "fresh"]


def test_what_was_copied_to_the_host_comes_back_as_a_literal(opened):
    recorded, output = opened(DISHONEST["computes_on_the_host"]).call(*_drawn(1))
    assert recorded.kinds == ["alloc", "launch", "literal", "copy"]
    assert recorded.call.events[2][2] == output.numpy().tobytes()


def test_memory_that_a_kernel_filled_in_the_constructor_is_a_constant(opened):
    recorded, _ = opened(HONEST["kernel_in_the_constructor"]).call(*_drawn(1))
    constants = [event[2] for event in recorded.call.events if event[0] == "const"]
    assert constants == [torch.ones(2).numpy().tobytes()]


def test_a_tensor_copied_to_a_variable_in_the_constructor_is_copied_in_each_recording(opened):
    forward = "return module.variable_of_the_constructor(x, y)"
    session = opened(Reader(forward, init="module.by_table_of_tensor(*[torch.ones(2, 3)] * 2, torch.full((2,), 3.0))"))
    x, y = _drawn(1)
    recorded, _ = session.call(x, y)
    copied, _ = recorded.launches
    assert (copied[1], copied[3]) == (SYMBOL, {"source": ["raw", torch.full((2,), 3.0).numpy().tobytes(), []]})


def test_frees_and_allocations_of_the_runtime_are_recorded_in_their_order(opened):
    recorded, _ = opened(HONEST["scratch"]).call(*_drawn(1))
    assert recorded.kinds == ["alloc", "fill", "alloc", "copy", "alloc", "launch"]
    assert [event[2] for event in recorded.call.events if event[0] == "alloc"] == [512, BYTES, BYTES]


def test_a_launch_that_fails_on_the_device_ends_the_call(opened, monkeypatch):
    session = opened(HONEST["of_template"])

    def broken(*_):
        raise RuntimeError("the driver said no")

    monkeypatch.setattr(session.gpu, "load_module", broken)
    with pytest.raises(RuntimeError, match="the driver said no"):
        session.call(*_drawn(1))
