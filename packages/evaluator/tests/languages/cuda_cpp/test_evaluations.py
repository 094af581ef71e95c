"""Whole evaluations of candidates in CUDA C++, and of candidates in the other language than the evaluator's."""

import pytest

from warpsmith.evaluator import Problem

PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return x + y

def get_inputs():
    return [torch.randn(20, 30), torch.randn(20, 30)]
"""
CUDA = """\
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

module = load_inline("add", "", "", functions=["add"])

class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
"""


@pytest.mark.slow
def test_cuda_under_an_evaluator_of_triton_says_how_to_judge_it(evaluator):
    verdict = evaluator.evaluate(Problem.from_source(PROBLEM, "add"), CUDA, trials=1)
    assert (verdict.status, verdict.error_category) == ("compile_error", "parse_error")
    assert verdict.error_message == (
        "The candidate is written in CUDA C++, and this evaluator judges Triton. Write @triton.jit kernels, or let it "
        "be judged with language = 'cuda_cpp' (--backend)."
    )
