"""What Triton's language asks of a builder exists in the interpreter, so that no right kernel fails for lack of it."""

import re
from pathlib import Path

import pytest
import triton.language as tl
from triton.language.extra import cuda
from triton.runtime import interpreter

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.languages.triton.interpreter import missing_operations
from warpsmith.evaluator.languages.triton.interpreter.libdevice import UnsupportedOnCpuError

SOURCES = [*Path(tl.__file__).parent.glob("*.py"), *(Path(tl.__file__).parent / "extra" / "cuda").glob("*.py")]
REPLACED = {
    "create_reduce", "create_reduce_ret", "create_scan", "create_scan_ret", "create_map_elementwise",
    "create_map_elementwise_ret", "create_grid_dependency_wait", "create_grid_dependency_launch_dependents",
    "create_descriptor_reduce", "new_block", "create_block_with_parent", "get_insertion_point",
    "set_insertion_point_to_start", "restore_insertion_point", "get_loc", "set_loc", "create_name_loc",
    "create_tensor_descriptor_type", "get_void_ty", "create_dot_scaled",
}  # fmt: skip
"""Used by functions that the interpreter, or we, replace as a whole, and for positions in the compiler's code; and what
we refuse by a message of ours where a supported version lacks it."""

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return {reference}

def get_inputs():
    return [torch.{draw}]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

{kernel}

class ModelNew(nn.Module):
    def forward(self, x):
{forward}
        return out
"""
REVERSED = """
@triton.jit
def kernel(x_ptr, out_ptr, n):
    at = tl.program_id(0)
    tl.atomic_xchg(out_ptr + n - 1 - at, tl.load(x_ptr + at))
"""
SUMMED = """
@triton.jit
def kernel(x, out, C: tl.constexpr):
    out.atomic_{name}([0, 0], x.load([tl.program_id(0), 0]))
"""
MAPPED = """
@triton.jit
def halves(a, b):
    if a > 0:
        return a * 2
    else:
        return a - b

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.map_elementwise(halves, x, x * 0 + 1), mask=at < n)
"""
DEPENDENT = """
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + 1, mask=at < n)
    tl.extra.cuda.gdc_launch_dependents()
"""
ONE_EACH = "        out = torch.zeros_like(x)\n        kernel[(x.numel(),)](x, out, x.numel())"
BLOCKS = "        out = torch.empty_like(x)\n        kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)"
TILES = """        out = torch.full((1, x.shape[1]), {start}, dtype=x.dtype, device=x.device)
        views = [TensorDescriptor.from_tensor(one, [1, 16]) for one in (x, out)]
        kernel[(x.shape[0],)](*views, 16)"""


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(EvaluatorConfig(slots=1)) as running:
        yield running


def test_the_interpreter_has_every_operation_that_the_language_uses():
    used = {name for path in SOURCES for name in re.findall(r"\bbuilder\.(\w+)", path.read_text(encoding="utf-8"))}
    assert len(used) > 100
    have = {*dir(interpreter.InterpreterBuilder), *vars(interpreter.interpreter_builder)}
    assert used - have <= REPLACED


def test_scaled_products_are_refused_where_the_interpreter_has_none(monkeypatch):
    for name, held in vars(interpreter.InterpreterBuilder).copy().items():
        if not name.startswith("__"):
            monkeypatch.setattr(interpreter.InterpreterBuilder, name, held)
    for language in (tl, tl.core):
        monkeypatch.setattr(language, "map_elementwise", language.map_elementwise)
    for name in ("gdc_wait", "gdc_launch_dependents"):
        monkeypatch.setattr(cuda, name, getattr(cuda, name))
    monkeypatch.delattr(interpreter.InterpreterBuilder, "create_dot_scaled", raising=False)
    missing_operations.install()
    with pytest.raises(UnsupportedOnCpuError, match=r"before 3\.8"):
        interpreter.InterpreterBuilder().create_dot_scaled(None, None, None)


@pytest.mark.parametrize(
    ("reference", "draw", "kernel", "forward"),
    [
        ("x.flip(0)", "randn(77)", REVERSED, ONE_EACH),
        ("x.flip(0)", "randn(77, dtype=torch.float64)", REVERSED, ONE_EACH),
        ("x.sum(0, keepdim=True)", "randn(9, 16)", SUMMED.format(name="add"), TILES.format(start=0)),
        (
            "x.amax(0, keepdim=True)",
            "randint(-90, 90, (9, 16), dtype=torch.int32)",
            SUMMED.format(name="max"),
            TILES.format(start=-1000),
        ),
        ("torch.where(x > 0, 2 * x, x - 1)", "randn(77)", MAPPED, BLOCKS),
        ("x + 1", "randn(77)", DEPENDENT, BLOCKS),
    ],
    ids=[
        "exchange",
        "exchange_double",
        "add_by_descriptor",
        "max_by_descriptor",
        "map_elementwise",
        "dependent_launch",
    ],
)
def test_operations_that_the_interpreter_lacks_are_judged(evaluator, reference, draw, kernel, forward):
    problem = Problem.from_source(PROBLEM.format(reference=reference, draw=draw), "missing")
    verdict = evaluator.evaluate(problem, CANDIDATE.format(kernel=kernel, forward=forward), trials=3)
    assert verdict.status == "correct", verdict
    wrong = CANDIDATE.format(kernel=kernel, forward=forward.replace("        kernel[", "        0 and kernel["))
    assert evaluator.evaluate(problem, wrong, trials=3).status in {"incorrect", "rejected"}


COMPARED = """
@triton.jit
def pair(a):
    if a > 0:
        return {first}
    else:
        return {second}

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    {taken} = tl.map_elementwise(pair, x)
    tl.store(out_ptr + at, {stored}, mask=at < n)
"""


@pytest.mark.parametrize(
    ("first", "second", "taken", "stored", "reference", "status"),
    [
        ("1", "-1", "y", "y / 2", "torch.where(x > 0, 0.5, -0.5)", "correct"),
        ("a", "0.25", "y", "y", "torch.where(x > 0, x, 0.25)", "correct"),
        ("a, 3", "2 * a, 4", "y, z", "y * z", "torch.where(x > 0, 3 * x, 8 * x)", "correct"),
        # The compiler makes no tensor of what stays a constant, nor one of two types.
        ("1", "1", "y", "y", "x", "compile_error"),
        ("1.5", "1", "y", "y", "torch.where(x > 0, 1.5, 1.0)", "compile_error"),
    ],
)
def test_a_mapped_function_returns_constants_as_the_compiler_has_them(
    evaluator, first, second, taken, stored, reference, status
):
    problem = Problem.from_source(PROBLEM.format(reference=reference, draw="randn(77)"), "missing")
    kernel = COMPARED.format(first=first, second=second, taken=taken, stored=stored)
    verdict = evaluator.evaluate(problem, CANDIDATE.format(kernel=kernel, forward=BLOCKS), trials=3)
    assert verdict.status == status, verdict
