import numpy as np
import pytest

from warpsmith.evaluator import Evaluator, Problem
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.workers.calling import called, constructed, forward_arguments, init_arguments


def model(scale=1.0, shift=0.0, config=None):
    return scale, shift, config


def anything(*args, **kwargs):
    return args, kwargs


@pytest.mark.parametrize(
    ("constructor", "given", "expected"),
    [
        (model, None, (1.0, 0.0, None)),
        (model, [], (1.0, 0.0, None)),
        (model, [2.0], (2.0, 0.0, None)),
        (model, (2.0, 3.0), (2.0, 3.0, None)),
        (model, {"shift": 3.0}, (1.0, 3.0, None)),
        (model, [[], {"scale": 2.0, "shift": 1.0}], (2.0, 1.0, None)),
        (model, [[2.0], {"config": {"a": 1}}], (2.0, 0.0, {"a": 1})),
        (model, [[], {}], (1.0, 0.0, None)),
        (model, [[1, 2], {"width": 3}], ([1, 2], {"width": 3}, None)),
        (model, [{"scale": 2.0}], ({"scale": 2.0}, 0.0, None)),
        (anything, [[1], {"width": 3}], ((1,), {"width": 3})),
    ],
)
def test_a_constructor_gets_what_get_init_inputs_means(constructor, given, expected):
    assert constructed(constructor, init_arguments(given, constructor)) == expected


@pytest.mark.parametrize("given", [3, "text", {1, 2}])
def test_other_answers_say_what_was_expected(given):
    with pytest.raises(TypeError, match="list of the arguments"):
        init_arguments(given, model)
    with pytest.raises(TypeError, match="list of the arguments"):
        forward_arguments(given)


@pytest.mark.parametrize("given", [[1.0, 2.0], (1.0, 2.0), {"shift": 2.0, "scale": 1.0}])
def test_forward_is_called_by_position_or_by_name(given):
    assert called(model, forward_arguments(given)) == (1.0, 2.0, None)


NAMED = """\ufeff
import torch
class Model(torch.nn.Module):
    def __init__(self, factor, device="cpu"):
        super().__init__()
        self.factor = factor
        self.device = device
    def forward(self, x, y):
        return x * self.factor - y.to(self.device)
def get_inputs():
    return {"y": torch.randn(20, 30, device="cuda"), "x": torch.randn(20, 30).cuda()}
def get_init_inputs():
    return {"device": "cuda:0", "factor": 3.0}
if __name__ == "__main__":
    Model(**get_init_inputs()).cuda()(**get_inputs())
"""

CANDIDATE = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * factor - y, mask=i < n)

class ModelNew(torch.nn.Module):
    def __init__(self, factor, device):
        super().__init__()
        self.factor = factor
    def forward(self, x, y):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, self.factor, x.numel(), BLOCK=256)
        return out
"""


def test_a_problem_for_a_gpu_with_names_in_place_of_places_is_judged(evaluator: Evaluator):
    problem = Problem.from_source(NAMED, "named")
    assert evaluator.evaluate(problem, CANDIDATE).status == "correct"
    assert evaluator.evaluate(problem, "\ufeff" + CANDIDATE).status == "correct"
    assert evaluator.evaluate(problem, CANDIDATE.replace("- y,", "+ y,")).status == "incorrect"


@pytest.mark.parametrize(
    ("number", "plain"),
    [(np.float32(0.5), 0.5), (np.float64(0.25), 0.25), (np.int64(7), 7), (np.uint8(7), 7), (np.bool_(True), True)],
)
def test_a_number_of_numpys_is_a_plain_number(number, plain):
    found = tensor_views.describe([number], [])[0]
    assert (found, type(found)) == (plain, type(plain))


def test_a_number_that_python_has_not_is_named():
    with pytest.raises(WireError, match="type numpy"):
        tensor_views.describe([np.longdouble(1.5)], [])
