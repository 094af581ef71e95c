"""Forms of code: what does not change the computation makes no difference, everything else does."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets import generated
from warpsmith.rollout.datasets.normal_form import exact_problem_form, kernel_form, problem_form

BASE = '''import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16


def scaled(x, by):
    return x * by


class Model(nn.Module):
    """Says what it does."""

    def __init__(self, width):
        super(Model, self).__init__()
        self.linear = nn.Linear(width, width)

    def helper(self, y):
        return F.relu(y)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A comment.
        return scaled(self.helper(self.linear(x)), 2.0)


def get_inputs():
    return [torch.rand(SIZE, 8)]


def get_init_inputs():
    return [8]
'''
SAME = {
    "locals": ("def forward(self, x: torch.Tensor)", "def forward(self, z)", ("linear(x)", "linear(z)")),
    "docstring": ('    """Says what it does."""\n', ""),
    "comment": ("        # A comment.\n", ""),
    "function": ("scaled", "grown"),
    "attribute": ("linear", "inner"),
    "method": ("helper", "step"),
    "super": ("super(Model, self)", "super()"),
    "alias": ("import torch.nn.functional as F", "from torch.nn import functional as F"),
    "another alias": ("(nn.Module", "(torch.nn.Module", ("= nn.Linear", "= torch.nn.Linear")),
    "unused": ("class Model", "def unused():\n    return 3\n\n\nclass Model"),
    "parameter": ("def scaled(x, by):\n    return x * by", "def scaled(a, b):\n    return a * b"),
}
SIZES = {"size": ("SIZE = 16", "SIZE = 1024"), "inputs": ("torch.rand", "torch.randn"), "factor": ("2.0", "-3.5")}
OTHER = {
    "operator": ("x * by", "x + by"),
    "function": ("F.relu", "F.gelu"),
    "layer": ("nn.Linear", "nn.Bilinear"),
    "order": ("self.helper(self.linear(x))", "self.linear(self.helper(x))"),
    "argument": ("scaled(self.helper(self.linear(x)), 2.0)", "scaled(self.helper(self.linear(x)), x)"),
}


def changed(name, changes):
    old, new, *more = changes[name]
    source = BASE.replace(old, new)
    for one, other in more:
        source = source.replace(one, other)
    assert source != BASE
    ast.parse(source)
    return source


@pytest.mark.parametrize("name", SAME)
def test_names_and_texts_for_people_make_no_difference(name):
    source = changed(name, SAME)
    assert problem_form(source) == problem_form(BASE)
    assert exact_problem_form(source) == exact_problem_form(BASE)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_count_for_repetitions_alone(name):
    source = changed(name, SIZES)
    assert problem_form(source) == problem_form(BASE)
    assert exact_problem_form(source) != exact_problem_form(BASE)


@pytest.mark.parametrize("name", OTHER)
def test_another_computation_is_another_form(name):
    source = changed(name, OTHER)
    assert problem_form(source) != problem_form(BASE)
    assert exact_problem_form(source) != exact_problem_form(BASE)


def test_cuda_code_in_a_text_counts_without_comments_and_spaces():
    code = "__global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }" * 8
    module = "from torch.utils.cpp_extension import load_inline\nC = {!r}\nm = load_inline('k', '', C)\n\n\n"
    module += "class ModelNew:\n    def forward(self, x):\n        return m.forward(x)\n"
    spaced = code.replace(";", "; // twice\n  ").replace("{", "/* body */ {\n")
    assert kernel_form(module.format(code)) == kernel_form(module.format(spaced))
    assert kernel_form(module.format(code)) != kernel_form(module.format(code.replace("2.0f", "3.0f")))


def test_generated_problems_have_forms_of_their_own():
    """Two problems of one composition share the form without constants, whatever their shapes; others do not."""
    rows = generated(seed=0, count=120)
    assert len({exact_problem_form(row.text) for row in rows}) == len({row.text for row in rows})
    by_form: dict[str, set[str]] = {}
    for row in rows:
        by_form.setdefault(problem_form(row.text), set()).add(row.composition)
    assert len(by_form) > 60


@given(st.text(max_size=200))
def test_any_text_has_a_form_or_is_no_python(text):
    try:
        form = problem_form(text)
    except UsageError:
        with pytest.raises((SyntaxError, ValueError)):
            ast.parse(text)
    else:
        assert len(form) == 32
