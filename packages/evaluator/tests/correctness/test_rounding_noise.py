"""Noise at each rounding of a reference: what is exact stays, what was rounded may fall on the other side."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from warpsmith.evaluator.correctness.rounding_noise import FunctionFinder, RoundingNoise
from warpsmith.evaluator.correctness.spread import Changes, Perturbation
from warpsmith.evaluator.reference import mutations


def with_noise(function, *tensors, sign=1.0):
    perturb = Perturbation(Changes(torch.device("cpu")), 0, 4, tf32=False)
    perturb.start(sign)
    with torch.no_grad(), RoundingNoise(perturb):
        return function(*tensors)


@pytest.fixture
def eighths():
    return (8 * torch.randn(64, 96, generator=torch.Generator().manual_seed(0))).round() / 8


aten = torch.ops.aten
EXACT = {
    "round": lambda x: torch.round(x * 4) / 4,
    "threshold": lambda x: torch.where(x > 0.5, x, 0.0),
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "bucketize": lambda x: torch.bucketize(x, torch.linspace(-2, 2, 17)),
    "histogram": lambda x: torch.histc(x, 16, -2, 2),
    "sum": lambda x: x.sum(1),
    "mean of a power of two": lambda x: x[:, :64].mean(1) > 0,
    "product": lambda x: x @ x.t(),
    "constants": lambda x: torch.where(x == 1.0, torch.full_like(x, 0.3), torch.ones_like(x) + x.new_full((), 9.0)),
    "in place": lambda x: x.clone().mul_(0.5).add_(1.0).clamp_(min=0.0),
    "gradient of hardshrink": lambda x: aten.hardshrink_backward(x.roll(1, 0), x, 0.5),
    "gradient of hardtanh": lambda x: aten.hardtanh_backward(x.roll(1, 0), x, -1.0, 1.0),
    "gradient of threshold": lambda x: aten.threshold_backward(x.roll(1, 0), x, 0.5),
    "edges of hardswish": lambda x: aten.hardswish_backward(torch.ones_like(x), 3.0 * x.sign()),
    "moves": lambda x: torch.cat([x.flip(0), x.roll(3, 1)]).t().contiguous(),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_exact_is_not_changed(eighths, name, sign):
    assert torch.equal(with_noise(EXACT[name], eighths, sign=sign), EXACT[name](eighths))


ROUNDED = {
    "division": lambda x: x / 3.0,
    "exponential": torch.exp,
    "softmax": lambda x: x.softmax(-1),
    "mean": lambda x: x[:, :95].mean(1),
    "layer norm": lambda x: F.layer_norm(x, (96,)),
    "product of random numbers": lambda x: x @ torch.randn(96, 8, generator=torch.Generator().manual_seed(1)),
    "in place": lambda x: x.clone().div_(3.0),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounded_is_changed_a_little(eighths, name):
    plain = ROUNDED[name](eighths)
    apart = (with_noise(ROUNDED[name], eighths) - plain).abs()
    assert 0 < apart.max() < 1e-3 * plain.abs().max()


def noted(function, *tensors):
    perturb = Perturbation(Changes(torch.device("cpu")), 0, 1, tf32=False, finely=True)
    with torch.no_grad(), RoundingNoise(perturb) as noise:
        function(*tensors)
    return noise.rounded, noise.converts


@pytest.mark.parametrize("name", EXACT)
def test_what_rounds_nothing_is_known_for_it(eighths, name):
    assert not noted(EXACT[name], eighths)[0]


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounds_is_known_for_it(eighths, name):
    assert noted(ROUNDED[name], eighths)[0]


INEXACT = {
    "sum that names its dtype": (lambda x: x.sum(-1, dtype=torch.float32), torch.rand(8, 4096)),
    "mean that names its dtype": (lambda x: x.mean(-1, dtype=torch.float32), torch.rand(8, 4095)),
    "sum in float64": (lambda x: x.sum(-1), torch.rand(8, 64, dtype=torch.float64)),
    "scan in float64": (lambda x: x.cumsum(-1), torch.rand(8, 64, dtype=torch.float64)),
    "bytes to fractions": (lambda x: x / 255.0, torch.arange(256).to(torch.uint8)),
    "sine of integers": (torch.sin, torch.arange(9)),
    "tenths": (lambda x: x * 0.1, torch.arange(9)),
    "several tensors at once": (lambda x: torch._foreach_add_([x.clone()], [x / 3]), torch.rand(64)),
}


@pytest.mark.parametrize("name", INEXACT)
def test_rounding_that_no_wider_result_shows_is_rounding(name):
    function, tensor = INEXACT[name]
    assert noted(function, tensor)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.where(x > 0.5, x, -x).max(-1).values,
        lambda x: x.sort(-1).values.round(),
        lambda x: x.clamp(0.25, 0.5).gather(-1, x.argsort(-1)),
    ],
)
def test_selecting_in_float64_rounds_nothing(function):
    assert not noted(function, torch.rand(8, 64, dtype=torch.float64))[0]


@pytest.mark.parametrize(
    ("function", "converts"),
    [
        (lambda steps: steps.float() * 0.1, True),
        (lambda steps: steps * 0.1, True),
        (lambda steps: torch.ones(9)[steps], False),
        (lambda steps: steps + 1, False),
        (lambda steps: (steps > 1).float(), False),
    ],
)
def test_numbers_made_of_integers_are_seen(function, converts):
    assert noted(function, torch.arange(9))[1] is converts


def test_fine_changes_are_a_few_roundings():
    x = torch.rand(4096, generator=torch.Generator().manual_seed(0)) + 1.0
    changed = Perturbation(Changes(torch.device("cpu")), 0, 1, tf32=False, finely=True).everywhere(x)
    apart = ((changed - x) / x).abs()
    assert 0 < apart.max() <= 2.0**-21
    assert (apart > 0).float().mean() > 0.9


def test_a_step_behind_a_rounding_is_crossed_in_one_of_two_signs():
    def quantised(x):
        return torch.round(x / (x.abs().amax(1, keepdim=True) / 127))

    x = (8 * torch.randn(256, 64, generator=torch.Generator().manual_seed(0))).round() / 8
    other = torch.round(x * (127 / x.abs().amax(1, keepdim=True)))
    plain, flips = quantised(x), torch.zeros(x.shape, dtype=torch.bool)
    for sign in (1.0, -1.0):
        flips |= with_noise(quantised, x, sign=sign) != plain
    assert (other != plain).any()
    assert not ((other != plain) & ~flips).any()


def test_random_operators_and_modules_run_under_it():
    model = nn.Sequential(nn.Linear(96, 32), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.GELU(), nn.LSTM(32, 8))
    output, _ = with_noise(model, torch.randn(16, 96))
    assert torch.isfinite(output).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_a_gridded_draw_holds_few_numbers_of_its_own_range(dtype):
    draw = torch.rand(64, 128, dtype=dtype)
    low, high = draw.min(), draw.max()
    mutations.to_grid(draw, torch.Generator().manual_seed(0), zero=False, numbers=(0.5, 0.75, 3.0))
    assert draw.min() >= low
    assert draw.max() <= high
    assert draw.unique().numel() < 2000
    assert (draw == 0.75).any()


def test_zero_is_there_where_the_draw_begins_at_it():
    draw = torch.rand(64, 128)
    mutations.to_grid(draw, torch.Generator().manual_seed(0), zero=True)
    assert (draw == 0).any()
    few = sum(row.unique().numel() < 32 for row in draw)
    # The other rows are on the finer grid.
    assert 12 <= few <= 52


def test_rows_become_equal():
    draw = torch.randn(64, 128)
    for seed in range(4):
        mutations.to_grid(draw, torch.Generator().manual_seed(seed), zero=True, rows=True)
    assert len({tuple(row.tolist()) for row in draw}) < 64


THIRDS = torch.arange(1.0, 9.0) / 3


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (lambda: torch.tensor([3, 7]) / 10, False),
        (lambda: torch.arange(8) * 0.1 + 0.3, False),
        (lambda: 2.0 ** torch.arange(8), False),
        (lambda: torch.arange(9.0).square().sqrt(), False),
        (lambda: torch.cumsum(torch.ones(8), 0), False),
        (lambda: torch.randn(8) / 3, False),
        (lambda: 1.0 / (10000.0 ** (torch.arange(8) / 8)), True),
        (lambda: torch.sin(torch.arange(8.0)), True),
        (lambda: torch.full((8,), 0.1).cumsum(0), True),
        (lambda: torch.add(THIRDS, THIRDS.sqrt(), alpha=0.3), True),
        (lambda: torch.sub(THIRDS, THIRDS.sqrt(), alpha=3), True),
        (lambda: torch.rsub(THIRDS.sqrt(), 1.0, alpha=0.3), True),
        (lambda: torch.add(THIRDS, THIRDS.sqrt(), alpha=-2), False),
        (lambda: torch.add(torch.arange(8.0), torch.arange(8.0), alpha=3), False),
        (lambda: torch.addcmul(THIRDS, THIRDS, THIRDS.sqrt(), value=0.3), True),
        (lambda: torch.lerp(THIRDS, THIRDS.sqrt(), 0.3), True),
    ],
)
def test_only_functions_and_sums_are_computed_otherwise_by_others(build, found):
    with FunctionFinder() as finder:
        build()
    assert finder.found is found


def test_attention_rounds_though_it_could_draw(eighths):
    def attention(x):
        return F.scaled_dot_product_attention(*[x[None, None]] * 3)

    assert not torch.equal(with_noise(attention, eighths), attention(eighths))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_infinities_keep_their_sign_and_leave_the_rest_of_a_row_its_noise(eighths, sign):
    logits = (eighths @ eighths.t() / 7.0).masked_fill(torch.ones(64, 64, dtype=torch.bool).triu(1), float("-inf"))
    noisy = with_noise(lambda x: torch.softmax(x, -1), logits, sign=sign)
    assert bool(torch.isfinite(noisy).all())
    assert float((noisy[1:] != logits.softmax(-1)[1:]).any(-1).double().mean()) > 0.9


def angles(steps):
    """Angles of integer steps: each has the roundings of a logarithm's product, an exponential and a product."""
    frequencies = torch.exp(-9.210340371976184 * torch.arange(32, dtype=torch.float32) / 33)
    return steps[:, None].float() * frequencies[None]


@pytest.mark.parametrize("seed", range(40))
def test_roundings_of_an_element_do_not_cancel_in_every_run(seed):
    steps = torch.randint(1, 1000, (400,), generator=torch.Generator().manual_seed(seed))
    plain, largest = angles(steps), torch.zeros(400, 32)
    for pair in range(2):
        perturb = Perturbation(Changes(torch.device("cpu")), seed + pair, 1, tf32=False, finely=True)
        for alternates in (False, True):
            perturb.start(1.0, alternates=alternates)
            with torch.no_grad(), RoundingNoise(perturb):
                largest = torch.maximum(largest, (angles(steps) - plain).abs() / plain)
    # The first column is exact but for one product of integers.
    assert float(largest[:, 1:].min()) > 2.0**-24
