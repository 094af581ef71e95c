"""What a candidate's exceptions are called in a verdict, those of a GPU among them."""

from pathlib import Path

import pytest
import torch
from torch import nn
from triton.runtime.errors import InterpreterError

from warpsmith.evaluator._native import NativeError
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.triton.extract.values import ExtractionError
from warpsmith.evaluator.languages.triton.interpreter.tracing import GridError, IllegalAccessError
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.languages.triton.launch_monitors import KernelFailedError
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError
from warpsmith.evaluator.recordings.outputs import OutputError
from warpsmith.evaluator.recordings.recorder import UntraceableError
from warpsmith.evaluator.verdict import ERROR_CATEGORIES
from warpsmith.evaluator.workers.error_categories import CandidateError, categorise

REFUSED = "device: cuModuleLoadData failed: {}, result {}."


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (KernelFailedError("too much", "shared_memory_exceeded"), "shared_memory_exceeded"),
        (RuntimeError("CUDA error: an illegal memory access was encountered\nSearch for ..."), "illegal_memory_access"),
        (RuntimeError("CUDA error: misaligned address"), "illegal_memory_access"),
        (
            NativeError(REFUSED.format("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)", 700)),
            "illegal_memory_access",
        ),
        (NativeError(REFUSED.format("CUDA_ERROR_OUT_OF_MEMORY (out of memory)", 2)), "out_of_memory"),
        (RuntimeError("CUDA error: out of memory"), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "out_of_memory"),
        (ArgumentError("Argument n, 1.5, is no i32"), "argument_error"),
        (GridError("a grid is (1, 2, 3, 4)"), "argument_error"),
        (IllegalAccessError("a kernel stores behind the end of a tensor"), "illegal_memory_access"),
        (CandidateError("the source defines no class ModelNew"), "parse_error"),
        (SyntaxError("invalid syntax"), "syntax_error"),
        (OutputError("Output is a set"), "output_error"),
        (UntraceableError("too many events"), "recording_limit"),
        (ExtractionError("the kernel reads x", "Pass it.", 3), "triton_compilation_error"),
        (WireError("no event of a trace"), "process_error"),
        (NativeError(REFUSED.format("CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)", 200)), "device_error"),
        (RuntimeError("CUDA error: device-side assert triggered"), "device_error"),
        (AssertionError("Torch not compiled with CUDA enabled"), "device_error"),
        (ValueError("Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"), "device_error"),
        (ModuleNotFoundError("No module named 'numba'"), "import_error"),
        (UnboundLocalError("cannot access local variable 'n'"), "name_error"),
        (PermissionError(1, "Operation not permitted"), "os_error"),
        (FloatingPointError("overflow"), "arithmetic_error"),
        (SystemExit(3), "system_exit"),
        (ValueError("anything"), "value_error"),
        (RuntimeError("anything"), "runtime_error"),
        (KeyboardInterrupt(), "unknown"),
        (type("Their", (Exception,), {})("own"), "unknown"),
    ],
)
def test_an_exception_has_its_category(error, category):
    assert categorise(error, TRITON) == category
    assert category in ERROR_CATEGORIES


def test_the_first_cause_counts_before_the_last():
    try:
        try:
            raise KernelFailedError("too much", "shared_memory_exceeded")
        except KernelFailedError as error:
            raise CandidateError("forward failed") from error
    except CandidateError as error:
        assert categorise(error, TRITON) == "shared_memory_exceeded"


T = torch.ones


def recurse():
    return recurse()


@pytest.mark.parametrize(
    ("mistake", "category"),
    [
        (lambda: undefined_name, "name_error"),  # noqa: F821
        (lambda: __import__("no_such_module"), "import_error"),
        (lambda: T(2).no_such, "attribute_error"),
        (lambda: torch.empty("2"), "type_error"),
        (lambda: len(3), "type_error"),
        (lambda: int("x"), "value_error"),
        (lambda: [1].pop(3), "index_error"),
        (lambda: {}["x"], "key_error"),
        (lambda: 1 // 0, "arithmetic_error"),
        (recurse, "recursion_error"),
        (lambda: nn.Module()(1), "not_implemented_error"),
        (lambda: Path("/no/such/file").read_text(), "os_error"),
        (lambda: T(2, 3).view(4, 2), "shape_error"),
        (lambda: T(2, 3).t().view(6), "shape_error"),
        (lambda: T(2, 3).reshape(5), "shape_error"),
        (lambda: T(2, 3).reshape(-1, 4), "shape_error"),
        (lambda: T(2, 3).reshape(-1, -1), "shape_error"),
        (lambda: T(2, 3) + T(2, 4), "shape_error"),
        (lambda: T(2, 3) @ T(2, 4), "shape_error"),
        (lambda: T(2, 3).expand(4, 3), "shape_error"),
        (lambda: T(2, 3).expand(3), "shape_error"),
        (lambda: T(2, 3).permute(0, 1, 2), "shape_error"),
        (lambda: T(2, 3).transpose(0, 5), "shape_error"),
        (lambda: T(2, 3).copy_(T(4, 3)), "shape_error"),
        (lambda: torch.cat([T(2, 3), T(2, 4)]), "shape_error"),
        (lambda: torch.stack([T(2), T(3)]), "shape_error"),
        (lambda: torch.split(T(4), [1, 2]), "shape_error"),
        (lambda: torch.narrow(T(4), 0, 2, 5), "shape_error"),
        (lambda: torch.empty(-1), "shape_error"),
        (lambda: torch.nn.functional.linear(T(2, 3), T(4, 5)), "shape_error"),
        (lambda: T(3).as_strided((5,), (1,)), "shape_error"),
        (lambda: T(2, 3) @ T(3, 4).double(), "dtype_error"),
        (lambda: T(2, device="meta") + T(3), "shape_error"),
        (lambda: T(2).to("cuda"), "device_error"),
    ],
)
def test_what_python_and_torch_raise_has_the_category_of_its_kind(mistake, category):
    if category == "device_error" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(Exception) as raised:
        mistake()
    assert categorise(raised.value, TRITON) == category, raised.value


def test_what_a_kernel_raises_stays_tritons():
    try:
        try:
            raise NameError("x")
        except NameError as error:
            raise InterpreterError(repr(error)) from error
    except InterpreterError as error:
        assert categorise(error, TRITON) == "triton_jit_error"
