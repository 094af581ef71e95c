"""What a candidate's exceptions are called in a verdict, those of a GPU among them."""

import pytest
import torch

from warpsmith.evaluator._native import NativeError
from warpsmith.evaluator.candidate_worker import CandidateError, categorise
from warpsmith.evaluator.interpreting import IllegalAccessError
from warpsmith.evaluator.kernels import ArgumentError
from warpsmith.evaluator.launching import KernelFailedError
from warpsmith.evaluator.verdict import ERROR_CATEGORIES

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
        (ArgumentError("Argument n, 1.5, is no i32"), "triton_jit_error"),
        (IllegalAccessError("a kernel stores behind the end of a tensor"), "illegal_memory_access"),
        (CandidateError("the source defines no class ModelNew"), "parse_error"),
        (SyntaxError("invalid syntax"), "syntax_error"),
        (ValueError("anything"), "unknown"),
    ],
)
def test_an_exception_has_its_category(error, category):
    assert categorise(error) == category
    assert category in ERROR_CATEGORIES


def test_the_first_cause_counts_before_the_last():
    try:
        try:
            raise KernelFailedError("too much", "shared_memory_exceeded")
        except KernelFailedError as error:
            raise CandidateError("forward failed") from error
    except CandidateError as error:
        assert categorise(error) == "shared_memory_exceeded"
