"""Sizes that no integer of a problem's source says: which there are, and that inputs take others."""

import ast

import pytest
import torch
from torch import nn

from warpsmith.evaluator.reference.unnamed_sizes import SIDE, Sides, held_by, sides_among
from warpsmith.evaluator.reference.variability import learn

PROBLEM = """
import enum, json
import numpy as np
import torch
import torch.nn as nn

class Rows(enum.IntEnum):
    COUNT = 24

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {inside}
    def forward(self, *inputs):
        return sum(x.double().sum(-1, keepdim=True) for x in inputs)

def get_inputs():
    rows, columns = map(int, "10x33".split("x"))
    {lines}
"""


def resized(session_of, lines, inside="pass"):
    session = session_of(PROBLEM.format(lines=lines, inside=inside))
    ways = learn(session, hidden_shapes=True).resizings
    return set(ways[0].sizes) if ways else set()


@pytest.mark.parametrize(
    "lines",
    [
        "return [torch.randn(rows, columns)]",
        "return [torch.randn((rows, columns))]",
        "return [torch.zeros(rows, columns).normal_()]",
        "return [torch.from_numpy(np.random.randn(rows, columns))]",
        "return [torch.from_numpy(np.random.normal(size=(rows, columns)))]",
        "return [torch.randint(0, 9, (rows, columns))]",
        "return [torch.randn(rows, columns), torch.arange(columns)]",
    ],
)
def test_sizes_behind_a_text_vary(session_of, lines):
    assert {f"{SIDE}10", f"{SIDE}33"} <= resized(session_of, lines)


def test_members_of_an_enumeration_are_sizes(session_of):
    assert "literal 24" in resized(session_of, "return [torch.randn(Rows.COUNT, columns)]")


@pytest.mark.parametrize(
    "inside",
    [
        "self.columns = 33",
        "self.linear = nn.Linear(33, 1)",
        "self.half = 3 * 11",
        "self.columns = [11, 3]",
        "self.form = 'of 33'",
    ],
)
def test_what_the_model_holds_or_the_source_says_stays(session_of, inside):
    found = resized(session_of, "return [torch.randn(rows, columns)]", inside)
    assert f"{SIDE}33" not in found
    assert f"{SIDE}10" in found


def test_sizes_that_must_agree_stay_if_one_is_out_of_reach(session_of):
    # A view of a tensor is asked for its size too, but by no function that makes one.
    assert f"{SIDE}33" not in resized(session_of, "return [torch.randn(rows * columns).view(rows, columns)]")


def test_arguments_are_changed_where_they_are_sides_alone():
    sides = Sides({32: 20})
    assert sides.asked("randn", (8, 32), {"dtype": torch.float64}) == ((8, 20), {"dtype": torch.float64})
    assert sides.asked("randint", (32, (8, 32)), {}) == ((32, (8, 20)), {})
    assert sides.asked("full", ((32,), 32), {"size": [32, 1]}) == (((20,), 32), {"size": (20, 1)})
    assert sides.asked("arange", (32,), {}) == ((20,), {})
    assert sides.asked("arange", (0, 32), {}) == ((0, 32), {})
    assert sides.asked("matmul", (32,), {}) == ((32,), {})
    assert set(sides.met) == {8, 32, 1}
    assert sides_among({f"{SIDE}32": 20, "literal 32": 7, "N": 3}) == {32: 20}


def test_integers_of_a_model_its_arguments_and_products_are_held():
    module = nn.Linear(5, 7)
    module.register_buffer("table", torch.zeros(11, 13))
    source = ast.parse("N = 3\nM = N * 19\ndef f(): return 2 ** 6")
    held = held_by(source, ast.parse("F = '37x41'").body, module, [17, {"form": "23x29"}])
    assert {5, 7, 11, 13, 17, 23, 29, 37, 41, 3, 19, 57, 64} <= held
    assert 31 not in held
