"""Stand-ins of Inductor: grids, blocks of kernels under its decorators, and what raises with what to write."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.workers import inductor_stand_ins as stand_ins


@given(st.lists(st.integers(1, 1 << 22), min_size=1, max_size=3), st.integers(0, 6), st.integers(0, 6))
def test_a_grid_covers_every_element_of_each_axis(numels, x_power, y_power):
    x, y, z = stand_ins.grid(*numels)({"XBLOCK": 1 << x_power, "YBLOCK": 1 << y_power, "ZBLOCK": 4})
    assert (x - 1) << x_power < numels[-1] <= x << x_power
    assert y <= stand_ins.MOST_Y or len(numels) == 3
    if len(numels) == 2:
        assert (y * z) << y_power >= numels[0]
    elif len(numels) == 1:
        assert (y, z) == (1, 1)


class Launched:
    """A kernel that notes its grid and its arguments."""

    def __init__(self, *names):
        self.arg_names = names

    def __getitem__(self, grid):
        return lambda *args, **options: SimpleNamespace(grid=grid(options), args=args, options=options)


@pytest.mark.parametrize(
    ("names", "hints"),
    [
        (("x", "xnumel", "XBLOCK"), {"x": 4096}),
        (("x", "xnumel", "XBLOCK"), [4096]),
        (("x", "ynumel", "xnumel", "YBLOCK", "XBLOCK"), {"y": 512, "x": 4096}),
        (("x", "xnumel", "r0_numel", "XBLOCK", "R0_BLOCK"), {"x": 4096, "r0_": 64}),
        (("x", "xnumel", "rnumel", "XBLOCK", "RBLOCK"), [4096, 64]),
        (("x", "xnumel", "rnumel", "XBLOCK"), {"x": 3, "r": 9}),
    ],
)
def test_a_kernel_gets_each_block_it_takes_and_a_grid_by_its_numels(names, hints):
    kernel = stand_ins.HeuristicKernel(Launched(*names), hints)
    numels = {name: 1000 for name in names if name.endswith("numel")}
    made = kernel.run(None, *numels.values(), stream=0)
    blocks = made.options
    assert blocks.keys() == {name for name in names if name.endswith("BLOCK")}
    assert 1 <= math.prod(blocks.values()) <= stand_ins.MOST_ELEMENTS
    assert made.grid[0] * blocks["XBLOCK"] >= 1000
    assert made.grid[1] * made.grid[2] * blocks.get("YBLOCK", 1000) >= 1000
    assert kernel.run(None, *numels.values(), grid=lambda _: (7,), stream=0).grid == (7,)


@pytest.mark.parametrize(
    ("names", "hints", "x_block"),
    [
        (("x", "xnumel", "r0_numel", "XBLOCK"), {"x": 4096, "r0_": 300}, 2),
        (("x", "xnumel", "rnumel", "XBLOCK"), [4096, 512], 2),
        (("x", "xnumel", "r0_numel", "r1_numel", "XBLOCK"), {"x": 4096, "r0_": 16, "r1_": 16}, 4),
        (("x", "xnumel", "r0_numel", "XBLOCK"), {"x": 4096, "r0_": 4096}, 1),
        (("x", "xnumel", "r0_numel", "XBLOCK"), {"x": 2, "r0_": 16}, 2),
    ],
)
def test_rows_whose_block_a_kernel_sets_itself_count_in_what_a_block_may_be(names, hints, x_block):
    made = stand_ins.HeuristicKernel(Launched(*names), hints).run(None, 5000, 300, stream=0)
    assert made.options == {"XBLOCK": x_block}
    assert made.grid[0] == math.ceil(5000 / x_block)


def test_a_list_of_hints_has_the_innermost_axis_last():
    rows = stand_ins.HeuristicKernel(Launched("x", "xnumel", "rnumel", "XBLOCK", "RBLOCK"), [4096, 64])
    assert rows.run(None, 4096, 64).options == {"XBLOCK": 16, "RBLOCK": 64}
    planes = stand_ins.HeuristicKernel(Launched("x", "ynumel", "xnumel", "YBLOCK", "XBLOCK"), [4, 4096])
    assert planes.run(None, 4, 4096).options == {"YBLOCK": 4, "XBLOCK": 256}


def test_what_has_no_stand_in_says_what_to_write_when_it_is_used():
    template = stand_ins.Refused("CppTemplate").render
    with pytest.raises(NotImplementedError, match=r"CppTemplate\.render .* Paste each kernel"):
        template(1)
    with pytest.raises(NotImplementedError, match=r"extern_kernels\.no_such_operator"):
        stand_ins.ExternKernels().no_such_operator(1)
