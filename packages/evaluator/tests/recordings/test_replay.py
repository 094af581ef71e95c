"""A forward written down as a trace is the same function of its inputs when it is replayed; nothing else is."""

import inspect
import timeit
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import Problem, _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import BadProblemError, WireError
from warpsmith.evaluator.ipc.tensor_slots import pack
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.kernel_set import KernelSet
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.languages.triton.replayed_kernels import Kernels
from warpsmith.evaluator.recordings import movement
from warpsmith.evaluator.recordings.errors import BooleanBytesError
from warpsmith.evaluator.recordings.operators import OperatorWatch, Watched
from warpsmith.evaluator.recordings.recorder import Recorder, UntraceableError
from warpsmith.evaluator.workers.player_cuda import ReplayedCall, Step, dtypes_of
from warpsmith.evaluator.workers.player_host import Replay

SLOTS, SIZE = pack([tensor_views.contiguous("float32", (4, 6)), tensor_views.contiguous("float32", (6,))], 1 << 20)


def arena(seed: int) -> _native.Buffer:
    buffer = _native.Buffer.create("test", SIZE)
    generator = torch.Generator().manual_seed(seed)
    for slot in SLOTS:
        tensor_views.view(buffer, slot).copy_(torch.randn(slot.shape, generator=generator))
    return buffer


def test_memory_that_may_change_unseen_is_recorded_as_it_is_at_each_use():
    """Host code in C++ can write to a tensor of the host through its pointer, which no operator shows."""
    host, other = torch.zeros(2), torch.zeros(2)
    recorder = Recorder(memory_of(arena(0)), TRITON, lambda storage: storage.data_ptr() == host.data_ptr())
    places = []
    for value in (1.0, 2.0):
        torch.from_numpy(host.numpy())[:] = value
        places += [recorder.tensor(host), recorder.tensor(other)]
    one, two = (torch.full((2,), value).numpy().tobytes() for value in (1.0, 2.0))
    assert recorder.events == [["literal", 0, one], ["const", 1, bytes(8)], ["literal", 2, two]]
    assert [place[2] for place in places] == [0, 1, 2, 1]


FRESH = ["tensor", "fresh", 0, "float32", [1], [1], 0]


def memory_of(buffer: _native.Buffer) -> Mappings:
    memory = Mappings(HostDevice())
    memory.buffers = {"inputs": buffer, "state": _native.Buffer.create("state", 64)}
    return memory


def record(forward, buffer):
    recorder = Recorder(memory_of(buffer), TRITON)
    watch = OperatorWatch("none", lambda _: False, lambda _: None, lambda _: None, on_done=recorder.operator)
    with Watched(watch):
        output = forward(*(tensor_views.view(buffer, slot) for slot in SLOTS))
        described = recorder.tensor(output)
    assert watch.refused == {}
    return recorder.events, described


def replayed(events, described, buffer, tmp_path):
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(buffer).buffers)
    player.run(events)
    return player.tensor(described)


def padded(x, y):
    out = torch.zeros(5, 6)
    out[1:].copy_(x)
    out[0].fill_(2.5)
    return out


def shuffled(x, y):
    wide = torch.empty(6, 4, dtype=torch.float64)
    wide.copy_(x.t())
    return wide.to(torch.float32).t().contiguous()[1:3, ::2]


def reusing(x, y):
    for _ in range(20):
        scratch = torch.full((6,), 7.0)
        scratch.copy_(y)
        del scratch
    return y.clone().view(2, 3).expand(4, 2, 3)


TABLE = torch.arange(24.0).view(4, 6)


def from_a_table(x, y):
    out = torch.empty_like(x)
    out.copy_(TABLE)
    out[2] = y
    return out


@pytest.mark.parametrize(
    "forward", [padded, shuffled, reusing, from_a_table, lambda x, y: x, lambda x, y: x.new_ones(3)]
)
def test_a_replay_on_other_inputs_is_the_forward_on_other_inputs(forward, tmp_path):
    first, second = arena(1), arena(2)
    events, described = record(forward, first)
    expected = forward(*(tensor_views.view(second, slot).clone() for slot in SLOTS))
    found = replayed(events, described, second, tmp_path)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def written_down(x, y):
    out = torch.zeros(3, 3)
    out[0].copy_(torch.tensor([1.5, -2.0, 3.0]))
    out[1, 1] = 7.25
    out[2] = x.new_tensor([4.0, 5.0, 6.0])
    return out


def filled_in(x, y):
    out = torch.empty(8, 6)
    torch.cat([x, y[None]], out=out[:5])
    torch.zeros(3, 6, out=out[5:])
    return out


MOVES = {
    "cat": lambda x, y: torch.cat([x, y.view(1, 6), x[1:3], torch.empty(0)], 0),
    "cat of dtypes": lambda x, y: torch.cat([x.double(), x], dim=-1),
    "stack": lambda x, y: torch.stack([x, x.flip(0), x.t().contiguous().view(4, 6)], dim=-1),
    "hstack": lambda x, y: torch.hstack([x, x[:, :2]]),
    "pad": lambda x, y: torch.nn.functional.pad(x, (1, -2, 0, 3), value=2.5),
    "pad with nothing": lambda x, y: torch.nn.functional.pad(x.t(), (0, 0)),
    "reflect": lambda x, y: torch.nn.functional.pad(x[None], (2, 1), mode="reflect"),
    "replicate": lambda x, y: torch.nn.functional.pad(x[None, None], (2, 1, 0, 3), mode="replicate"),
    "circular": lambda x, y: torch.nn.functional.pad(x[None], (2, 1), mode="circular"),
    "repeat": lambda x, y: x[:, ::2].repeat(2, 1, 3),
    "tile": lambda x, y: torch.tile(y, (2, 2)),
    "repeat_interleave": lambda x, y: torch.repeat_interleave(x, 3, dim=1),
    "roll": lambda x, y: torch.roll(x, (1, -7), (0, 1)),
    "roll of all": lambda x, y: torch.roll(x.t(), 5),
    "flip": lambda x, y: torch.flip(x.t(), [0, -1]),
    "rot90": lambda x, y: torch.rot90(x, 1, [0, 1]),
    "narrow": lambda x, y: torch.narrow_copy(x, 1, 2, 3),
    "splits": lambda x, y: torch.hsplit(x, 3)[1] if len(x.unbind(0)) == 4 else x,
    "unfold": lambda x, y: torch.nn.functional.unfold(x[None, None], 2, padding=1),
    "shuffle": lambda x, y: torch.nn.functional.pixel_shuffle(x.view(1, 4, 2, 3), 2),
    "diagonals": lambda x, y: torch.diag_embed(y),
    "constants": lambda x, y: torch.cat([torch.eye(3, 6), torch.linspace(0, 1, 6)[None], torch.arange(6.0)[None]]),
    "complex": lambda x, y: torch.view_as_real(torch.complex(x, x.flip(1))),
    "complex zeros": lambda x, y: torch.view_as_real(torch.zeros(3, dtype=torch.complex64)),
    "channels last": lambda x, y: x.view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "reshape that copies": lambda x, y: x[:, None].expand(4, 3, 6).reshape(12, 6),
    "written down": written_down,
    "filled in": filled_in,
}


@pytest.mark.parametrize("forward", MOVES.values(), ids=MOVES)
def test_what_only_moves_is_replayed(forward, tmp_path):
    first, second = arena(1), arena(2)
    events, described = record(forward, first)
    assert "const" not in {event[0] for event in events}
    expected = forward(*(tensor_views.view(second, slot).clone() for slot in SLOTS))
    found = replayed(events, described, second, tmp_path)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    pads=st.lists(st.integers(-2, 3), min_size=4, max_size=4),
    shifts=st.tuples(st.integers(-9, 9), st.integers(-9, 9)),
    repeats=st.lists(st.integers(1, 3), min_size=2, max_size=4),
)
def test_any_pad_roll_and_repeat_is_replayed(tmp_path_factory, pads, shifts, repeats):
    def forward(x, y):
        return torch.nn.functional.pad(x, pads, value=-1.0).roll(shifts, (0, 1)).repeat(repeats)

    first, second = arena(3), arena(4)
    events, described = record(forward, first)
    expected = forward(*(tensor_views.view(second, slot).clone() for slot in SLOTS))
    assert torch.equal(replayed(events, described, second, tmp_path_factory.getbasetemp()), expected)


def test_a_buffer_of_a_module_begins_as_what_the_judge_gives_it(tmp_path):
    memory = memory_of(arena(1))
    recorder, count = Recorder(memory, TRITON), torch.zeros(4)
    slot = tensor_views.contiguous("float32", (4,))
    recorder.starts_as(count, slot, frozenset())
    tensor_views.view(memory.buffers["state"], slot).copy_(torch.arange(4.0))
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory.buffers)
    described = recorder.tensor(count)
    player.run(recorder.events)
    assert player.tensor(described).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_what_no_event_explains_is_missing_from_a_replay(tmp_path):
    def hidden(x, y):
        out = torch.empty_like(x)
        with torch.utils._python_dispatch._disable_current_modes():
            out.copy_(x)
        return out

    buffer = arena(1)
    events, described = record(hidden, buffer)
    first, second = (replayed(events, described, buffer, tmp_path) for _ in range(2))
    assert float((first == second).to(torch.float32).mean()) < 0.3


def test_fresh_memory_of_a_replay_holds_no_answer(tmp_path):
    events, fresh = [["alloc", 0, 4096]], ["tensor", "fresh", 0, "float32", [1024], [1], 0]
    first, second = (replayed(events, fresh, arena(1), tmp_path) for _ in range(2))
    assert float((first == second).to(torch.float32).mean()) < 0.1


@pytest.mark.parametrize(
    "events",
    [
        [["alloc", 0, -1]],
        [["alloc", 0, 1 << 50]],
        [["execute", "os.system"]],
        [["alloc", 0, 4], ["call", "add", [["value", 1], ["value", 2]], FRESH]],
        [["alloc", 0, 4], ["call", "flip", [["value", "no tensor"]], FRESH]],
        [["alloc", 0, 4], ["call", "__class__", [], FRESH]],
        [["alloc", 0, 4], ["call", "arange", [["value", 7]], FRESH]],
        [["launch", "k", [1], {}, {}]],
        [["fill", ["tensor", "fresh", 9, "float32", [1], [1], 0], 1.0]],
        [["alloc", 0, 8], ["fill", ["tensor", "fresh", 0, "float32", [3], [1], 0], 1.0]],
        [["copy", ["tensor", "inputs", 0, "float32", [1], [1], 0]]],
        [["fill", ["tensor", "elsewhere", 0, "float32", [1], [1], 0], 1.0]],
        [["fill", ["tensor", "inputs", -64, "float32", [1], [1], 0], 1.0]],
        [["fill", ["tensor", "inputs", 0, "float32", [1], [1], 1 << 40], 1.0]],
        ["alloc"],
        [[]],
    ],
)
def test_a_forged_event_fails(events, tmp_path):
    with pytest.raises((WireError, RuntimeError, ValueError, TypeError, KeyError)):
        replayed(events, ["tensor", "inputs", 0, "float32", [1], [1], 0], arena(1), tmp_path)


def test_a_forged_event_computes_nothing():
    one, four = torch.tensor(1.5), torch.zeros(4)
    with pytest.raises(WireError, match="with a tensor"):
        movement.call("linspace", [one, 2 * one, 4], four)
    movement.call("linspace", [1.5, 3.0, 4], four)
    assert four.tolist() == [1.5, 2.0, 2.5, 3.0]
    for dtype in (torch.int32, torch.bool):
        with pytest.raises(WireError, match="which computes"):
            movement.copy(torch.zeros(4, dtype=dtype), four)
    movement.copy(four, torch.tensor([True, False, True, True]))
    assert four.tolist() == [1, 0, 1, 1]


INTEGERS = torch.tensor([0, 1, 2, 255, 256, -1])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16])
def test_a_forged_cast_of_integers_is_refused(dtype):
    with pytest.raises(WireError, match="which computes"):
        movement.copy(torch.empty(6, dtype=dtype), INTEGERS)
    with pytest.raises(WireError, match="which computes"):
        movement.call("flip", [INTEGERS, [0]], torch.empty(6, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint64, torch.float32, torch.complex64])
def test_indices_may_be_narrowed_and_integers_be_made_floats(dtype):
    found = torch.empty(6, dtype=dtype)
    movement.copy(found, INTEGERS)
    assert torch.equal(found, INTEGERS.to(dtype))


@pytest.mark.parametrize("byte", [2, 27, 255])
def test_booleans_that_are_none_are_not_cast(byte):
    held = torch.tensor([0, 1, byte], dtype=torch.uint8)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        with pytest.raises(BooleanBytesError, match="test for zero"):
            movement.check_booleans(torch.empty(3, dtype=dtype), held.view(torch.bool))
        movement.check_booleans(torch.empty(2, dtype=dtype), held[:2].view(torch.bool))
    # Moved as they are: the comparison of outputs says what they are.
    movement.check_booleans(torch.empty(3, dtype=torch.bool), held.view(torch.bool))
    movement.check_booleans(torch.empty(3), held)


def test_on_a_device_they_are_checked_before_a_later_step_writes_there():
    held, into = torch.tensor([0, 1, 1], dtype=torch.uint8), torch.empty(3)
    pair = into, held.view(torch.bool)
    cast = Step(partial(movement.copy, *pair), check=partial(movement.check_booleans, *pair))
    call = ReplayedCall([cast, Step(lambda: held.fill_(7))], [], [], [], None, lambda: None, None)
    call.run(checked=True)
    assert into.tolist() == [0, 1, 1]
    with pytest.raises(BooleanBytesError):
        call.run(checked=True)
    call.run()  # as in timed calls, which wait for nothing
    assert into.tolist() == [7, 7, 7]


def test_a_replay_casts_booleans_only_where_kernels_ran(tmp_path):
    buffer = arena(0)
    events = [
        ["alloc", 1, 4],
        ["fill", ["tensor", "fresh", 1, "uint8", [4], [1], 0], 3],
        ["alloc", 2, 16],
        ["copy", ["tensor", "fresh", 2, "float32", [4], [1], 0], ["tensor", "fresh", 1, "bool", [4], [1], 0]],
    ]
    with pytest.raises(BooleanBytesError):
        replayed(events, ["tensor", "fresh", 2, "float32", [4], [1], 0], buffer, tmp_path)
    ghost = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(buffer).buffers, poison=255)
    ghost.run(events)


def test_bytes_that_are_called_booleans_stay_what_they_are():
    """Torch takes any byte but 0 for True: a view as booleans would compare with zero."""
    numbers = INTEGERS[:3].to(torch.uint8).view(torch.bool)
    for dtype in (torch.int64, torch.float32, torch.uint8):
        found = torch.empty(3, dtype=dtype)
        movement.copy(found, numbers)
        assert found.tolist() == [0, 1, 2]
        movement.call("flip", [numbers, [0]], found)
        assert found.tolist() == [2, 1, 0]
    found = torch.empty(3, dtype=torch.bool)
    movement.copy(found[::2], numbers[::2])
    movement.call("flip", [numbers[1:2], [0]], found[1:2])
    assert found.view(torch.uint8).tolist() == [0, 1, 2]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.integers(-5, 5) | st.sampled_from(["alloc", "fill", "copy", "const", "tensor"]), max_size=5))
)
def test_any_list_of_events_is_performed_or_refused(tmp_path_factory, events):
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(arena(1)).buffers)
    player._left = 1 << 20
    try:
        player.run(events)
    except (WireError, RuntimeError, ValueError, TypeError, KeyError) as error:
        assert str(error)


def test_a_forward_without_end_is_no_trace(monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.recordings.recorder.MAX_EVENTS", 10)

    def many(x, y):
        for _ in range(20):
            out = torch.zeros(3)
        return out

    with pytest.raises(UntraceableError, match="more than 10"):
        record(many, arena(1))


def test_a_forward_that_times_itself_learns_what_to_write_instead(monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.recordings.recorder.MAX_EVENTS", 10)

    def timed(x, y):
        timeit.timeit(lambda: torch.zeros(3), number=20)
        return torch.zeros(3)

    with pytest.raises(UntraceableError, match=r"more than 10 times\. It times its own launches.*@triton\.autotune"):
        record(timed, arena(1))


def test_a_forward_that_carries_its_answers_along_is_no_trace(monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.recordings.recorder.MAX_CONSTANT_BYTES", 64)
    with pytest.raises(UntraceableError, match="made before the call"):
        record(from_a_table, arena(1))


HOST_SCALAR = """
import ctypes
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def fill_kernel(out_ptr, value, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.zeros((BLOCK,), dtype=tl.float32) + value, mask=offsets < n)

class ModelNew(nn.Module):
    def forward(self, x):
        values = (ctypes.c_float * x.numel()).from_buffer_copy(ctypes.string_at(x.data_ptr(), 4 * x.numel()))
        out = torch.empty(1, device=x.device)
        fill_kernel[(1,)](out, float(sum(values)), 1, BLOCK=16)
        return out
"""


def test_a_single_number_cannot_be_computed_by_the_host(evaluator):
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x.sum().view(1)\n"
    problem = Problem.from_source(source + "def get_inputs(): return [torch.randn(50)]\n", "sum")
    verdict = evaluator.evaluate(problem, HOST_SCALAR)
    assert (verdict.status, verdict.recording) == ("rejected", "on_device")


def test_a_single_number_that_is_asked_for_is_no_launch_of_another_content(evaluator):
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x.sum().view(1)\n"
    problem = Problem.from_source(source + "def get_inputs(): return [torch.randn(50)]\n", "sum")
    values = "values = (ctypes.c_float * x.numel()).from_buffer_copy(ctypes.string_at(x.data_ptr(), 4 * x.numel()))"
    asked = HOST_SCALAR.replace(values, "values = [x[i].item() for i in range(x.numel())]")
    verdict = evaluator.evaluate(problem, asked)
    assert (verdict.status, verdict.flags) == ("rejected", ("not_from_kernels",))


DEFAULTED = """
import triton
import triton.language as tl

@triton.jit
def fill_kernel(out_ptr, VALUE: tl.constexpr = 0.0):
    tl.store(out_ptr, VALUE)
"""


def test_an_option_of_a_forged_launch_is_no_argument(tmp_path, monkeypatch):
    monkeypatch.setattr("triton.jit", _Recording)
    player = Replay(Kernels.of(DEFAULTED, tmp_path), memory_of(arena(1)).buffers)
    out = ["tensor", "fresh", 0, "float32", [1], [1], 0]
    player.run([["alloc", 0, 4], ["launch", "fill_kernel", [1], {"out_ptr": out}, {"VALUE": 7.0}]])
    (tensor, value) = player._kernels.argument(["kernel", "fill_kernel"], None).launched
    assert (tensor.shape, value) == ((1,), 0.0)


class _Recording:
    """Stands where Triton's decorator stands, and keeps the arguments of the last launch."""

    def __init__(self, function):
        self.fn = function
        self.arg_names = list(inspect.signature(function).parameters)
        self.launched = []

    def __getitem__(self, grid):
        return lambda *arguments: self.launched.extend(arguments)


OTHER_SHAPES = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y): return x + y
def get_inputs():
    rows = int(torch.randint(1, 1 << 20, ()))
    return [torch.randn(rows % 1000 + 1, 3 + rows % 7), torch.randn(rows % 1000 + 1, 3 + rows % 7)]
"""


def test_what_cannot_be_replayed_is_refused_unless_a_policy_bears_it(evaluator, lenient, add_candidate):
    """Of host code that reads a content; else each form has a recording of its own."""
    problem = Problem.from_source(OTHER_SHAPES, "other shapes")
    assert evaluator.evaluate(problem, add_candidate, trials=2, seed=1).status == "correct"
    add_candidate = add_candidate.replace("out = torch", "x.flatten()[0].item()\n        out = torch")
    with pytest.raises(BadProblemError, match="allow_unreplayed"):
        evaluator.evaluate(problem, add_candidate, trials=2, seed=1)
    verdict = lenient.evaluate(problem, add_candidate, trials=2, seed=1)
    assert (verdict.status, verdict.flags) == ("correct", ("not_replayed",))


def test_the_dtype_of_fresh_memory_is_one_that_it_is_used_as():
    def of(number, dtype):
        return ["tensor", "fresh", number, dtype, [2], [1], 0]

    events = [
        ["alloc", 0, 8],
        ["alloc", 1, 8],
        ["alloc", 2, 8],
        ["fill", of(0, "float32"), 1.0],
        ["launch", "k", [1], {"a": of(1, "int64"), "b": ["tuple", [of(2, "float16"), ["value", 3]]]}, {}],
        ["copy", ["tensor", "inputs", 7, "int8", [2], [1], 0], of(1, "int64")],
    ]
    assert dict(dtypes_of(events)) == {0: "float32", 1: "int64", 2: "float16"}
