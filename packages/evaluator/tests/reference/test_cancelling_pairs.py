"""Products that cancel, rows with plain norms, and lone peaks: where half precision decides or averages otherwise."""

import random

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from warpsmith.evaluator.reference.cancelling_pairs import DISTINCT, pair
from warpsmith.evaluator.reference.draw_plan import PAIRED, TAILED
from warpsmith.evaluator.reference.levels import ANYWHERE, FAR
from warpsmith.evaluator.reference.mutations import share_slices, vary_draw
from warpsmith.evaluator.reference.one_sided_tails import round_down_in_half, with_plain_norms
from warpsmith.evaluator.reference.trials import plan
from warpsmith.evaluator.reference.variability import Learned

SEEDS = range(8)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def operands(seed: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    dice = seeded(seed)
    x, codes = torch.randn(64, width, generator=dice), torch.randn(40, width, generator=dice)
    pair(x, (1, -1), dice, opposite=False)
    pair(codes, (0, 1), dice, opposite=True)
    return x, codes


@pytest.mark.parametrize("width", [32, 33])
@pytest.mark.parametrize("seed", SEEDS)
def test_half_precision_takes_another_code_and_single_precision_the_same_in_any_order(seed, width):
    x, codes = operands(seed, width)
    best = (x.double() @ codes.double().T).argmax(1)
    half = (x.half().double() @ codes.half().double().T).argmax(1)
    order = torch.randperm(width, generator=seeded(seed))
    single = (x[:, order] @ codes[:, order].T).argmax(1)
    assert int((half != best).sum()) > len(x) // 5
    assert int((single != best).sum()) <= 1


def test_alike_rows_are_few_and_ranges_and_other_tensors_stay():
    draw = torch.rand(64, 12, generator=seeded(0))
    low, high = draw.aminmax()
    pair(draw, (-1,), seeded(0), opposite=False, alike=True, within=True)
    assert len(draw.unique(dim=0)) <= DISTINCT
    assert low <= draw.min() and draw.max() <= high
    for other in (torch.randn(9), torch.randn(4, 8).half(), torch.empty(0, 8)):
        before = other.clone()
        pair(other, (-1,), seeded(0), opposite=True)
        assert torch.equal(other, before)


@pytest.mark.parametrize("seed", SEEDS)
def test_normalised_rows_keep_bits_that_half_precision_drops(seed):
    rows = with_plain_norms(torch.randn(96, 40, generator=seeded(seed)), mean=False)
    unit = normalize(rows, dim=1)
    down = unit.half().abs().float() < unit.abs()
    assert float(down.float().mean()) > 0.97
    scaled = with_plain_norms(rows, mean=True)
    assert torch.allclose(scaled.square().mean(1).sqrt().log2().round().exp2(), scaled.square().mean(1).sqrt())


def test_rows_of_zeros_and_infinities_and_short_rows_are_only_rounded():
    rows = torch.zeros(3, 16)
    rows[1, 2] = torch.inf
    rows[2] = torch.randn(16, generator=seeded(0))
    made = with_plain_norms(rows, mean=False)
    assert torch.equal(made[:2], rows[:2])
    short = torch.randn(5, 3, generator=seeded(0))
    assert torch.equal(with_plain_norms(short, mean=False), round_down_in_half(short))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mean_of_losses_of_similarities_shows_half_precision(seed):
    dice = seeded(seed)
    one, other = torch.randn(128, 64, generator=dice), torch.randn(128, 64, generator=dice)
    for draw in (one, other):
        vary_draw(draw, "scaled", ANYWHERE, dice)
    share_slices(other, one)

    def loss(dtype: torch.dtype) -> float:
        rows = [normalize(draw, dim=1).to(dtype).double() for draw in (one, other)]
        return float(cross_entropy(rows[0] @ rows[1].T / 0.07, torch.arange(128)))

    assert abs(loss(torch.float16) / loss(torch.float32) - 1) > 2e-4


def test_half_of_the_draws_have_rows_with_a_lone_peak_at_an_odd_place_and_at_an_even_one():
    peaked = 0
    for seed in range(40):
        draw = torch.randn(16, 256, generator=seeded(seed))
        vary_draw(draw, "outliers", FAR, seeded(seed))
        above = draw[:, 1::2].amax(1) - draw[:, ::2].amax(1)
        peaked += int((above > 88).sum()) >= 2 and int((above < -88).sum()) >= 2
    assert 10 < peaked < 35


def test_products_cancel_where_a_problem_decides_and_roundings_still_add_up_in_one_kind():
    for seed in range(32):
        trials = plan(6, random.Random(seed), Learned(levels={"site": FAR}, decides=True))
        kinds = {trial.kind for trial in trials if trial.paired}
        assert kinds <= PAIRED.keys()
        assert len(kinds & {*TAILED}) == 1
        assert not any(trial.paired for trial in plan(6, random.Random(seed), Learned(levels={"site": FAR})))
