"""The bytes that a kernel moves, where kernels are interpreted: each access counts, however it is written."""

from dataclasses import replace

import pytest

from warpsmith.evaluator import Problem, Verdict
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.figures import Bound, KernelFigures
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.replays import traffic_of
from warpsmith.evaluator.judge.verdicts import verdict_of
from warpsmith.evaluator.verdict import Seconds
from warpsmith.evaluator.verdict_lines import traffic_lines

ROWS, COLUMNS = 32, 64
TENSOR = ROWS * COLUMNS * 4

PROBLEM = f"""\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0

def get_inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
"""

HEAD = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cpu"))

"""
POINTWISE = (
    HEAD
    + """\
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    {body}

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.{made}(x)
        {before}
        kernel[(triton.cdiv(x.numel(), 768 // 3),)](x, out, x.numel(), BLOCK=256)
        return out
"""
)
PLAIN = "tl.store(out_ptr + i, tl.load(x_ptr + i, mask=m) * 2.0 + 1.0, mask=m)"
DESCRIBED = (
    HEAD
    + """\
@triton.jit
def kernel({desc}out_ptr, n, c, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    {made}
    r = tl.program_id(0) * ROWS
    x = desc.load([r, 0])
    to = tl.make_tensor_descriptor(out_ptr, shape=[n, c], strides=[c, 1], block_shape=[ROWS, BLOCK])
    to.store([r, 0], x * 2.0 + 1.0)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n, c = x.shape
        b = triton.next_power_of_2(c)
        kernel[(triton.cdiv(n, 8),)]({given}out, n, c, ROWS=8, BLOCK=max(b, 16))
        return out
"""
)
UNFUSED = (
    HEAD
    + """\
@triton.jit
def first(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)

@triton.jit
def second(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1.0, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y, out, n = torch.empty_like(x), torch.empty_like(x), x.numel()
        first[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        second[(triton.cdiv(n, 256),)](y, out, n, BLOCK=256)
        return out
"""
)


def pointwise(body=PLAIN, made="empty_like", before="pass"):
    return POINTWISE.format(body=body.replace("\n", "\n    "), made=made, before=before)


HOST_DESCRIPTOR = DESCRIBED.format(
    desc="desc, ", made="pass", given="TensorDescriptor(x, [n, c], [c, 1], [8, max(b, 16)]), "
)
DEVICE_DESCRIPTOR = DESCRIBED.format(
    desc="x_ptr, ",
    made="desc = tl.make_tensor_descriptor(x_ptr, shape=[n, c], strides=[c, 1], block_shape=[ROWS, BLOCK])",
    given="x, ",
)


@pytest.mark.parametrize(
    ("source", "moved"),
    [
        pytest.param(pointwise(), 2 * TENSOR, id="each element once in and once out"),
        pytest.param(
            pointwise("x = tl.load(x_ptr + i, mask=m)\nx += tl.load(x_ptr + i, mask=m)\n"
                      "tl.store(out_ptr + i, x + 1.0, mask=m)"),
            3 * TENSOR, id="what is loaded again counts again",
        ),
        pytest.param(UNFUSED, 4 * TENSOR, id="two launches"),
        pytest.param(HOST_DESCRIPTOR, 2 * TENSOR, id="a descriptor of the host"),
        pytest.param(DEVICE_DESCRIPTOR, 2 * TENSOR, id="a descriptor of the kernel"),
        pytest.param(
            pointwise("tl.atomic_add(out_ptr + i, tl.load(x_ptr + i, mask=m) * 2.0 + 1.0, mask=m)", "zeros_like"),
            4 * TENSOR, id="an atomic operation counts twice, and so does the fill before it",
        ),
        pytest.param(
            pointwise("x = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i, mask=m).to(tl.float32, bitcast=True)\n"
                      "tl.store(out_ptr + i, x * 2.0 + 1.0, mask=m)"),
            2 * TENSOR, id="a pointer that was cast",
        ),
        pytest.param(pointwise(before="x = x.clone()"), 4 * TENSOR, id="a copy of the host"),
        pytest.param(pointwise(before="x = torch.flip(torch.flip(x, [0]), [0])"), 6 * TENSOR, id="a flip of the host"),
    ],
)  # fmt: skip
def test_every_access_counts(evaluator, source, moved):
    verdict = evaluator.evaluate(Problem("scaled", PROBLEM), source, trials=3)
    assert verdict.correct, verdict.error_message
    assert verdict.bytes_moved == moved
    assert {one["name"]: one["value"] for one in verdict.to_row()["figures"]}["bytes_moved"] == moved
    assert Verdict.from_record(verdict.to_record()).bytes_moved == moved


def test_masked_lanes_move_nothing(evaluator):
    """Blocks of 256 on 20 x 30 elements: the last one is mostly masked."""
    problem = PROBLEM.replace(f"{ROWS}, {COLUMNS}", "20, 30")
    assert evaluator.evaluate(Problem("scaled", problem), pointwise(), trials=2).bytes_moved == 2 * 600 * 4


def test_a_wrong_kernel_has_no_figure(evaluator):
    verdict = evaluator.evaluate(Problem("scaled", PROBLEM), pointwise(PLAIN.replace("2.0", "3.0")), trials=2)
    assert (verdict.status, verdict.bytes_moved) == ("incorrect", None)


def test_library_operators_leave_no_figure(evaluator):
    """Their traffic is torch's matter: a kernel that is replaced by one must not look cheap."""
    problem = PROBLEM.replace("x * 2.0 + 1.0", "torch.mm(x, x.t()) * 2.0 + 1.0")
    source = pointwise(made="empty_like", before="x = torch.mm(x, x.t()); out = torch.empty_like(x)")
    verdict = evaluator.evaluate(Problem("scaled", problem), source, trials=2, operators="library")
    assert verdict.correct, verdict.error_message
    assert verdict.bytes_moved is None


def evidence(**fields):
    return Evidence(trials=2, replayed=True, compilation=Compilation(ok=True), **fields)


def test_what_the_chip_spills_is_moved_too():
    """The interpreter's blocks hold anything; 8 bytes a thread of 128, in 4 blocks and 2 launches, out and in."""
    kernel = KernelFigures("k", 2, (4, 1, 1), 128, 255, 8, 0, 0, 0.1)
    found = evidence(bytes_moved=1000, kernels=(kernel,))
    assert verdict_of(found, Seconds()).bytes_moved == 1000 + 2 * 2 * 4 * 128 * 8
    assert verdict_of(evidence(kernels=(kernel,)), Seconds()).bytes_moved is None


def test_the_most_of_all_trials_counts():
    found = evidence()
    for moved in (None, 10, 30, 20, None):
        found.note_traffic(moved)
    assert found.bytes_moved == 30


@pytest.mark.parametrize("reported", [-1, 1 << 61])
def test_a_number_that_nothing_could_have_counted_is_refused(reported):
    with pytest.raises(WireError, match="A replay moved"):
        traffic_of(codec.Fields({"bytes_moved": reported}))
    assert traffic_of(codec.Fields({})) is None


def test_the_figure_as_a_line():
    verdict = Verdict("correct", True, True, bytes_moved=3072, bound=Bound(2048))
    assert list(traffic_lines(verdict)) == ["Bytes moved: 3 KiB, 1.50 times the problem's bytes"]
    assert list(traffic_lines(replace(verdict, bound=None))) == ["Bytes moved: 3 KiB"]
    assert list(traffic_lines(replace(verdict, bytes_moved=None))) == []
