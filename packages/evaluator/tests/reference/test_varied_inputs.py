"""Whole evaluations on varied inputs: kernels that use what get_inputs() builds are right, shortcuts are wrong."""

import itertools

import pytest

from warpsmith.evaluator import Problem

PROBLEM = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
KERNEL = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"
SERIAL = itertools.count()


def judged(evaluator, problem: str, candidate: str):
    # A source of its own, so that nothing is known about it.
    return evaluator.evaluate(Problem.from_source(PROBLEM + problem), f"{KERNEL}{candidate}\n# {next(SERIAL)}\n")


BUCKETS = """
class Model(nn.Module):
    def forward(self, x, edges):
        return torch.bucketize(x, edges)
def get_inputs():
    return [torch.randn(300), torch.sort(torch.randn(15)).values]
"""
BY_BISECTION = """
@triton.jit
def bisect(x_ptr, edges_ptr, out_ptr, n, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    low = tl.zeros((BLOCK,), tl.int64)
    high = low + count
    for _ in range(5):
        middle = (low + high) // 2
        goes_up = (low < high) & (tl.load(edges_ptr + middle, mask=middle < count, other=float("inf")) < x)
        high = tl.where(goes_up, high, tl.where(low < high, middle, high))
        low = tl.where(goes_up, middle + 1, low)
    tl.store(out_ptr + i, low, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x, edges):
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        bisect[(triton.cdiv(x.numel(), 128),)](x, edges, out, x.numel(), edges.numel(), BLOCK=128)
        return out
"""

ROTATED = """
class Model(nn.Module):
    def forward(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin
def get_inputs():
    angles = torch.outer(torch.arange(10).float(), 500.0 ** -(torch.arange(0, 12, 2) / 12))
    angles = torch.cat((angles, angles), -1)
    return [torch.randn(3, 10, 12), angles.cos(), angles.sin()]
"""
BY_ONE_HALF = """
@triton.jit
def rotate(x_ptr, cos_ptr, sin_ptr, out_ptr, T, HALF, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < HALF
    cos = tl.load(cos_ptr + row % T * 2 * HALF + i, mask=mask)
    sin = tl.load(sin_ptr + row % T * 2 * HALF + i, mask=mask)
    a = tl.load(x_ptr + row * 2 * HALF + i, mask=mask)
    b = tl.load(x_ptr + row * 2 * HALF + HALF + i, mask=mask)
    tl.store(out_ptr + row * 2 * HALF + i, a * cos - b * sin, mask=mask)
    tl.store(out_ptr + row * 2 * HALF + HALF + i, b * cos + a * sin, mask=mask)

class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        B, T, D = x.shape
        out = torch.empty_like(x)
        rotate[(B * T,)](x, cos, sin, out, T, D // 2, BLOCK=16)
        return out
"""

SUMS_OF_PARTS = """
class Model(nn.Module):
    def forward(self, x, sizes):
        return torch.stack([part.sum(0) for part in x.split(sizes.tolist())])
def get_inputs():
    return [torch.randn(30, 7), torch.tensor([4, 11, 9, 6])]
"""
BY_SIZES = """
@triton.jit
def sums(x_ptr, sizes_ptr, out_ptr, D, G: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    g, d = tl.arange(0, G), tl.arange(0, BLOCK)
    start = tl.sum(tl.where(g < part, tl.load(sizes_ptr + g), 0), 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(start, start + tl.load(sizes_ptr + part)):
        total += tl.load(x_ptr + row * D + d, mask=d < D, other=0.0)
    tl.store(out_ptr + part * D + d, total, mask=d < D)

class ModelNew(nn.Module):
    def forward(self, x, sizes):
        out = torch.empty((sizes.shape[0], x.shape[1]), device=x.device)
        sums[(sizes.shape[0],)](x, sizes, out, x.shape[1], G=4, BLOCK=8)
        return out
"""
BY_HEART = BY_SIZES.replace("tl.load(sizes_ptr + g)", "tl.where(g == 0, 4, tl.where(g == 1, 11, 9))").replace(
    "tl.load(sizes_ptr + part)", "tl.where(part == 0, 4, tl.where(part == 1, 11, tl.where(part == 2, 9, 6)))"
)

MEANS_OF_LENGTHS = """
class Model(nn.Module):
    def forward(self, x, lengths):
        valid = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        return (x * valid).sum(1) / lengths
def get_inputs():
    return [torch.randn(5, 48), torch.tensor([30, 48, 7, 21, 40])]
"""
BY_LENGTHS = """
@triton.jit
def means(x_ptr, lengths_ptr, out_ptr, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row)
    total = 0.0
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * T + i, mask=i < length, other=0.0))
    tl.store(out_ptr + row, total / length)

class ModelNew(nn.Module):
    def forward(self, x, lengths):
        out = torch.empty(x.shape[0], device=x.device)
        means[(x.shape[0],)](x, lengths, out, x.shape[1], BLOCK=16)
        return out
"""

SOFT_TARGETS = """
class Model(nn.Module):
    def forward(self, x, q):
        return F.cross_entropy(x, q, reduction="none")
def get_inputs():
    q = torch.rand(9, 20) + 0.01
    return [torch.randn(9, 20), q / q.sum(-1, keepdim=True)]
"""
BY_THE_SUM = """
@triton.jit
def loss(x_ptr, q_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=float("-inf"))
    q = tl.load(q_ptr + row * N + i, mask=i < N, other=0.0)
    most = tl.max(x, 0)
    whole = tl.log(tl.sum(tl.exp(x - most), 0))
    tl.store(out_ptr + row, whole - tl.sum(tl.where(i < N, q * (x - most), 0.0), 0))

class ModelNew(nn.Module):
    def forward(self, x, q):
        out = torch.empty(x.shape[0], device=x.device)
        loss[(x.shape[0],)](x, q, out, x.shape[1], BLOCK=32)
        return out
"""

ROOTS = """
class Model(nn.Module):
    def forward(self, x):
        return torch.sqrt(x)
def get_inputs():
    return [torch.rand(200)]
"""
UNARY = """
@triton.jit
def unary(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, EXPRESSION, mask=i < n)

class ModelNew(nn.Module):
GAIN
    def forward(self, x):
        out = torch.empty_like(x)
        unary[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
        return out
"""
GAIN = """\
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))"""


def unary(expression: str, before: str = "") -> str:
    return UNARY.replace("EXPRESSION", expression).replace("GAIN", before)


HONEST = {
    "sorted boundaries": (BUCKETS, BY_BISECTION),
    "equal halves": (ROTATED, BY_ONE_HALF),
    "written sizes": (SUMS_OF_PARTS, BY_SIZES),
    "written lengths": (MEANS_OF_LENGTHS, BY_LENGTHS),
    "sums of one": (SOFT_TARGETS, BY_THE_SUM),
    "roots": (ROOTS, unary("tl.sqrt(x)")),
}


@pytest.mark.parametrize("times", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", HONEST)
def test_a_kernel_that_uses_what_get_inputs_builds_is_right_each_time(evaluator, name, times):
    verdicts = [judged(evaluator, *HONEST[name]) for _ in range(times)]
    assert [(one.status, one.flags, one.error_message) for one in verdicts] == [("correct", (), None)] * times


GAINED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
    def forward(self, x):
        return torch.round(torch.sin(x * 3000) * self.gain * 255) / 255
def get_inputs():
    return [torch.rand(200)]
"""
SHORTCUTS = {
    "right in the sample's range only": (ROOTS.replace("sqrt", "relu"), unary("x")),
    "written sizes by heart": (SUMS_OF_PARTS, BY_HEART),
    "a gain of ones left out of what is badly conditioned": (
        GAINED,
        unary("tl.floor(tl.sin(x * 3000) * 255 + 0.5) / 255", GAIN),
    ),
}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_what_only_the_sample_allows_is_wrong(evaluator, name):
    verdict = judged(evaluator, *SHORTCUTS[name])
    assert verdict.status == "incorrect"
    assert "this trial had" in verdict.error_message


COUNTED = """
class Model(nn.Module):
    def forward(self, x, count, negated):
        total = torch.topk(x, count, -1).values.sum(-1)
        return -total if negated else total
def get_inputs():
    return [torch.randn(8, 20), 3, False]
"""
LARGEST = """
@triton.jit
def largest(x_ptr, out_ptr, width, count, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + column, mask=column < width, other=-float("inf"))
    tl.store(out_ptr + row, tl.sum(tl.where(column < count, tl.sort(x, descending=True), 0.0), axis=0))

class ModelNew(nn.Module):
    def forward(self, x, count, negated):
        {refuses}
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        largest[(x.shape[0],)](x, out, x.shape[1], {count}, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
"""


@pytest.mark.parametrize("sizes", ["8, 20", "3, 3"])
@pytest.mark.parametrize(
    ("refuses", "count", "status"),
    [
        ("assert count == 3 and not negated", "count", "correct"),
        ("assert not negated", "3", "correct"),
        ("pass", "count", "incorrect"),
    ],
)
def test_host_code_may_refuse_other_plain_numbers_but_not_ignore_them(evaluator, sizes, refuses, count, status):
    problem, candidate = COUNTED.replace("8, 20", sizes), LARGEST.format(refuses=refuses, count=count)
    assert judged(evaluator, problem, candidate).status == status


FIXED = """
class Model(nn.Module):
    def forward(self, x):
        if x.tolist() != [3.0, 1.0, 4.0]:
            raise ValueError("not these")
        return x + 1
def get_inputs():
    return [torch.tensor([3.0, 1.0, 4.0])]
"""


def test_a_problem_in_which_nothing_varies_is_flagged(lenient):
    verdict = judged(lenient, FIXED, unary("x + 1"))
    assert (verdict.status, set(verdict.flags)) == (
        "correct",
        {"unvaried", "constant_input", "degenerate_problem"},
    )
