"""What becomes of the integers of a row together, of sums that meet a number, and of bounds that follow a size."""

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference.bounds_of_draws import DrawBounds
from warpsmith.evaluator.reference.integer_changes import meet_integers, vary_integers
from warpsmith.evaluator.reference.integer_rows import meet_sums, plant_runs, repeat_windows
from warpsmith.evaluator.reference.mutations import Dice
from warpsmith.evaluator.reference.telling_numbers import FIBONACCI, LONGEST, boundaries, hardest, meetings, sum_to_meet

SEEDS = st.integers(0, 1 << 40)
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
NUMBERS = st.lists(st.integers(-(1 << 40), 1 << 40), max_size=9)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(SHAPES, st.integers(-9, 200), st.integers(1, 60), NUMBERS, SEEDS)
def test_rows_keep_their_bounds(shape, low, width, numbers, seed):
    tensor = torch.randint(low, low + width, shape, generator=seeded(seed))
    dice, within = Dice(seeded(seed)), (low, low + width)
    repeat_windows(tensor, dice)
    plant_runs(tensor, [*numbers, low, low + width // 2], within, dice)
    meet_sums(tensor, [*numbers, 17, 100], within, dice)
    assert low <= int(tensor.min()) <= int(tensor.max()) < low + width


@given(SHAPES, st.sampled_from([torch.uint8, torch.int32, torch.int64]), SEEDS)
def test_every_dtype_of_integers_keeps_its_bounds(shape, dtype, seed):
    tensor = torch.randint(3, 200, shape, generator=seeded(seed), dtype=dtype)
    vary_integers(tensor, "shifted", 3, 200, seeded(seed), special=(7, 300, 65521), ordered=(5, 190, 240, 199))
    assert 3 <= int(tensor.min()) <= int(tensor.max()) < 200


def test_a_window_comes_again_at_the_end_and_right_before_it():
    apart = near = 0
    for seed in range(60):
        row = torch.randperm(1000, generator=seeded(seed))[None]
        repeat_windows(row, Dice(seeded(seed)))
        last = row[0, -2:]
        earlier = (row[0, :-2] == last[0]) & (row[0, 1:-1] == last[1])
        apart += bool(earlier[:-1].any())
        near += bool(earlier[-1])
    assert apart >= 5
    assert near >= 1


@pytest.mark.parametrize("pair", [(0xED, 0xA0), (13, 10), (0xF4, 0x90)])
def test_numbers_of_the_source_stand_side_by_side_and_the_second_comes_again(pair):
    ordered, runs, further = (128, 192, 0xED, 0xA0, 0xF4, 0x90, 13, 10, 300, -5), 0, 0
    for seed in range(10):
        tensor = torch.randint(0, 256, (4, 100), generator=seeded(seed))
        plant_runs(tensor, ordered, (0, 256), Dice(seeded(seed)))
        met = (tensor[:, :-2] == pair[0]) & (tensor[:, 1:-1] == pair[1])
        runs += int(met.sum())
        further += int((met & (tensor[:, 2:] == pair[1])).sum())
    assert runs >= 10
    assert further >= 5


def test_sums_of_rows_meet_multiples_of_a_number_of_the_source():
    met, beside = 0, 0
    for seed in range(20):
        tensor = torch.randint(0, 256, (16, 500), generator=seeded(seed))
        meet_sums(tensor, (65521, 1), (0, 256), Dice(seeded(seed)))
        met += int(((tensor.sum(1) + 1) % 65521 == 0).sum())
        beside += int(((tensor.sum(1) + 1) % 65521 == 1).sum())
    assert met >= 5
    assert beside >= 2


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), NUMBERS, st.randoms(use_true_random=False))
def test_a_sum_that_is_sought_is_within_its_bounds(least, width, numbers, rng):
    aim = sum_to_meet(least + width // 2, (least, least + width), [*numbers, 77], rng)
    assert aim is None or least <= aim <= least + width


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.integers(0, 40), NUMBERS, st.randoms())
def test_meetings_are_distinct_and_within_the_range(low, width, count, numbers, rng):
    found = meetings(low, low + width, count, rng, numbers)
    assert len(found) == len(set(found)) <= count
    assert all(low <= number < low + width for number in found)


def test_an_integer_and_one_of_the_source_meet_a_multiple_of_another():
    ordered = (719468, 146097, 1460, 36524, 146096, 365)
    found = {x for seed in range(40) for x in meetings(0, 200_000, 12, random.Random(seed), ordered)}
    assert {146097 * k - 719468 + beside for k in (5, 6) for beside in (0, -1)} <= found


@given(st.integers(30, 10**12), SEEDS)
def test_what_meets_stays_distinct_and_within_its_bounds(high, seed):
    one, other = (torch.randint(0, high, (6, 5), generator=seeded(seed + at)) for at in range(2))
    third = (torch.randperm(30, generator=seeded(seed)) * (high // 30)).view(6, 5)
    meet_integers(third, [one, other], (0, high), seeded(seed), special=(77, -998_244_353, 1 << 61, 10**9))
    assert third.unique().numel() == 30
    assert 0 <= int(third.min()) <= int(third.max()) < high


def test_sums_of_three_draws_meet_a_modulus_and_neighbours_of_fibonacci_follow_each_other():
    met = steps = 0
    for seed in range(20):
        one, other, third = (torch.randint(0, 10**6, (256,), generator=seeded(3 * seed + at)) for at in range(3))
        one[:9] = torch.tensor(FIBONACCI[20:29])
        meet_integers(third, [one, other], (0, 10**6), seeded(seed), special=(10**6, 5))
        met += int(((one + other + third) % 10**6 == 0).sum())
        neighbours = {pair for one_way in itertools.pairwise(FIBONACCI) for pair in (one_way, one_way[::-1])}
        steps += sum(pair in neighbours for pair in zip(one[:9].tolist(), third[:9].tolist(), strict=True))
    assert met >= 10
    assert steps >= 20


def test_numbers_that_need_the_most_steps_are_below_the_bound():
    assert hardest(1, 10**6) == [514_229, 832_040, 837_799]
    assert hardest(0, 16) == []
    assert hardest(6000, 10**4) == [6765, 6171]


def test_each_of_the_longest_takes_more_steps_than_all_before():
    def steps(number: int) -> int:
        count = 0
        while number != 1:
            number, count = (3 * number + 1 if number % 2 else number // 2), count + 1
        return count

    most, records = 0, []
    for number in range(2, 4000):
        if (taken := steps(number)) > most:
            most, records = taken, [*records, number]
    assert [number for number in records if number >= LONGEST[0]] == [number for number in LONGEST if number < 4000]
    taken = [steps(number) for number in LONGEST]
    assert taken == sorted(set(taken))


def test_triangular_numbers_are_among_the_boundaries():
    found = {number for seed in range(60) for number in boundaries(0, 3 * 10**7, 12, random.Random(seed))}
    triangular = {side * (side + 1) // 2 for side in range(8000)}
    assert len(found & triangular) > 40


CHANGES = st.lists(st.tuples(st.integers(4, 40), st.integers(1, 40)).map(lambda one: (one[0], min(one))), max_size=5)


@given(CHANGES, st.integers(1, 41), st.integers(0, 9))
def test_a_bound_never_grows(changes, high, low):
    assert DrawBounds(changes).below(high, low) <= high


@given(CHANGES, st.integers(4, 40))
def test_a_bound_that_is_a_size_is_no_larger_than_any_that_the_size_becomes(changes, size):
    below = DrawBounds(changes).below(size)
    assert all(below <= other for sample, other in changes if sample == size)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "after"),
    [
        ("randint", (1, 40, (3, 4)), {}, ((1, 21, (3, 4)), {})),
        ("randint", (40, (3, 4)), {}, ((21, (3, 4)), {})),
        ("randint", (), {"low": 1, "high": 40, "size": (3,)}, ((), {"low": 1, "high": 21, "size": (3,)})),
        ("randint", (0, 41, (3,)), {}, ((0, 22, (3,)), {})),
        ("randint", (0, 39, (3,)), {}, ((0, 20, (3,)), {})),
        ("integers", (40, None, 40), {}, ((21, None, 40), {})),
        ("randint", (0, 33, (3,)), {}, ((0, 21, (3,)), {})),
        ("randint", (0, 7, (40,)), {}, ((0, 7, (40,)), {})),
        ("randn", (40, 40), {}, ((40, 40), {})),
    ],
)
def test_a_bound_follows_the_size_that_it_equals(name, args, kwargs, after):
    """Here one 40 became 21 and another one 33."""
    assert DrawBounds([(40, 21), (40, 33)]).asked(name, args, kwargs) == after


def test_bounds_stay_where_no_size_changes():
    assert DrawBounds().asked("randint", (1, 40, (3,)), {}) == ((1, 40, (3,)), {})
