"""Slices of draws, and parameters, with which a recurrence remembers; numbers that half precision rounds down."""

import pytest
import torch
from torch import nn

from warpsmith.evaluator.reference.draw_plan import MODERATE_TOO, NEAR_ONE, DrawPlan
from warpsmith.evaluator.reference.lasting_slices import add_lasting_slices, add_memory
from warpsmith.evaluator.reference.levels import ANYWHERE, FAR, IN_RANGE, SAME_SIGN
from warpsmith.evaluator.reference.mutations import vary_draw
from warpsmith.evaluator.reference.one_sided_tails import round_down_in_half

SEEDS = range(8)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("level", [IN_RANGE, ANYWHERE, FAR])
@pytest.mark.parametrize("on_grid", [False, True])
def test_some_rows_keep_their_product_from_fading(level, on_grid):
    for seed in SEEDS:
        draw = torch.randn(8, 2048, generator=seeded(seed))
        add_lasting_slices(draw, level, seeded(seed), on_grid=on_grid, moderate=False)
        last = draw.double().prod(1).abs()
        assert int((last > 0.1).sum()) == 2
        assert int((last < 1e-30).sum()) == 6


@pytest.mark.parametrize("on_grid", [False, True])
def test_some_channels_keep_a_gate_open_at_all_steps(on_grid):
    """On a grid in one half of the samples, and the others stay as they were."""
    for seed in SEEDS:
        before = torch.randn(3, 192, 16, generator=seeded(seed))
        gate = before.clone()
        add_lasting_slices(gate, ANYWHERE, seeded(seed), on_grid=on_grid)
        kept = gate.sigmoid().log().sum(1)
        changed = (gate != before).flatten(1).any(1)
        assert int(changed.sum()) in ((1, 2) if on_grid else (3,))
        assert bool((kept > -16).any(1)[changed].all())
        assert float((kept < -60).double().mean()) > 0.4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_level_bounds_the_slices(seed):
    within = torch.rand(12, 40, generator=seeded(seed)) * 0.5
    low, high = within.aminmax()
    add_lasting_slices(within, IN_RANGE, seeded(seed), on_grid=False)
    assert float(low) <= float(within.min()) <= float(within.max()) <= float(high)
    negative = -torch.rand(12, 40, generator=seeded(seed)) - 0.1
    add_lasting_slices(negative, SAME_SIGN, seeded(seed), on_grid=False)
    assert float(negative.max()) < 0


def test_few_slices_and_what_a_plan_excludes_stay():
    draw = torch.randn(3, 2, generator=seeded(0))
    before = draw.clone()
    add_lasting_slices(draw, FAR, seeded(0), on_grid=False)
    assert torch.equal(draw, before)
    assert DrawPlan("outliers").lasts
    assert not DrawPlan("outliers", lasting=0).lasts
    assert not DrawPlan("rows", lasting=MODERATE_TOO).lasts
    assert NEAR_ONE < MODERATE_TOO


def test_a_recurrence_with_memory_depends_on_its_first_steps():
    remembers = 0
    for seed in SEEDS:
        torch.manual_seed(seed)
        lstm, x = nn.LSTM(8, 16, batch_first=True), torch.randn(2, 90, 8)
        lstm.requires_grad_(False)
        short = float((lstm(x)[0][:, -1] - lstm(x[:, 50:])[0][:, -1]).abs().max())
        assert short < 1e-4
        for parameter in lstm.parameters():
            add_memory(parameter, seeded(seed))
        remembers += float((lstm(x)[0][:, -1] - lstm(x[:, 50:])[0][:, -1]).abs().max()) > 1e-3
    assert remembers >= len(SEEDS) - 1


def test_an_only_row_is_a_slice_where_nothing_else_is_asked_of_a_draw():
    faded = kept = 0
    for seed in range(24):
        draw = torch.randn(600, generator=seeded(seed))
        faded += float(torch.nn.functional.softplus(draw).sum()) > 100
        add_lasting_slices(draw, ANYWHERE, seeded(seed), on_grid=False, alone=True)
        kept += float(torch.nn.functional.softplus(draw).sum()) < 2
    assert faded == 24
    assert kept > 0


def test_units_that_only_keep_what_they_have_hold_a_state_that_nothing_bounds():
    remembers = 0
    for seed in range(64):
        weight = 0.05 * torch.randn(16, 16, generator=seeded(seed))
        add_memory(weight, seeded(seed))
        powers = torch.linalg.matrix_power(weight.double(), 100)
        remembers += bool(torch.isfinite(powers).all()) and 0.01 < float(powers.abs().max()) < 100
    assert remembers > 0


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_the_errors_of_half_precision_add_up(half):
    numbers = torch.randn(4096, generator=seeded(0))
    tailed = round_down_in_half(numbers)
    lost = 1 - tailed.to(half).float() / tailed
    assert float(lost.min()) > 0
    assert float(lost.mean()) > torch.finfo(half).eps / 8
    assert float(((tailed - numbers) / numbers).abs().max()) < 2**-7
    assert len(tailed.unique()) > 4000


def test_zeros_and_infinities_and_other_precision_have_no_tails():
    some = torch.tensor([0.0, -0.0, float("inf"), float("-inf")])
    assert torch.equal(round_down_in_half(some), some)
    assert bool(torch.isnan(round_down_in_half(torch.tensor([float("nan")]))).all())
    assert round_down_in_half(some.double()) is not None
    assert torch.equal(round_down_in_half(some.double()), some.double())


@pytest.mark.parametrize("kind", ["shifted", "scaled"])
def test_the_largest_of_some_row_share_each_power_of_two_of_places(kind):
    strides = set()
    for seed in SEEDS:
        draw = torch.randn(16, 512, generator=seeded(seed))
        vary_draw(draw, kind, ANYWHERE, seeded(seed))
        for row in draw:
            apart = row.topk(4).indices.sort().values.diff()
            if bool((apart == apart[0]).all()):
                strides.add(int(apart[0]))
    assert strides >= {1, 2, 4, 8, 16, 32, 64}
