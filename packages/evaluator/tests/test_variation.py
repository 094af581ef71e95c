import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.variation import perturb, redraw, stretch, vary

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.sampled_from(INTEGERS), st.integers(0, 1 << 40))
def test_integers_keep_their_range_their_order_and_that_they_are_distinct(values, dtype, seed):
    tensor = torch.tensor(values).to(dtype)
    changed = redraw(tensor, seeded(seed))
    after = tensor.tolist()
    assert changed == (after != values)
    assert max(after) <= max(*values, 1)
    if min(values) < max(values):
        assert min(after) >= min(values)
        assert values != sorted(values) or after == sorted(after)
        assert len(set(values)) < len(values) or len(set(after)) == len(after)


@pytest.mark.parametrize("start", [[0, 3, 9, 14, 20], [0, 0, 3, 20]])
def test_the_ends_of_sorted_offsets_stay(start):
    seen = set()
    for seed in range(20):
        tensor = torch.tensor(start)
        redraw(tensor, seeded(seed))
        assert (int(tensor[0]), int(tensor[-1])) == (0, 20)
        seen.add(tuple(tensor.tolist()))
    assert len(seen) > 5


@pytest.mark.parametrize(("constant", "allowed"), [(64, range(1, 65)), (1, range(2)), (0, range(2)), (-100, [-100])])
def test_constant_integers_become_smaller_ones(constant, allowed):
    tensor = torch.full((50,), constant)
    assert redraw(tensor, seeded()) == (len(allowed) > 1)
    assert set(tensor.tolist()) <= set(allowed)


def test_a_range_of_positions_has_no_other_values():
    tensor = torch.arange(12)
    assert not redraw(tensor, seeded())
    assert tensor.tolist() == list(range(12))


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (9, 40)])
def test_booleans_are_flipped_in_part(value, shape):
    tensor = torch.full(shape, value)
    assert redraw(tensor, seeded())
    flipped = float((tensor != value).double().mean())
    assert flipped == 1.0 if tensor.numel() == 1 else 0 < flipped < 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_floating_constants_change(dtype):
    ones, zeros = torch.ones(30, dtype=dtype), torch.zeros(30, dtype=dtype)
    assert redraw(ones, seeded())
    assert redraw(zeros, seeded())
    assert 0.5 <= float(ones.min()) < float(ones.max()) <= 2
    assert float(zeros.min()) < 0 < float(zeros.max())


TABLES = {
    "rising": torch.linspace(-3, 3, 64).reshape(2, 32),
    "falling": torch.arange(40.0).flip(0),
    "triangle": torch.randn(8, 8, generator=seeded(5)).tril(),
    "wave": torch.sin(torch.arange(40.0)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_keeps_its_zeros_its_signs_and_its_order(name, dtype):
    table = TABLES[name].to(dtype)
    before = table.clone()
    assert redraw(table, seeded())
    assert bool(((table != before) | (before == 0)).double().mean() > 0.9)
    assert torch.equal(table.sign(), before.sign())
    rising, falling = (before.diff(dim=-1) >= 0).all(), (before.diff(dim=-1) <= 0).all()
    assert not rising or bool((table.diff(dim=-1) >= 0).all())
    assert not falling or bool((table.diff(dim=-1) <= 0).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float8_e5m2])
def test_a_floating_mask_stays_one_and_covers_less(dtype):
    mask = torch.ones(16, 16).tril().to(dtype)
    assert redraw(mask, seeded())
    assert set(mask.float().flatten().tolist()) == {0.0, 1.0}
    assert not bool(mask.float().triu(1).any())


def test_what_is_not_finite_stays():
    tensor = torch.tensor([0.0, -math.inf])
    vary(tensor, seeded())
    assert tensor.tolist() == [0.0, -math.inf]


def test_numbers_that_are_not_negative_are_multiplied():
    tensor = torch.tril(torch.ones(8, 8))
    vary(tensor, seeded())
    assert torch.equal(tensor == 0, torch.tril(torch.ones(8, 8)) == 0)
    assert float(tensor.max()) <= 2


def test_stretching_around_the_mean_makes_negative_numbers_and_never_hides_a_constant():
    sample, constant = torch.rand(100), torch.full((4,), 2.0)
    stretch(sample, centred=True, factor=2.0)
    stretch(constant, centred=True, factor=2.0)
    assert float(sample.min()) < 0 < float(sample.max())
    assert constant.tolist() == [4.0] * 4


def test_noise_follows_the_spread():
    wide = torch.randn(4000, generator=seeded(1)) * 1000
    before = wide.clone()
    perturb(wide, seeded(2))
    assert float((wide - before).std()) == pytest.approx(500, rel=0.1)
