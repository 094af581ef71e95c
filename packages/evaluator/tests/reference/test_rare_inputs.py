"""Plain input sets are chosen by what few of their answers hold."""

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference import rare_inputs
from warpsmith.evaluator.reference.session import Answer, Expected

traits = st.tuples(st.integers(0, 2), st.integers(-3, 12))
sets = st.dictionaries(st.integers(0, 2**64 - 1), st.sets(traits, max_size=12), min_size=12, max_size=24)


def answer(*values):
    return Answer(None, {}, [Expected(value, None) for value in values])


def test_traits_are_integers_and_whether_floats_have_a_zero():
    found = rare_inputs._traits(answer(torch.tensor([3, 1, 3]), torch.tensor([0.5, 0.0]), torch.tensor([], dtype=int)))
    assert sorted(found) == [(0, 1), (0, 3), (1, 1)]


def test_of_many_integers_the_extreme_ones_count():
    assert sorted(rare_inputs._traits(answer(torch.arange(1000)))) == [(0, 0), (0, 999)]


@given(sets)
def test_chosen_seeds_hold_rare_traits_and_each_adds_one(found):
    chosen = rare_inputs._covering(found)
    count = Counter(trait for held in found.values() for trait in held)
    rare = {trait for trait, times in count.items() if times <= rare_inputs.RARE * len(found)}
    assert len(chosen) <= rare_inputs.MOST_KEPT
    assert len(set(chosen)) == len(chosen)
    covered = set()
    for seed in chosen:
        assert (found[seed] & rare) - covered
        covered |= found[seed]


def test_a_number_of_one_set_is_chosen():
    found = {seed: {(0, 1), (0, 2)} for seed in range(20)}
    found[7] = {(0, 1), (0, 9)}
    assert rare_inputs._covering(found) == [7]
