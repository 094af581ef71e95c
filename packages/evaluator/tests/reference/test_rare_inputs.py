"""Plain input sets are chosen by what few of their answers hold."""

import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference import rare_inputs
from warpsmith.evaluator.reference.session import Answer, Expected
from warpsmith.evaluator.reference.trials import plan
from warpsmith.evaluator.reference.variability import Learned, learn

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


TORN = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return FORWARD

def get_inputs():
    return INPUTS

def get_init_inputs():
    return []
"""


@pytest.fixture
def found_in(session_of, monkeypatch):
    monkeypatch.setattr(rare_inputs, "LOOKS", tuple((sets, 60.0) for sets, _ in rare_inputs.LOOKS))

    def found_in(forward, inputs, *, sample_finite=True):
        session = session_of(TORN.replace("FORWARD", forward).replace("INPUTS", inputs))
        return rare_inputs.rare_sets(session, sample_finite=sample_finite)

    return found_in


def test_sets_are_odd_whose_answers_are_no_numbers_though_most_are(found_in):
    rare = found_in("torch.log(x).sum(-1)", "[torch.randint(0, 30, (5,)).float()]")
    assert rare.finite and rare.infinite and 1 <= len(rare.odd) <= rare_inputs.MOST_ODD
    always = found_in("torch.log(x - 31.0)", "[torch.randint(0, 30, (5,)).float()]")
    assert always.finite is False and always.odd == ()


def test_what_overflows_by_its_dtype_alone_is_not_odd(found_in):
    rare = found_in("torch.exp(x).pow(1)", "[torch.where(torch.rand(40) < 0.005, 89.0, torch.rand(40))]")
    assert rare.finite and rare.infinite and rare.odd == ()


def test_where_half_of_the_sets_are_odd_every_session_finds_the_same(found_in):
    coin = "[torch.where(torch.rand(()) < 0.5, -1.0, 1.0) * torch.ones(4)]"
    found = [found_in("torch.log(x)", coin, sample_finite=bool(turn % 2)).finite for turn in range(8)]
    assert len(set(found)) == 1


def test_few_sets_tell_nothing_and_the_sample_decides(found_in, monkeypatch):
    monkeypatch.setattr(rare_inputs, "LOOKS", ((3, 60.0),) * 3)
    for finite in (True, False):
        assert found_in("torch.log(x)", "[torch.rand(4) + 1]", sample_finite=finite).finite is finite


def test_each_later_evaluation_looks_at_more_sets_until_a_thousand(session_of, monkeypatch):
    for name, limits in (("LOOKS", ((5, 60.0),) * 3), ("FURTHER", (5, 60.0)), ("MOST_LOOKED", 14)):
        monkeypatch.setattr(rare_inputs, name, limits)
    inputs = "[torch.where(torch.rand(()) < 0.2, 0.0, torch.rand(()) + 1) * torch.ones(3)]"
    session = session_of(TORN.replace("FORWARD", "x / x.sum()").replace("INPUTS", inputs))
    learned, odd = [], []
    for _ in range(4):
        learned.append(learn(session, hidden_shapes=False))
        odd.append(set(learned[-1].looked.looked.odd))
    assert [len(one.looked.looked) for one in learned] == [5, 10, 15, 15]
    assert odd[0] <= odd[1] <= odd[2]
    assert set(learned[-1].odd) <= odd[-1]
    # Few sets tell nothing of what most answers are, and the sample decides.
    assert bool(learned[-1].odd) is (bool(odd[-1]) and learned[0].finite)


def test_of_a_problem_without_poles_no_more_sets_are_looked_at(session_of):
    session = session_of(TORN.replace("FORWARD", "x * 2").replace("INPUTS", "[torch.randn(3)]"))
    first = learn(session, hidden_shapes=False)
    assert learn(session, hidden_shapes=False).looked is first.looked


def test_an_odd_set_is_a_trial_beside_the_others():
    planned = plan(6, random.Random(1), Learned(levels={"line 9": 3}, odd=(11,)))
    assert len(planned) == 7 and [trial.rare for trial in planned].count(11) == 1
    assert planned[0].rare is None
    assert [trial.rare for trial in plan(1, random.Random(1), Learned(odd=(11,)))] == [None, 11]
