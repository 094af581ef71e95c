"""What Python's and NumPy's random functions and torch's discrete draws return under every plan."""

import pytest
import torch

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.reference.draw_plan import PLAINLY, VARIED, DrawPlan
from warpsmith.evaluator.reference.levels import FAR, IN_RANGE
from warpsmith.evaluator.workers.reference import Reference

MODEL = """
import random
from random import randint, gauss
import numpy as np
from numpy.random import choice as pick
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, *inputs):
        return inputs[0]
"""
OWN = "own = random.Random(3)\nstate = np.random.RandomState(5)\nrng = np.random.default_rng(7)\n"
SEEDS = 2


@pytest.fixture
def every_set(tmp_path):
    """Return what makes an input tensor under every kind of change, given the expression that draws it."""

    def make(expression):
        source = f"{MODEL}{OWN}def get_inputs():\n    return [{expression}]\n"
        reference = Reference(source, tmp_path / "problem.py", 7, HostDevice(), EvaluatorConfig())
        reference.make_inputs(0, {}, PLAINLY)
        levels = dict(reference.sites)
        sets = {}
        for kind in VARIED:
            for seed in range(SEEDS):
                reference.make_inputs(seed, {}, DrawPlan(kind, levels))
                sets[kind, seed] = reference.made[0].clone()
        return levels, sets

    return make


WHOLE = {
    "torch.from_numpy(rng.integers(0, 999, (5, 8), endpoint=True))": (0, 999),
    "torch.tensor([random.randint(3, 50002) for _ in range(40)])": (3, 50002),
    "torch.tensor([randint(3, 50002) for _ in range(40)])": (3, 50002),
    "torch.tensor([own.randint(3, 50002) for _ in range(40)])": (3, 50002),
    "torch.tensor([[random.randrange(50000) for _ in range(8)] for _ in range(5)])": (0, 49999),
    "torch.tensor([random.choice(range(0, 100000, 2)) for _ in range(40)])": (0, 99998),
    "torch.tensor(random.choices(range(50000), k=40))": (0, 49999),
    "torch.tensor(random.choices([7, 9, 11], weights=[1, 0, 2], k=40))": (7, 11),
    "torch.tensor([random.getrandbits(12) for _ in range(40)])": (0, 4095),
    "torch.tensor(random.sample(range(100000), 40))": (0, 99999),
    "torch.tensor(np.array([random.randint(0, 999) for _ in range(40)]))": (0, 999),
    "torch.tensor(list(random.randbytes(40)))": (0, 255),
    "torch.from_numpy(np.random.choice(50000, 40))": (0, 49999),
    "torch.from_numpy(pick(50000, 40))": (0, 49999),
    "torch.from_numpy(rng.choice(np.arange(50000) + 5, 40, replace=False))": (5, 50004),
    "torch.from_numpy(state.choice([4, 5, 6, 7], size=40, p=[0.0, 0.5, 0.3, 0.2]))": (5, 7),
    "torch.tensor([np.random.randint(0, 50000) for _ in range(40)])": (0, 49999),
    "torch.from_numpy(np.random.binomial(30, 0.5, 40))": (0, 30),
    "torch.multinomial(torch.ones(20000), 30, replacement=True)": (0, 19999),
    "torch.multinomial(torch.ones(3, 20000), 30)": (0, 19999),
    "torch.distributions.Categorical(logits=torch.zeros(20000)).sample((30,))": (0, 19999),
    "torch.distributions.Categorical(probs=torch.tensor([0.0, 1, 1, 1, 0])).sample((30,))": (1, 3),
    "torch.distributions.Binomial(30, torch.full((40,), 0.5)).sample()": (0, 30),
}


@pytest.mark.parametrize("expression", WHOLE)
def test_integers_reach_both_ends_and_none_beyond(every_set, expression):
    low, high = WHOLE[expression]
    _, sets = every_set(expression)
    assert all(low <= float(one.min()) and float(one.max()) <= high for one in sets.values())
    assert {low, high} <= set(torch.cat([one.flatten() for one in sets.values()]).tolist())


@pytest.mark.parametrize(
    "expression",
    [
        "torch.tensor(random.sample(range(100000), 40))",
        "torch.multinomial(torch.ones(3, 2000), 30)",
        "torch.from_numpy(rng.choice(50000, 40, replace=False))",
        "torch.tensor(random.sample(range(20), 20))",
        "torch.from_numpy(np.stack([np.random.permutation(20) for _ in range(6)]))",
    ],
)
def test_samples_without_replacement_stay_distinct(every_set, expression):
    _, sets = every_set(expression)
    rows = [row for one in sets.values() for row in one.view(-1, one.shape[-1])]
    assert all(row.unique().numel() == row.numel() for row in rows)


SHUFFLES = {
    "torch.tensor(random.sample(range(20), 20))",
    "torch.from_numpy(np.random.permutation(20))",
    "torch.from_numpy(rng.permutation(np.arange(20)))",
    "torch.tensor((lambda x: (random.shuffle(x), x)[1])(list(range(20))))",
    "torch.from_numpy((lambda x: (state.shuffle(x), x)[1])(np.arange(20)))",
    "torch.randperm(20)",
}


@pytest.mark.parametrize("expression", sorted(SHUFFLES))
def test_permutations_are_sorted_and_reversed_in_some_kinds(every_set, expression):
    _, sets = every_set(expression)
    assert torch.equal(sets["rows", 0], torch.arange(20))
    assert torch.equal(sets["distant", 0], torch.arange(19, -1, -1))


FLOATS = [
    "torch.tensor([[random.gauss(0, 1) for _ in range(24)] for _ in range(10)])",
    "torch.tensor([[gauss(0, 1) for _ in range(24)] for _ in range(10)])",
    "torch.tensor([[own.uniform(-1, 1) for _ in range(24)] for _ in range(10)])",
    "torch.from_numpy(np.array([[random.random() for _ in range(24)] for _ in range(10)], dtype=np.float32))",
    "torch.tensor([[np.random.randn() for _ in range(24)] for _ in range(10)])",
]


SAMPLES = [
    f"torch.distributions.{law}.sample((10, 24))"
    for law in (
        *("Laplace(0.0, 1.0)", "Gumbel(0.0, 2.0)", "Pareto(0.01, 1.5)", "LogNormal(0.0, 1.0)", "Beta(2.0, 5.0)"),
        *("Kumaraswamy(2.0, 2.0)", "VonMises(0.0, 1.0)", "Weibull(1.0, 1.5)", "Uniform(-1.0, 1.0)", "HalfCauchy(1.0)"),
        *("Normal(torch.tensor(0.0), 1.0)", "InverseGamma(3.0, 1.0)", "StudentT(4.0)"),
    )
]
SAMPLES += [
    "torch.distributions.Independent(torch.distributions.Laplace(torch.zeros(24), 1.0), 1).rsample((10,))",
    "torch.distributions.Gumbel(torch.zeros(10, 24), 1.0).sample(sample_shape=())",
    "torch.quasirandom.SobolEngine(24, scramble=True, seed=3).draw(10)",
]


@pytest.mark.parametrize("expression", SAMPLES)
def test_samples_of_distributions_vary_as_other_draws(every_set, expression):
    levels, sets = every_set(expression)
    assert FAR in levels.values()
    assert all(one.shape == (10, 24) and bool(one.isfinite().all()) for one in sets.values())
    assert any(bool((one == 0).all(-1).any()) for one in (sets["rows", seed] for seed in range(SEEDS)))
    assert any(bool((one < 0).all(-1).any()) for one in sets.values())


@pytest.mark.parametrize(
    "expression",
    [
        "torch.distributions.Dirichlet(torch.ones(24)).sample((10,))",
        "torch.distributions.Independent(torch.distributions.Dirichlet(torch.ones(10, 24)), 1).sample()",
        "torch.distributions.RelaxedOneHotCategorical(torch.ones(()), logits=torch.zeros(24)).rsample((10,))",
    ],
)
def test_rows_of_shares_sum_to_one_whether_even_or_not(every_set, expression):
    levels, sets = every_set(expression)
    assert set(levels.values()) == {IN_RANGE}
    assert all(bool((one > 0).all()) and torch.allclose(one.sum(-1), torch.ones(10)) for one in sets.values())
    largest = torch.cat([one.amax(-1) for one in sets.values()])
    assert float(largest.max()) > 0.9
    assert float(largest.min()) < 0.1


def test_a_distribution_without_a_support_is_computed_from_draws_that_vary(every_set):
    members = "{'support': None, 'arg_constraints': {}, 'rsample': lambda own, shape: torch.randn(*shape, 24)}"
    levels, sets = every_set(f"type('Own', (torch.distributions.Distribution,), {members})().sample((10,))")
    assert list(levels.values()) == [FAR]
    assert all(one.shape == (10, 24) for one in sets.values())


def test_samples_with_relations_between_their_elements_are_computed_from_draws_that_vary(every_set):
    levels, sets = every_set("torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3)).sample((10,))")
    assert FAR in levels.values()
    assert len({one.sum().item() for one in sets.values()}) == len(sets)
    _, sets = every_set("torch.distributions.LKJCholesky(3).sample((10,))")
    assert torch.allclose(sets["scaled", 0].norm(dim=-1), torch.ones(10, 3), atol=1e-5)


@pytest.mark.parametrize("expression", FLOATS)
def test_floats_drawn_one_at_a_time_vary_as_those_of_a_tensor(every_set, expression):
    levels, sets = every_set(expression)
    assert set(levels.values()) == {FAR}
    assert any(bool((one == 0).all(-1).any()) for one in (sets["rows", seed] for seed in range(SEEDS)))
    assert max(float(one.abs().max()) for one in sets.values()) > 88
    assert any(bool((one < 0).all(-1).any()) for one in sets.values())


def test_what_is_computed_of_numbers_drawn_one_at_a_time_still_holds(tmp_path):
    body = """
def get_inputs():
    lengths = [random.randint(1, 9) for _ in range(6)]
    scores = [random.random() for _ in range(20)]
    chosen = [one < 0.5 for one in scores]
    return [torch.tensor(lengths), torch.randn(sum(lengths), 4), torch.tensor(sorted(scores)), torch.tensor(chosen)]
"""
    reference = Reference(MODEL + body, tmp_path / "problem.py", 7, HostDevice(), EvaluatorConfig())
    reference.make_inputs(0, {}, PLAINLY)
    levels = dict(reference.sites)
    assert {level for site, level in levels.items() if "random ()" in site} == {IN_RANGE}
    for kind in VARIED:
        reference.make_inputs(1, {}, DrawPlan(kind, levels))
        lengths, rows, scores, chosen = reference.made
        assert lengths.sum() == len(rows) and bool(((lengths >= 1) & (lengths <= 9)).all())
        assert bool((scores.diff() >= 0).all()) and int((scores < 0.5).sum()) == int(chosen.sum())
        assert bool(((scores >= 0) & (scores < 1)).all())


@pytest.mark.parametrize("expression", [FLOATS[0], next(iter(WHOLE))])
def test_another_worker_makes_the_same_inputs_again(tmp_path, expression):
    source = f"{MODEL}{OWN}def get_inputs():\n    return [{expression}]\n"
    made = []
    for before in ([], [1, 2]):
        reference = Reference(source, tmp_path / "problem.py", 7, HostDevice(), EvaluatorConfig())
        for seed in before:
            reference.make_inputs(seed, {}, PLAINLY)
        reference.make_inputs(5, {}, DrawPlan("rows", default=FAR))
        made.append(reference.made[0].clone())
    assert torch.equal(*made)


@pytest.mark.parametrize(
    "expression", ["torch.poisson(torch.full((10, 24), 12.0))", "torch.empty(10, 24).geometric_(0.1)"]
)
def test_counts_stay_whole_reach_the_least_one_and_become_large(every_set, expression):
    least = 1 if "geometric" in expression else 0
    _, sets = every_set(expression)
    assert all(bool((one == one.round()).all()) and float(one.min()) == least for one in sets.values())
    assert max(float(one.max()) for one in sets.values()) > 100


def test_a_rate_of_zero_counts_nothing(every_set):
    _, sets = every_set("torch.poisson(torch.tensor([0.0, 12.0]).repeat(40))")
    assert all(bool((one[::2] == 0).all()) for one in sets.values())


WRITTEN_FLOATS = [
    "torch.tensor([2 * random.gauss(0, 1) + 1 for _ in range(40)])",
    "torch.tensor([random.gauss(0, 1) if i % 2 else random.uniform(0, 1) for i in range(40)])",
    "torch.from_numpy(np.fromiter((random.gauss(0, 1) for _ in range(40)), dtype=np.float32))",
]


@pytest.mark.parametrize("expression", WRITTEN_FLOATS)
def test_floats_that_python_scales_alternates_or_writes_vary_as_draws_do(every_set, expression):
    levels, sets = every_set(expression)
    assert set(levels.values()) == {FAR}
    assert max(float(made.abs().max()) for made in sets.values()) > 20


def test_what_dropout_draws_inside_varies(every_set):
    levels, sets = every_set("torch.nn.functional.dropout(torch.ones(9, 30), 0.5)")
    assert levels
    assert any(bool((made == 0).all(-1).any()) for made in sets.values())
    assert all(set(made.flatten().tolist()) <= {0.0, 2.0} for made in sets.values())
