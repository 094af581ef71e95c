"""End to end: what a wide tolerance would let through is incorrect, and the same kernel without the mistake correct."""

import pytest

from warpsmith.evaluator import Problem

HEAD = """\
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

PROBLEM = (
    HEAD
    + """
class Model(nn.Module):
{model}

{inputs}

def get_init_inputs():
    return []
"""
)

MEAN = """\
    def forward(self, x, y):
        return torch.mean(torch.abs(x - y))
"""
MEAN_INPUTS = """\
def get_inputs():
    return [torch.rand(1024, 1024) * torch.rand(()), torch.rand(1024, 1024)]
"""
MEAN_KERNEL = """
@triton.jit
def partial_kernel(x_ptr, y_ptr, part_ptr, n, READ: tl.constexpr, OF: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    i = ((program // READ) * OF + program % READ) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(x_ptr + i, mask=i < n, other=0.0) - tl.load(y_ptr + i, mask=i < n, other=0.0))
    tl.store(part_ptr + program, tl.sum(d, axis=0))

@triton.jit
def total_kernel(part_ptr, out_ptr, parts, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(part_ptr + i, mask=i < parts, other=0.0), axis=0) / count)

class ModelNew(nn.Module):
    def forward(self, x, y):
        n, read, of = x.numel(), CHOICE
        parts = triton.cdiv(n, 16384) // of * read if of > 1 else triton.cdiv(n, 16384)
        part = torch.empty(parts, dtype=torch.float32, device=x.device)
        out = torch.empty((), dtype=torch.float32, device=x.device)
        partial_kernel[(parts,)](x, y, part, n, READ=read, OF=of, BLOCK=16384)
        total_kernel[(1,)](part, out, parts, float(min(parts * 16384, n)), BLOCK=triton.next_power_of_2(parts))
        return out
"""

HEADS = """\
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 2))

    def forward(self, x):
        return torch.cat([torch.tanh(x) + 2, 1e-7 * (x @ self.weight)], dim=1)
"""
HEADS_INPUTS = "def get_inputs():\n    return [torch.randn(301, 8)]\n"
HEADS_KERNEL = """
@triton.jit
def heads_kernel(x_ptr, w_ptr, out_ptr, rows, COLS: tl.constexpr, ROWS: tl.constexpr, GATES: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    ok = r[:, None] < rows
    x = tl.load(x_ptr + r[:, None] * COLS + c[None, :], mask=ok, other=0.0)
    tl.store(out_ptr + r[:, None] * (COLS + 2) + c[None, :], 2 / (1 + tl.exp(-2 * x)) + 1.0, mask=ok)
    for gate in tl.static_range(GATES):
        w = tl.load(w_ptr + c * 2 + gate)
        tl.store(out_ptr + r * (COLS + 2) + COLS + gate, 1e-7 * tl.sum(x * w[None, :], axis=1), mask=r < rows)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 2))

    def forward(self, x):
        out = torch.zeros((x.shape[0], 10), dtype=x.dtype, device=x.device)
        heads_kernel[(triton.cdiv(x.shape[0], 32),)](x, self.weight, out, x.shape[0], COLS=8, ROWS=32, GATES=CHOICE)
        return out
"""

WAVES = """\
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(10) * math.pi, persistent=False)
        self.gain = nn.Parameter(torch.ones(10))
        self.phase = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        return torch.cos(x[:, None] * self.frequencies + self.phase) * self.gain
"""
WAVES_INPUTS = "def get_inputs():\n    return [torch.rand(300)]\n"
WAVES_KERNEL = """
@triton.jit
def waves_kernel(x_ptr, f_ptr, g_ptr, p_ptr, out_ptr, rows, OCTAVES: tl.constexpr, ROWS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < rows, other=0.0)
    f = tl.load(f_ptr + c, mask=c < OCTAVES, other=0.0)
    gain = tl.load(g_ptr + c, mask=c < OCTAVES, other=0.0)
    phase = tl.load(p_ptr + c, mask=c < OCTAVES, other=0.0)
    ok = (i[:, None] < rows) & (c[None, :] < OCTAVES)
    tl.store(out_ptr + i[:, None] * OCTAVES + c[None, :], CHOICE, mask=ok)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(10) * math.pi, persistent=False)
        self.gain = nn.Parameter(torch.ones(10))
        self.phase = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        out = torch.empty((x.shape[0], 10), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(x.shape[0], 64),)
        waves_kernel[grid](x, self.frequencies, self.gain, self.phase, out, x.shape[0], OCTAVES=10, ROWS=64)
        return out
"""

QUANTISED = """\
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(256))

    def forward(self, x):
        return torch.floor(x * self.gain * 127.0) / 127.0
"""
QUANTISED_INPUTS = "def get_inputs():\n    return [torch.rand(900, 256)]\n"
QUANTISED_KERNEL = """
@triton.jit
def quantise_kernel(x_ptr, g_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    gain = tl.load(g_ptr + i % 256)
    tl.store(out_ptr + i, CHOICE, mask=i < n)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(256))

    def forward(self, x):
        out = torch.empty_like(x)
        quantise_kernel[(triton.cdiv(x.numel(), 8192),)](x, self.gain, out, x.numel(), BLOCK=8192)
        return out
"""

PRODUCT = """\
    def forward(self, x, y):
        return x @ y
"""
PRODUCT_INPUTS = "def get_inputs():\n    return [torch.randn(48, 160), torch.randn(160, 32)]\n"
PRODUCT_KERNEL = """
@triton.jit
def product_kernel(x_ptr, y_ptr, out_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        j = start + tl.arange(0, K)
        x = tl.load(x_ptr + r[:, None] * k + j[None, :], mask=(r[:, None] < m) & (j[None, :] < k), other=0.0)
        y = tl.load(y_ptr + j[:, None] * n + c[None, :], mask=(j[:, None] < k) & (c[None, :] < n), other=0.0)
        total += tl.dot(CHOICE, input_precision="ieee")
    tl.store(out_ptr + r[:, None] * n + c[None, :], total, mask=(r[:, None] < m) & (c[None, :] < n))

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty((x.shape[0], y.shape[1]), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(x.shape[0], 16),)
        product_kernel[grid](x, y, out, x.shape[0], y.shape[1], x.shape[1], M=16, N=32, K=32)
        return out
"""

CASES = {
    "a mean of a sample": (MEAN, MEAN_INPUTS, MEAN_KERNEL, "1, 1", "3, 4"),
    "small columns left out": (HEADS, HEADS_INPUTS, HEADS_KERNEL, "2", "0"),
    "parameters ignored": (
        WAVES,
        WAVES_INPUTS,
        WAVES_KERNEL,
        "tl.cos(x[:, None] * f[None, :] + phase[None, :]) * gain[None, :]",
        "tl.cos(x[:, None] * f[None, :])",
    ),
    "no steps": (
        QUANTISED,
        QUANTISED_INPUTS,
        QUANTISED_KERNEL,
        "tl.floor(x * (gain * 127.0)) * (1 / 127.0)",
        "x * gain",
    ),
    "half precision inside": (PRODUCT, PRODUCT_INPUTS, PRODUCT_KERNEL, "x, y", "x.to(tl.float16), y.to(tl.float16)"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrong", [False, True])
def test_only_what_is_left_out_makes_it_incorrect(evaluator, name, wrong):
    model, inputs, kernel, right_choice, wrong_choice = CASES[name]
    problem = Problem.from_source(PROBLEM.format(model=model, inputs=inputs), name)
    source = HEAD + kernel.replace("CHOICE", wrong_choice if wrong else right_choice)
    verdict = evaluator.evaluate(problem, source, trials=5)
    assert verdict.status == ("incorrect" if wrong else "correct"), verdict.error_message
    assert "no_fp64" not in verdict.flags


def test_what_only_kernelbench_accepts_is_reported(evaluator):
    model, inputs, kernel, *_ = CASES["small columns left out"]
    problem = Problem.from_source(PROBLEM.format(model=model, inputs=inputs), "kernelbench")
    verdict = evaluator.evaluate(problem, HEAD + kernel.replace("CHOICE", "0"), trials=2)
    assert (verdict.status, "kernelbench_passes" in verdict.flags) == ("incorrect", True)
    far = evaluator.evaluate(problem, HEAD + kernel.replace("CHOICE", "2").replace("+ 1.0", "+ 1.5"), trials=2)
    assert (far.status, "kernelbench_passes" in far.flags) == ("incorrect", False)


def test_a_reference_without_an_fp64_run_is_named(evaluator):
    model = "    def forward(self, x):\n        return (x.to(torch.float32) * torch.ones(8)).to(torch.float32)\n"
    problem = Problem.from_source(
        PROBLEM.format(model=model, inputs="def get_inputs():\n    return [torch.randn(300, 8)]\n"), "cast"
    )
    source = HEAD + QUANTISED_KERNEL.replace("CHOICE", "x")
    verdict = evaluator.evaluate(problem, source.replace("tl.load(g_ptr + i % 256)", "1.0"), trials=2)
    assert (verdict.status, "no_fp64" in verdict.flags) == ("correct", True)
