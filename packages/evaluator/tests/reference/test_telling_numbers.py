"""Numbers at which a kernel may act otherwise: what a source contains, and integers beside boundaries."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference.telling_numbers import (
    MOST_READ,
    MOST_WRITTEN,
    boundaries,
    chosen,
    integers_among,
    written_in,
)


@given(st.lists(st.integers(0, (1 << 62) - 1), max_size=9))
def test_integers_of_a_source_are_found_in_any_notation(numbers):
    text = "\n".join(f"if x == {form}:" for number in numbers for form in (number, hex(number), f"{number:_}"))
    assert set(written_in(text)) == set(numbers)


@given(st.lists(st.floats(0, 1e15, allow_nan=False), max_size=9))
def test_floats_of_a_source_are_found(numbers):
    found = written_in(" ".join(f"y = x * {number!r};" for number in numbers))
    assert set(found) == set(numbers)


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    assert all(math.isfinite(number) for number in written_in(text))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("x = (1 << 23) + 10**6", {1 << 23, 10**6}),
        ("x1 = v2.f32; a[7]", {7}),
        ("float y = 1.5e-5f + 3.0f; // 12u", {1.5e-5, 3.0, 12}),
        ("x = .25 if y < -4 else 1e400", {0.25, 4}),
        ("x = 10**400 + 99999999999999999999999", {10}),
        ("x = 1 << 99", {1}),
    ],
)
def test_numbers_count_as_what_they_are(text, numbers):
    assert set(written_in(text)) == numbers


def test_a_source_of_many_numbers_is_read_in_part_and_each_trial_has_some():
    numbers = written_in(" ".join(map(str, range(10**5))))
    assert len(numbers) == MOST_READ
    some = [chosen(numbers, random.Random(seed)) for seed in range(9)]
    assert all(len(set(one)) == MOST_WRITTEN for one in some)
    assert len(set(some)) == 9
    assert chosen((1, 2.5), random.Random(0)) == (1, 2.5)


def test_integers_have_both_signs_and_floats_that_are_whole_count():
    assert set(integers_among((0, 3, 2.5, 64.0))) == {0, 3, -3, 64, -64}


@given(st.integers(-(1 << 61), 1 << 61), st.integers(2, 1 << 61), st.integers(0, 40), st.randoms(use_true_random=False))
def test_boundaries_are_distinct_and_within_the_range(low, width, count, rng):
    found = boundaries(low, low + width, count, rng, special=(low + 1, 77))
    assert len(found) == len(set(found)) <= count
    assert all(low <= number < low + width for number in found)


def test_boundaries_are_beside_powers_squares_and_special_numbers():
    found = {number for seed in range(60) for number in boundaries(0, 10**9, 12, random.Random(seed), special=(4242,))}
    assert {2**25 - 1, 999_999, 4241, 4243} <= found
    assert sum(math.isqrt(number + 1) ** 2 == number + 1 and number > 10**6 for number in found) > 20
    negative = {number for seed in range(60) for number in boundaries(-1000, 0, 12, random.Random(seed))}
    assert {-255, -256, -257, -99, -101} <= negative


def test_boundaries_are_multiples_of_special_numbers_too():
    found = {number for seed in range(60) for number in boundaries(1850, 2150, 12, random.Random(seed), special=(100,))}
    assert {1900, 2000, 2100} <= found
    negative = {number for seed in range(60) for number in boundaries(-250, 0, 12, random.Random(seed), special=(100,))}
    assert {-200, -100} <= negative
    assert boundaries(5, 6, 3, random.Random(0), special=(0, 100)) in ([], [5])
