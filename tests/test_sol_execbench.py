"""What SOL-ExecBench's driver is given for a problem and a candidate of the attack corpus; it is not run here."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PROBLEM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, scale=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.scale = scale

    def forward(self, x, factor):
        return {"scaled": x * self.weight * self.scale * factor, "positive": x > 0}


def get_inputs():
    return INPUTS


def get_init_inputs():
    return {"size": 5, "scale": 3.0}
"""
CANDIDATE = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def __init__(self, size, scale):\n" + (
    "        super().__init__()\n        self.size = size\n\n    def forward(self, x, factor):\n"
    "        return x * self.size * factor\n"
)


@pytest.fixture
def sol(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(tmp_path))
    import _sol_execbench

    (tmp_path / "warpsmith_model.py").write_text(_sol_execbench.MODEL)
    yield _sol_execbench
    for name in ("warpsmith_model", "warpsmith_problem"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ("[torch.randn(4, 5), 7]", ["in_0", "in_1"]),
        ('{"x": torch.randn(4, 5), "factor": 7}', ["x", "factor"]),
    ],
    ids=["by position", "by name"],
)
def test_a_problem_becomes_a_definition_that_computes_the_same(sol, tmp_path, inputs, names):
    problem = PROBLEM.replace("INPUTS", inputs)
    (tmp_path / "warpsmith_problem.py").write_text(problem)
    sol._stage(tmp_path, problem, CANDIDATE)
    definition = json.loads((tmp_path / "definition.json").read_text())
    assert list(definition["inputs"]) == names
    assert list(definition["inputs"].values()) == [
        {"shape": ["axis_4", "axis_5"], "dtype": "float32"},
        {"shape": None, "dtype": "int64"},
    ]
    assert {name: one["dtype"] for name, one in definition["outputs"].items()} == {
        "scaled": "float32",
        "positive": "bool",
    }
    assert definition["axes"]["axis_5"] == {"type": "const", "value": 5}

    (tmp_path / "reference.py").write_text(definition["reference"])
    reference = runpy.run_path(str(tmp_path / "reference.py"))
    given = reference["warpsmith_inputs"]({}, "cpu")
    assert list(given) == names
    x, factor = given.values()
    first, again = (reference["run"](x, factor)["scaled"] for _ in range(2))
    assert torch.equal(first, again)

    candidate = runpy.run_path(str(tmp_path / "candidate.py"))
    assert torch.equal(candidate["run"](x, factor), x * 5 * factor)
    assert json.loads((tmp_path / "solution.json").read_text())["spec"]["entry_point"] == "candidate.py::run"


def test_both_sides_are_constructed_from_one_seed_and_draw_nothing_from_the_other_states(sol):
    from warpsmith_model import constructed

    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    one, two = (constructed(torch.nn.Linear, [3, 2]) for _ in range(2))
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(torch.randn(2), expected)
