"""Changes of a problem's source at named places, and the repairs that are chosen for a problem."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.evaluator import Problem
from warpsmith.evaluator.datasets.repairs import SETS, known, parsed, repaired
from warpsmith.evaluator.datasets.source_changes import Argument, Constant, Draw, changed
from warpsmith.evaluator.errors import DatasetError

SOURCE = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return torch.clamp(x + y, min=0, max=1)  # größer

rows = 4 * 8  # Zeilen: ä
height, width = 16, 32
depth = space = 3

def get_inputs():
    s = torch.rand(()); x = torch.rand(rows, height, width) * s; return [x, torch.rand(rows, height, width)]

def get_init_inputs():
    return []
"""
REPAIRS = """\
format = 1

[[problem]]
level = 1
number = 7
name = "7_Clamp"
sha256 = "{}"
why = "why"

[problem.sets.inputs]
reason = "one"
changes = [{{ kind = "draw", index = 2, old = "torch.rand", new = "torch.randn" }}]

[problem.sets.24gb]
reason = "two"
changes = [{{ kind = "constant", name = "rows", old = "4 * 8", new = "2" }}]
"""
TOGETHER = """
[problem.sets."inputs+24gb"]
reason = "three"
changes = [{ kind = "constant", name = "rows", old = "4 * 8", new = "3" }]
"""


def problem():
    return Problem("7_Clamp", SOURCE, 1, "level1/7_Clamp.py", 7)


def test_each_kind_of_place_changes_alone():
    changes = [
        Constant(name="rows", old="4 * 8", new="2"),
        Constant(name="(height, width)", old="16, 32", new="5, 6"),
        Constant(name="depth = space", old="3", new="4"),
        Draw(index=1, old="torch.rand", new="8 * torch.randn"),
        Argument(function="torch.clamp", name="max", old="1", new="64"),
    ]
    expected = SOURCE.replace("4 * 8", "2").replace("16, 32", "5, 6").replace("space = 3", "space = 4")
    expected = expected.replace("max=1", "max=64").replace("x = torch.rand(rows", "x = 8 * torch.randn(rows")
    assert changed(SOURCE, changes) == expected
    assert changed(SOURCE, []) == SOURCE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([Constant(name="rows", old="32", new="2")], "where '32' was expected"),
        ([Constant(name="columns", old="32", new="2")], "has 0 places 'columns'"),
        ([Draw(index=3, old="torch.rand", new="torch.randn")], "0 places 'get_inputs, draw 3'"),
        ([Argument(function="torch.clamp", name="low", old="0", new="1")], "0 places"),
        ([Constant(name="rows", old="4 * 8", new="2"), Constant(name="rows", old="4 * 8", new="3")], "overlap"),
    ],
)
def test_a_change_that_does_not_fit_is_an_error(changes, said):
    with pytest.raises(DatasetError, match=said):
        changed(SOURCE, changes)


def test_a_constant_assigned_twice_is_ambiguous():
    with pytest.raises(DatasetError, match="2 places"):
        changed(SOURCE + "rows = 4 * 8\n", [Constant(name="rows", old="4 * 8", new="2")])


WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=12)


@given(st.lists(st.tuples(st.integers(0, 10**9), WORDS), min_size=1, max_size=5), st.data())
def test_another_constant_leaves_every_other_byte(values, data):
    lines = [f"{text!r}; name{i} = {value}  # {text}" for i, (value, text) in enumerate(values)]
    source, index = "\n".join(lines), data.draw(st.integers(0, len(values) - 1))
    new = changed(source, [Constant(name=f"name{index}", old=str(values[index][0]), new="-1")])
    lines[index] = f"{values[index][1]!r}; name{index} = -1  # {values[index][1]}"
    assert new == "\n".join(lines)


def test_sets_are_chosen_alone_and_together():
    text = REPAIRS.format(problem().key)
    by_set = {sets: repaired([problem()], sets, parsed(text))[0] for sets in (("inputs",), ("24gb",), SETS)}
    assert [list(one.repairs) for one in by_set.values()] == [["inputs"], ["24gb"], ["inputs", "24gb"]]
    assert by_set["inputs",].problem.source == SOURCE.replace("[x, torch.rand(", "[x, torch.randn(")
    assert "rows = 2 " in by_set[SETS].problem.source
    assert "[x, torch.randn(" in by_set[SETS].problem.source
    (both,) = repaired([problem()], SETS, parsed(text + TOGETHER))
    assert list(both.repairs) == ["inputs+24gb"]
    assert both.problem.source == SOURCE.replace("4 * 8", "3")


def test_another_revision_is_left_alone_and_named():
    other = Problem("7_Clamp", SOURCE + "# later\n", 1, "", 7)
    (left,) = repaired([other], SETS, parsed(REPAIRS.format(problem().key)))
    assert (left.problem, left.repairs, left.other_revision) == (other, {}, True)
    (unknown,) = repaired([Problem("8_Clamp", SOURCE, 1, "", 8)], SETS, parsed(REPAIRS.format(problem().key)))
    assert (unknown.repairs, unknown.other_revision) == ({}, False)


def test_damaged_repairs_are_reported():
    text = REPAIRS.format("0" * 64)
    with pytest.raises(DatasetError, match="format 2"):
        parsed(text.replace("format = 1", "format = 2"))
    with pytest.raises(DatasetError, match="twice"):
        parsed(text + text.split("\n", 2)[2])
    with pytest.raises(ValidationError, match="reasons"):
        parsed(text.replace("reason =", "reasons =", 1))


def test_the_repairs_of_this_package_are_whole():
    assert known() == tuple(sorted(known(), key=lambda one: (one.level, one.number)))
    for one in known():
        assert one.sets or one.beyond_repair, one.name
        assert bool(one.why) == ("inputs" in one.sets or bool(one.beyond_repair)), one.name
        for repair in one.sets.values():
            for change in repair.changes:
                assert ast.parse(change.old) and ast.parse(change.new)
                assert change.old != change.new
