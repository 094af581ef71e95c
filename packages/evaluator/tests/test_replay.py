"""A forward written down as a trace is the same function of its inputs when it is replayed; nothing else is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import Problem, _native, arenas, trace
from warpsmith.evaluator.errors import BadProblemError, WireError
from warpsmith.evaluator.layout import pack
from warpsmith.evaluator.operators import OperatorWatch, Watched
from warpsmith.evaluator.player_device import _dtypes_of
from warpsmith.evaluator.replay import Kernels, Replay
from warpsmith.evaluator.trace import Recorder, UntraceableError
from warpsmith.evaluator.worker import Memory

SLOTS, SIZE = pack([arenas.contiguous("float32", (4, 6)), arenas.contiguous("float32", (6,))], 1 << 20)


def arena(seed: int) -> _native.Buffer:
    buffer = _native.Buffer.create("test", SIZE)
    generator = torch.Generator().manual_seed(seed)
    for slot in SLOTS:
        arenas.view(buffer, slot).copy_(torch.randn(slot.shape, generator=generator))
    return buffer


def memory_of(buffer: _native.Buffer) -> Memory:
    memory = Memory()
    memory.buffers = {"inputs": buffer, "state": _native.Buffer.create("state", 64)}
    return memory


def record(forward, buffer):
    recorder = Recorder(memory_of(buffer))
    watch = OperatorWatch((), lambda _: False, lambda _: None, lambda _: None, recorder.operator)
    with Watched(watch):
        output = forward(*(arenas.view(buffer, slot) for slot in SLOTS))
        described = recorder.tensor(output)
    assert watch.refused == {}
    return recorder.events, described


def replayed(events, described, buffer, tmp_path):
    player = Replay(Kernels({}), memory_of(buffer).buffers)
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
    expected = forward(*(arenas.view(second, slot).clone() for slot in SLOTS))
    found = replayed(events, described, second, tmp_path)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_a_buffer_of_a_module_begins_as_what_the_judge_gives_it(tmp_path):
    memory = memory_of(arena(1))
    recorder, count = Recorder(memory), torch.zeros(4)
    slot = arenas.contiguous("float32", (4,))
    recorder.starts_as(count, slot)
    arenas.view(memory.buffers["state"], slot).copy_(torch.arange(4.0))
    player = Replay(Kernels({}), memory.buffers)
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


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.integers(-5, 5) | st.sampled_from(["alloc", "fill", "copy", "const", "tensor"]), max_size=5))
)
def test_any_list_of_events_is_performed_or_refused(tmp_path_factory, events):
    player = Replay(Kernels({}), memory_of(arena(1)).buffers)
    player._left = 1 << 20
    try:
        player.run(events)
    except (WireError, RuntimeError, ValueError, TypeError, KeyError) as error:
        assert str(error)


def test_a_forward_without_end_is_no_trace(monkeypatch):
    monkeypatch.setattr(trace, "MAX_EVENTS", 10)

    def many(x, y):
        for _ in range(20):
            out = torch.zeros(3)
        return out

    with pytest.raises(UntraceableError, match="more than 10"):
        record(many, arena(1))


def test_a_forward_that_carries_its_answers_along_is_no_trace(monkeypatch):
    monkeypatch.setattr(trace, "MAX_CONSTANT_BYTES", 64)
    with pytest.raises(UntraceableError, match="made before it"):
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
    assert verdict.status == "incorrect"


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
    assert list(player._kernels["fill_kernel"].launched) == ["out_ptr"]


class _Recording:
    """Stands where Triton's decorator stands, and keeps the arguments of the last launch."""

    def __init__(self, function):
        self.launched = {}

    def __getitem__(self, grid):
        return lambda **arguments: self.launched.update(arguments)


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
    assert dict(_dtypes_of(events)) == {0: "float32", 1: "int64", 2: "float16"}
