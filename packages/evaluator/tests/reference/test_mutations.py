"""How tensors change: draws, integers, permutations, constants, and the state of a module."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference import mutations
from warpsmith.evaluator.reference.draw_plan import KINDS
from warpsmith.evaluator.reference.integer_changes import (
    are_digits,
    carry_integers,
    reach_ends,
    relate_integers,
    share_integers,
    vary_integers,
    vary_permutation,
)
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, FAR, IN_RANGE, SAME_SIGN
from warpsmith.evaluator.reference.mutations import (
    constant_level,
    is_mask,
    perturb,
    plant,
    saturate,
    scale,
    structure,
    to_grid,
    to_sparse_grid,
    vary,
    vary_constant,
    vary_draw,
    vary_structure,
    vary_tosses,
)

CHANGES = st.sampled_from(KINDS[1:])
SEEDS = st.integers(0, 1 << 40)
SHAPES = st.lists(st.integers(1, 7), max_size=3).map(tuple)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(SHAPES, CHANGES, st.sampled_from([IN_RANGE, SAME_SIGN, ANY_SIGN, ANYWHERE, FAR]), SEEDS)
def test_a_draw_stays_finite_and_as_far_as_its_level_says_in_place(shape, kind, level, seed):
    tensor = torch.rand(shape, generator=seeded(seed)) + 0.25
    low, high = float(tensor.min()), float(tensor.max())
    vary_draw(tensor, kind, level, seeded(seed))
    assert tensor.shape == shape
    assert bool(torch.isfinite(tensor).all())
    if level == SAME_SIGN:
        assert float(tensor.min()) > 0
    if level == IN_RANGE:
        assert low <= float(tensor.min()) <= float(tensor.max()) <= high


def test_a_large_draw_changes_part_by_part_in_all_of_it(monkeypatch):
    monkeypatch.setattr(mutations, "MOST_AT_ONCE", 50)
    # A draw that gets one sign as a whole may have it already; slices that last and masks are made afterwards.
    for kind in set(KINDS) - {"plain", "whole", "lasting", "selected"}:
        tensor = torch.rand(40, 10, generator=seeded())
        before = tensor.clone()
        vary_draw(tensor, kind, ANYWHERE, seeded(1))
        changed = (tensor != before).any(-1)
        assert all(bool(part.any()) for part in changed.split(5))


@given(SHAPES, CHANGES, st.integers(-9, 9), st.integers(1, 60), SEEDS)
def test_integers_keep_their_bounds(shape, kind, low, width, seed):
    tensor = torch.randint(low, low + width, shape, generator=seeded(seed))
    vary_integers(tensor, kind, low, low + width, seeded(seed))
    assert low <= int(tensor.min()) <= int(tensor.max()) < low + width


@pytest.mark.parametrize(("width", "stay"), [(10**6, True), (50_000, False)])
def test_integers_stay_distinct_if_an_author_never_sees_two_equal_ones(width, stay):
    distinct = []
    for seed in range(12):
        tensor = torch.randperm(width, generator=seeded(seed))[:40]
        vary_integers(tensor, KINDS[1 + seed % 4], 0, width, seeded(seed))
        distinct.append(tensor.unique().numel() == 40)
    assert all(distinct) is stay


@pytest.mark.parametrize("kind", ["shifted", "outliers", "scaled", "tiny"])
def test_special_integers_are_drawn_where_they_are_in_range(kind):
    for seed in range(8):
        tensor = torch.randint(10, 50_000, (4, 10), generator=seeded(seed))
        vary_integers(tensor, kind, 10, 50_000, seeded(seed), special=(3, 17, 50_256, 44_444))
        assert (tensor == 17).any() and (tensor == 44_444).any()
        assert int(tensor.min()) >= 10 and int(tensor.max()) < 50_000


def test_distinct_integers_reach_the_ends_and_the_special_ones():
    ends = set()
    for seed in range(60):
        tensor = torch.randperm(10**6, generator=seeded(seed))[:6]
        vary_integers(tensor, "shifted", 0, 10**6, seeded(seed), special=(777,))
        assert tensor.unique().numel() == 6
        ends |= {0, 777, 10**6 - 1} & set(tensor.tolist())
    assert ends == {0, 777, 10**6 - 1}


def test_one_integer_reaches_the_ends_and_the_special_ones():
    seen = set()
    for seed in range(60):
        tensor = torch.full((1,), 50_000)
        vary_integers(tensor, "shifted", 0, 10**6, seeded(seed), special=(777,))
        seen.add(int(tensor))
    assert seen >= {0, 777, 10**6 - 1}


@pytest.mark.parametrize("earlier", [(8,), (8, 4), (30,)])
def test_integers_are_shared_with_the_same_place_the_same_row_or_any(earlier):
    one = torch.randint(0, 10**6, earlier, generator=seeded(1))
    other = torch.randint(0, 10**6, (8, 4), generator=seeded(2))
    before = other.clone()
    share_integers(other, one, seeded(3))
    shared = other != before
    assert 0 < int(shared.sum()) < 16
    if earlier[0] == 8:
        assert torch.equal(other[shared], one.reshape(8, -1).expand(8, 4)[shared])
    assert set(other[shared].tolist()) <= set(one.flatten().tolist())


@pytest.mark.parametrize("kind", KINDS[1:])
def test_integers_are_drawn_otherwise(kind):
    plain = torch.randint(0, 100, (20, 50), generator=seeded())
    found = []
    for seed in range(9):
        tensor = plain.clone()
        vary_integers(tensor, kind, 0, 100, seeded(seed))
        found.append(tensor)
    changed = torch.stack(found)
    assert bool((changed != plain).any(-1).any(-1).all())
    if kind == "rows":
        assert bool((changed == changed[..., :1]).all(-1).any())


@given(st.integers(0, 30), CHANGES, SEEDS)
def test_a_permutation_stays_one(count, kind, seed):
    tensor = torch.randperm(count, generator=seeded(seed))
    vary_permutation(tensor, kind, seeded(seed))
    assert sorted(tensor.tolist()) == list(range(count))


@pytest.mark.parametrize(
    ("constant", "level", "allowed"),
    [(64, IN_RANGE, range(1, 65)), (1, SAME_SIGN, range(2)), (0, SAME_SIGN, range(2)), (-100, 0, [-100])],
)
def test_constant_integers_become_smaller_ones(constant, level, allowed):
    tensor = torch.full((50,), constant)
    assert constant_level(tensor) == level
    if level:
        vary_constant(tensor, level, seeded())
        assert tensor.unique().numel() > 1
    assert set(tensor.tolist()) <= set(allowed)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shape", [(2,), (9, 40)])
def test_booleans_become_both_and_the_first_of_a_row_stays(value, shape):
    for seed in range(20):
        tensor = torch.full(shape, value)
        vary_constant(tensor, constant_level(tensor), seeded(seed))
        assert tensor.unique().numel() == 2
        assert bool((tensor[..., 0] == value).all())


@pytest.mark.parametrize("value", [float("-inf"), float("nan")])
def test_what_is_not_finite_does_not_change(value):
    assert constant_level(torch.full((4,), value)) == 0


@pytest.mark.parametrize("start", [torch.ones(99), torch.zeros(99), torch.linspace(-1, 1, 99)])
def test_parameters_change_whatever_they_were(start):
    tensor = start.clone()
    perturb(tensor, seeded())
    assert bool((tensor != start).all())


def test_buffers_keep_what_they_stand_for():
    variance, mean, mask = torch.ones(99), torch.zeros(99), torch.tril(torch.ones(9, 9))
    additive, infinite = torch.triu(torch.full((9, 9), -1e9), 1), torch.tensor([0, -torch.inf])
    kept = [tensor.clone() for tensor in (mask, additive, infinite)]
    for tensor in (variance, mean, mask, additive, infinite):
        vary(tensor, seeded())
    assert 0 < float(variance.min()) < 1e-2 < 0.5 < float(variance.median()) < float(variance.max()) <= 2
    assert bool((mean != 0).all())
    assert all(torch.equal(one, two) for one, two in zip(kept, (mask, additive, infinite), strict=True))


def test_a_mask_is_zero_and_one_other_number():
    assert is_mask(torch.tensor([0.0, 2.0]))
    assert not any(map(is_mask, (torch.zeros(3), torch.ones(3), torch.tensor([0.0, 1, 2]), torch.empty(0))))


def test_a_mild_change_stays_near():
    tensor = torch.randn(99, generator=seeded())
    before = tensor.clone()
    scale(tensor, 0.25, seeded())
    assert bool((tensor != before).all())
    assert bool(((tensor / before).log2().abs() <= 0.2501).all())


@given(st.lists(st.integers(2, 6), min_size=2, max_size=4).map(tuple), SEEDS)
def test_rows_have_a_slice_of_zeros_for_each_choice_of_dimensions(shape, seed):
    tensor = torch.rand(shape, generator=seeded(seed)) + 0.5
    vary_draw(tensor, "rows", ANYWHERE, seeded(seed))
    if bool((tensor == tensor.flatten()[0]).all()):
        return
    dims = range(len(shape))
    for count in range(1, len(shape)):
        for chosen in itertools.combinations(dims, count):
            assert bool(_all(tensor == 0, chosen).any()), chosen


@given(st.lists(st.integers(2, 6), min_size=2, max_size=4).map(tuple), SEEDS)
def test_a_shifted_draw_has_a_negative_slice_wherever_one_dimension_is_left(shape, seed):
    tensor = torch.randn(shape, generator=seeded(seed))
    vary_draw(tensor, "shifted", ANYWHERE, seeded(seed))
    for dim in range(len(shape)):
        others = tuple(other for other in range(len(shape)) if other != dim)
        assert bool(_all(tensor <= 0, others).any())


def _all(true, dims):
    return true.amin(dim=dims) if dims else true


@pytest.mark.parametrize("start", [torch.eye(6), torch.ones(9), torch.tensor([0.5]), torch.rand(20)])
def test_upwards_nothing_becomes_less(start):
    tensor = start.clone()
    perturb(tensor, seeded(), upwards=True)
    assert bool((tensor > start).all())


def test_what_grows_is_larger_as_a_whole_in_most_draws():
    start = torch.randn(30, 30, generator=seeded())
    factors = []
    for seed in range(40):
        tensor = start.clone()
        perturb(tensor, seeded(seed), grows=True)
        factors.append(float(tensor.std() / start.std()))
    assert max(factors) > 3.0
    assert min(factors) > 0.9


@pytest.mark.parametrize("kind", ["rows", "small"])
def test_rows_of_tosses_are_zeros_beyond_their_range(kind):
    tosses = torch.ones(20, 30)
    vary_tosses(tosses, kind, SAME_SIGN, seeded())
    assert bool((tosses.sum(-1) == 0).any())
    assert bool((tosses.sum(-1) > 0).any())
    within = torch.bernoulli(torch.full((20, 30), 0.5), generator=seeded())
    vary_tosses(within, kind, IN_RANGE, seeded())
    assert bool((within.sum(-1) > 0).all())


@given(SHAPES, SEEDS)
def test_what_is_small_has_no_equal_numbers_that_it_had_not(shape, seed):
    tensor = torch.randn(shape, generator=seeded(seed))
    before = tensor.unique().numel()
    vary_draw(tensor, "small", ANYWHERE, seeded(seed))
    assert tensor.unique().numel() == before


TRIANGLE = torch.ones(7, 7).tril()
INFINITE = torch.full((5, 5), float("-inf")).triu(1)
MASKS = [TRIANGLE, TRIANGLE.bool(), TRIANGLE.long(), INFINITE, torch.eye(6), torch.ones(2, 3, 4, 4).tril()]


@pytest.mark.parametrize("mask", MASKS)
def test_the_rows_of_a_mask_change_places(mask):
    assert structure(mask) == "mask"
    for seed in range(5):
        changed = mask.clone()
        vary_structure(changed, seeded(seed))
        assert not torch.equal(changed, mask)
        rows, before = (sorted(one.flatten(0, -2).tolist()) for one in (changed, mask))
        assert rows == before


def test_a_mask_of_equal_rows_is_rotated():
    mask = torch.tensor([True, True, False, False, False]).expand(3, 5).contiguous()
    changed = mask.clone()
    vary_structure(changed, seeded())
    assert not torch.equal(changed, mask)
    assert torch.equal(changed.sum(-1), mask.sum(-1))


def test_positions_are_rotated_in_each_row():
    positions = torch.arange(3, 12).repeat(2, 1)
    assert structure(positions) == "positions"
    changed = positions.clone()
    vary_structure(changed, seeded())
    assert torch.equal(changed.sort(-1).values, positions)
    assert not bool((changed == positions).any())


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(4, 4),
        torch.ones(9),
        torch.arange(0, 40, 8),
        torch.arange(3),
        torch.zeros(3, 3),
        torch.eye(5).t()[1:, 1:],
    ],
)
def test_what_is_neither_a_mask_nor_positions_has_no_structure(other):
    assert structure(other) == ""


@pytest.mark.parametrize("seed", range(5))
def test_a_distant_draw_has_a_mean_that_is_large_beside_its_spread(seed):
    draw = torch.randn(30, 40, generator=seeded(seed))
    moved, opposite, half = draw.clone(), draw.clone(), draw.half()
    vary_draw(moved, "distant", FAR, seeded())
    vary_draw(opposite, "distant", FAR, seeded(), opposite=True)
    vary_draw(half, "distant", FAR, seeded())
    for means in (moved.mean(0), moved.mean(1), -opposite.mean(0)):
        assert bool((means > 500 * moved.std()).all())
    assert float(half.abs().max()) < 100


def test_a_shifted_draw_has_a_row_far_below_and_one_far_above():
    draw = torch.randn(12, 40, generator=seeded())
    vary_draw(draw, "shifted", FAR, seeded(), remote=17)
    assert float(draw.amax(-1).min()) < -1e5
    assert float(draw.amin(-1).max()) > 1e5


def test_numbers_of_many_bits_are_planted_in_some_rows_of_single_precision():
    for dtype, found in ((torch.float32, True), (torch.float16, False)):
        draw = torch.randn(16, 50, generator=seeded()).to(dtype)
        to_grid(draw, seeded(), zero=True, long_numbers=(0.1, -0.1))
        rows = (draw.abs() == torch.tensor(0.1, dtype=dtype)).any(-1)
        assert bool(rows.any()) is found
        assert not bool(rows.all())


@given(st.integers(2, 10**9), SEEDS)
def test_related_integers_keep_their_bounds(high, seed):
    one, other, third = (torch.randint(0, high, (6, 5), generator=seeded(seed + at)) for at in range(3))
    relate_integers(third, [one, other], (0, high), seeded(seed), special=(77, -3, 1 << 61))
    assert 0 <= int(third.min()) <= int(third.max()) < high


@pytest.mark.parametrize(
    "holds",
    [
        lambda a, b, c: (c - b).abs() == 77,
        lambda a, b, c: b + c == 3000,
        lambda a, b, c: a + b == c,
        lambda a, b, c: b - a == c,
    ],
)
def test_integers_are_sums_and_differences_of_earlier_ones_and_of_special_ones(holds):
    met = 0
    for seed in range(20):
        a, b, c = (torch.randint(0, 4000, (24,), generator=seeded(3 * seed + at)) for at in range(3))
        relate_integers(c, [b, a], (0, 4000), seeded(seed), special=(77, 3000))
        met += int(holds(a, b, c).sum())
    assert met >= 5


def test_the_first_special_integers_stay_where_they_are():
    for seed in range(20):
        one, other = (torch.randint(0, 4000, (24,), generator=seeded(2 * seed + at)) for at in range(2))
        other[5] = 42
        relate_integers(other, [one], (0, 4000), seeded(seed), special=(42, 3000))
        share_integers(other, one, seeded(seed), within=(0, 4000), special=(42, 3000))
        assert (other == 42).any()


@pytest.mark.parametrize(("high", "digits"), [(256, True), (10, True), (1000, True), (300, False), (1100, False)])
def test_digits_are_below_a_power_of_two_or_of_ten(high, digits):
    assert are_digits(torch.zeros(4, 8, dtype=torch.int64), (0, high)) is digits
    assert not are_digits(torch.zeros(4, 2, dtype=torch.int64), (0, high))
    assert not are_digits(torch.zeros(8, dtype=torch.int64), (0, high))


def test_a_carry_runs_through_digits():
    directions = set()
    for seed in range(40):
        one = torch.randint(1, 256, (4, 8), generator=seeded(seed))
        other = torch.randint(0, 256, (4, 8), generator=seeded(1000 + seed))
        carry_integers(other, one, (0, 256), seeded(seed))
        assert 0 <= int(other.min()) <= int(other.max()) < 256
        total = one + other
        run = (total[:, :-2], total[:, 1:-1], total[:, 2:])
        directions |= {"up"} if bool(((run[0] > 255) & (run[1] == 255) & (run[2] == 255)).any()) else set()
        directions |= {"down"} if bool(((run[2] > 255) & (run[1] == 255) & (run[0] == 255)).any()) else set()
    assert directions == {"up", "down"}


def test_what_overflows_half_precision_is_large_and_infinities_of_the_code_stay():
    wide = torch.tensor([1.0, 1e6, -1e6])
    made = wide.half()
    saturate(made, [wide])
    assert made.tolist() == [1.0, 16384.0, -16384.0]
    wide = torch.tensor([1e6, math.inf])
    made = wide.half()
    saturate(made, [wide])
    assert made.tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_numbers_of_the_candidate_are_met_on_a_grid_and_on_both_sides_in_single_precision(dtype):
    draw = torch.randn(64, 50, generator=seeded()).to(dtype)
    to_grid(draw, seeded(), zero=True, written=(0.625, 0.3, 1000.0))
    assert (draw == 0.625).any() and (draw == -0.625).any()
    assert draw.abs().max() < 10
    beside = (draw.double().abs() / 0.625 - 1).abs()
    assert bool(((beside > 0) & (beside < 1e-6)).any()) is (dtype == torch.float32)
    assert bool((draw.abs() == torch.tensor(0.3, dtype=dtype)).any()) is (dtype == torch.float32)


def test_many_numbers_of_the_candidate_leave_room_for_those_of_the_problem():
    draw = torch.randn(64, 50, generator=seeded())
    many = [0.125 * one for one in range(1, 8)] * 3
    to_grid(draw, seeded(), zero=True, numbers=(1.59375,), written=many)
    assert (draw == 1.59375).sum() > 64 * 50 / 32
    moved = torch.randn(64, 50, generator=seeded())
    plant(moved, seeded(), (1.59375,), (), many)
    assert (moved == 1.59375).sum() > 64 * 50 / 32


def test_a_sparse_grid_leaves_most_slices_and_begins_some_with_zero():
    draw = torch.randn(40, 3, 3, generator=seeded())
    before = draw.clone()
    to_sparse_grid(draw, seeded(), zero=False)
    changed = (draw != before).any(-1).any(-1)
    assert 0 < int(changed.sum()) <= 4
    assert int((draw[:, 0, 0] == 0).sum()) == 2
    few = before[:4].clone()
    to_sparse_grid(few, seeded(), zero=False)
    assert torch.equal(few, before[:4])


@pytest.mark.parametrize("shape", [(64, 40), (8, 9, 40), (1, 64, 40)])
def test_draws_of_another_size_have_rows_of_each_sign(shape):
    rows = dict.fromkeys((-1, 0, 1), 0)
    for seed in range(20):
        draw = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        vary_draw(draw, "scaled", ANY_SIGN, torch.Generator().manual_seed(seed))
        signs = draw.sign()
        whole = (signs == signs[..., :1]).all(-1)
        for sign in (-1, 1):
            rows[sign] += bool((whole & (signs[..., 0] == sign)).any())
        rows[0] += bool((~whole).any())
    assert all(count >= 8 for count in rows.values())


def test_slices_of_a_gridded_draw_reach_numbers_of_the_source_as_their_extremes():
    largest = least = 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        draw = torch.randn(64, 128, generator=generator)
        to_grid(draw, generator, zero=True, numbers=(1.5, -1.25), rows=True)
        largest += bool((draw.amax(-1) == 1.5).any())
        least += bool((draw.amin(-1) == -1.25).any())
    assert largest >= 12
    assert least >= 12


@pytest.mark.parametrize("numbers", [(), (1e6,), (0.25,)])
def test_bounds_out_of_reach_leave_a_gridded_draw_in_its_range(numbers):
    draw = torch.rand(9, 16, generator=torch.Generator().manual_seed(0))
    low, high = draw.min(), draw.max()
    to_grid(draw, torch.Generator().manual_seed(1), zero=False, numbers=numbers)
    assert low <= draw.min()
    assert draw.max() <= high


@given(SHAPES, st.sampled_from(["shifted", "outliers", "distant", "apart", "tiny"]), st.integers(2, 1 << 40), SEEDS)
def test_draws_of_integers_reach_both_ends_of_their_range(shape, kind, high, seed):
    tensor = torch.randint(0, high, shape, generator=seeded(seed))
    vary_integers(tensor, kind, 0, high, seeded(seed))
    reach_ends(tensor, kind, 0, high, seeded(seed))
    ends = {0, high - 1} & set(tensor.flatten().tolist())
    assert len(ends) == min(tensor.numel(), 2)


def test_some_rows_of_integers_lack_the_ends_of_their_range():
    tensor = torch.randint(0, 20, (30, 25), generator=seeded())
    least = [(vary_integers(tensor, "rows", 0, 20, seeded(seed)), int(tensor.min()))[1] for seed in range(20)]
    assert sum(one > 0 for one in least) > 10


@pytest.mark.parametrize("level", [IN_RANGE, SAME_SIGN])
def test_tosses_are_alike_as_a_whole(level):
    seen = set()
    for seed in range(20):
        tosses = torch.bernoulli(torch.full((9, 11), 0.5), generator=seeded(seed))
        vary_tosses(tosses, "whole", level, seeded(seed))
        seen.add(frozenset(tosses.flatten().tolist()))
    assert seen == {frozenset({1.0})} | ({frozenset({0.0})} if level > IN_RANGE else set())
