"""Masks that select all or none of whole slices."""

import random

import pytest
import torch

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.reference.draw_plan import MASKS, PLAINLY, UNSEEN_MASKS, DrawPlan
from warpsmith.evaluator.reference.selected_slices import ALL, BUT_ONE, NONE, select, slices, to_an_end, toss
from warpsmith.evaluator.reference.trials import Trial, plan
from warpsmith.evaluator.reference.variability import Learned
from warpsmith.evaluator.workers.reference import Reference

SHAPES = [(12, 20), (4, 6, 8), (9,)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def has_row(mask):
    return bool(mask.reshape(-1, mask.shape[-1]).all(-1).any())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_a_row_and_a_column_are_selected_whole(shape, seed):
    inside, spared = slices(torch.Size(shape), ALL, seeded(seed))
    assert not bool(spared.any())
    for dim in range(len(shape)):
        assert bool(inside.all(dim).any())
    assert bool(inside.all()) is (len(shape) == 1)


@pytest.mark.parametrize("compare", [lambda x: x < 0.3, lambda x: x < 0.3, lambda x: x.ge(0.7)])
@pytest.mark.parametrize("shape", SHAPES[:2])
@pytest.mark.parametrize("seed", range(5))
def test_a_draw_keeps_its_numbers_and_its_mask_fits_them(compare, shape, seed):
    for selection in (ALL, NONE):
        draw = torch.rand(shape, generator=seeded(seed))
        before, mask = draw.clone(), compare(draw)
        select(draw, mask, lambda draw=draw: compare(draw), selection, seeded(seed))
        assert has_row(mask if selection == ALL else ~mask)
        assert torch.equal(mask, compare(draw))
        assert bool(torch.isin(draw, before).all())


def test_all_but_one_leaves_one(seed=3):
    draw = torch.rand(30, 16, generator=seeded(seed))
    mask = draw < 0.5
    select(draw, mask, lambda: draw < 0.5, ALL + BUT_ONE, seeded(seed))
    assert 15 in mask.sum(1) and 16 not in mask.sum(1)


def test_a_threshold_may_differ_from_element_to_element():
    draw, limits = torch.rand(12, 20, generator=seeded()), torch.linspace(0.2, 0.8, 20)
    mask = draw < limits
    select(draw, mask, lambda: draw < limits, ALL, seeded())
    assert has_row(mask) and torch.equal(mask, draw < limits)


def test_what_no_number_of_the_draw_selects_stays():
    draw = torch.rand(12, 20, generator=seeded())
    before, mask = draw.clone(), draw < -1
    select(draw, mask, lambda: draw < -1, ALL, seeded())
    assert torch.equal(draw, before) and not bool(mask.any())


def test_tosses_and_unseen_draws_have_such_slices_too():
    tosses = torch.bernoulli(torch.full((12, 20), 0.5), generator=seeded())
    toss(tosses, ALL, seeded())
    assert has_row(tosses != 0) and not bool(tosses.all())
    for shape in SHAPES:
        draw = torch.rand(shape, generator=seeded())
        low, high = draw.min(), draw.max()
        to_an_end(draw, ALL, seeded(1))
        assert low <= draw.min() and draw.max() <= high
        assert int((draw < low + 0.001).sum()) >= min(shape[-1], 3)


MODEL = "import numpy as np\nimport random\nimport torch\n"
MODEL += "class Model(torch.nn.Module):\n    def forward(self, *x): return x\n"


@pytest.fixture
def made_by(tmp_path):
    def made(*lines, draws=PLAINLY):
        body = "".join(f"    {line}\n" for line in lines)
        source = f"{MODEL}def get_inputs():\n{body}def get_init_inputs(): return []\n"
        reference = Reference(source, tmp_path / "problem.py", 7, HostDevice(), EvaluatorConfig())
        reference.make_inputs(5, {}, PLAINLY)
        reference.make_inputs(5, {}, draws)
        return [tensor.clone() for tensor in reference.made], reference.built_sites

    return made


@pytest.mark.parametrize(
    ("lines", "site"),
    [
        (("x = torch.randn(16, 12)", "x[torch.rand(16, 12) < 0.3] = float('nan')", "return [x]"), MASKS),
        (("x = torch.randn(16, 12)", "return [x.masked_fill(torch.randn_like(x) > 0.4, float('nan'))]"), MASKS),
        (("m = torch.rand(16, 12) * 2 - 1 >= 0.2", "return [torch.where(m, float('nan'), torch.ones(16, 12))]"), MASKS),
        (
            ("m = torch.bernoulli(torch.full((16, 12), 0.3)).bool()", "return [torch.where(m, float('nan'), 1.0)]"),
            MASKS,
        ),
        (
            ("x = np.random.randn(16, 12)", "x[np.random.rand(16, 12) < 0.3] = np.nan", "return [torch.from_numpy(x)]"),
            UNSEEN_MASKS,
        ),
        (
            (
                "nan = float('nan')",
                "return [torch.tensor([[nan if random.random() < 0.3 else 1.0 for _ in '*' * 12] for _ in '*' * 16])]",
            ),
            UNSEEN_MASKS,
        ),
    ],
)
def test_what_is_written_through_a_mask_fills_a_row(made_by, lines, site):
    for numbers in range(4):
        (x,), sites = made_by(*lines, draws=DrawPlan("selected", selects=ALL, numbers=numbers))
        assert site in sites
        assert bool(x.isnan().all(1).any()) and not bool(x.isnan().all())


def test_a_mask_of_an_input_still_fits_it(made_by):
    (x, m), _ = made_by("x = torch.randn(16, 12)", "return [x, x > 0]", draws=DrawPlan("selected", selects=ALL))
    assert torch.equal(m, x > 0) and has_row(m)


def test_a_draw_from_which_something_was_computed_stays(made_by):
    lines = ("x = torch.randn(16, 12)", "y = x.abs()", "return [x, y, x > 0]")
    (x, y, m), sites = made_by(*lines, draws=DrawPlan("selected", selects=ALL))
    assert torch.equal(y, x.abs()) and torch.equal(m, x > 0) and MASKS not in sites


def test_problems_with_masks_have_a_trial_of_either_kind():
    planned = plan(6, random.Random(0), Learned(masked=True))
    assert [one.selects for one in planned if one.kind == "selected"] == [ALL, NONE]
    assert not any(one.kind == "selected" for one in plan(6, random.Random(0), Learned()))
    assert "select" in Trial("selected", selects=ALL).remark


def test_a_far_bias_takes_no_place_of_the_draws():
    for seed in range(5):
        planned = plan(6, random.Random(seed), Learned(levels={"x": 6}, biases=("fc.bias",)))
        assert [one.shifted for one in planned if one.kind == "distant"].count(True) == 1
        assert any(one.kind == "distant" and not one.shifted for one in planned)
