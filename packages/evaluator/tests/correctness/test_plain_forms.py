"""Textbook forms of functions are right, also where later steps multiply their rounding errors."""

import pytest
import torch
from torch.nn import functional as F

from warpsmith.evaluator.correctness.compare import Expected, compare
from warpsmith.evaluator.correctness.plain_forms import PlainFormFinder, PlainForms
from warpsmith.evaluator.correctness.spread import Changes, Perturbation, distance

CHANGES = Changes(torch.device("cpu"))
SEEDS = range(6)


def expected_of(function, usual, *tensors, textbook=True):
    """What the judge knows of an answer, of a function whose plain inputs are `usual`."""
    with PlainFormFinder() as finder:
        function(*usual)
    shares = finder.shares if textbook else {}
    value = function(*tensors)
    exact = function(*(tensor.double() for tensor in tensors))
    spread = torch.zeros_like(value)
    for pair in range(2):
        perturb = Perturbation(CHANGES, pair, 4, tf32=False)
        for sign in (1.0, -1.0):
            perturb.start(sign)
            with PlainForms(perturb, shares):
                spread = torch.maximum(spread, distance(value, function(*map(perturb, tensors))))
    with PlainForms(None, shares):
        spread = torch.maximum(spread, distance(value, function(*tensors)))
    return Expected(value, exact, spread)


def softplus(x):
    return F.softplus(x)


def recurrence(step, u, *, positive=softplus):
    state, states = torch.zeros_like(u[0]), []
    for x, row in zip(step, u, strict=True):
        size = positive(x)
        state = torch.exp(-size) * state + size * row
        states.append(state)
    return torch.stack(states)


TEXTBOOK = {
    "softplus": (F.softplus, lambda x: torch.log(1 + torch.exp(x)), -16.0),
    "log sigmoid": (F.logsigmoid, lambda x: torch.log(1 / (1 + torch.exp(-x))), 15.0),
    "elu": (F.elu, lambda x: torch.where(x > 0, x, torch.exp(x) - 1), 0.0),
    "tanh": (torch.tanh, lambda x: 2 / (1 + torch.exp(-2 * x)) - 1, 0.0),
    "gelu": (F.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476)), -5.0),
    "log1p": (torch.log1p, lambda x: torch.log(1 + x), 0.0),
    "expm1": (torch.expm1, lambda x: torch.exp(x) - 1, 0.0),
    "logaddexp": (lambda x: torch.logaddexp(x, x.new_zeros(())), lambda x: torch.log(torch.exp(x) + 1), -16.0),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TEXTBOOK)
def test_a_textbook_form_agrees_where_its_error_is_multiplied(name, seed):
    function, textbook, middle = TEXTBOOK[name]
    generator = torch.Generator().manual_seed(seed)
    usual = torch.rand(64, 32, generator=generator)
    small = middle + 1e-3 * (1 + torch.rand(64, 32, generator=generator))
    expected = expected_of(lambda x: 300 * function(x), (usual,), small)
    assert compare(300 * textbook(small), expected, 1.0).ok


def plain_softplus(x):
    return torch.where(x > 20, x, torch.log(1 + torch.exp(x)))


MISHES = {
    "sigmoid": lambda x: x * (2 * torch.sigmoid(2 * plain_softplus(x)) - 1),
    "tanh": lambda x: x * torch.tanh(plain_softplus(x)),
    "exponentials": lambda x: x * (1 - torch.exp(-2 * plain_softplus(x))) / (1 + torch.exp(-2 * plain_softplus(x))),
    "quotient": lambda x: x * (1 - 2 / (torch.exp(2 * plain_softplus(x)) + 1)),
    "squares": lambda x: x * ((1 + torch.exp(x)) ** 2 - 1) / ((1 + torch.exp(x)) ** 2 + 1),
}
NEGATIVE = {
    "to -5": lambda like: -5 * like.uniform_(),
    "-3 |normal|": lambda like: -3 * like.normal_().abs(),
    "normal - 3": lambda like: like.normal_() - 3,
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function", [F.mish, lambda x: x * torch.tanh(F.softplus(x))], ids=["fused", "written"])
@pytest.mark.parametrize("inputs", NEGATIVE)
@pytest.mark.parametrize("form", MISHES)
def test_mish_of_negative_numbers(form, inputs, function, seed):
    torch.manual_seed(seed)
    usual = NEGATIVE[inputs](torch.empty(96, 257))
    columns = torch.where(torch.rand(257) < 0.2, 2.0**-6, 1.0)
    for x in (usual, 2 * usual, 4 * usual, 2 * usual * columns):
        expected = expected_of(function, (usual,), x)
        assert compare(MISHES[form](x), expected, 1.0).ok
        half = x * torch.tanh(torch.log(1 + torch.exp(x.half())).float())
        assert not compare(half, expected, 1.0).ok


def test_noises_of_two_functions_cancel_in_no_pair():
    x = torch.randn(64, 257, generator=torch.Generator().manual_seed(0))
    with PlainFormFinder() as finder:
        plain = torch.log1p(torch.expm1(x.exp()))
    perturb = Perturbation(CHANGES, 0, 4, tf32=False)
    moved = []
    for sign in (1.0, -1.0):
        perturb.start(sign)
        with PlainForms(perturb, dict.fromkeys(finder.shares, 1000.0)):
            moved.append((torch.log1p(torch.expm1(x.exp())) - plain).abs())
    one = torch.maximum(*moved)
    assert float(one.min()) > 0.2 * float(one.mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_softplus_in_a_recurrence(seed):
    generator = torch.Generator().manual_seed(seed)
    step, u = (torch.randn(9, 400, generator=generator) for _ in range(2))
    far = 200 * u
    low = step - 12
    plain = recurrence(low, far, positive=lambda x: torch.log(1 + torch.exp(x)))
    half = recurrence(low, far, positive=lambda x: torch.log(1 + torch.exp(x.half())).float())
    assert compare(plain, expected_of(recurrence, (step, u), low, far), 2.0).ok
    assert not compare(half, expected_of(recurrence, (step, u), low, far), 2.0).ok
    assert not compare(plain, expected_of(recurrence, (step, u), low, far, textbook=False), 2.0).ok


def test_where_all_results_are_small_on_plain_inputs_their_digits_count():
    x = 1e-5 * torch.rand(64, 64, generator=torch.Generator().manual_seed(0))
    expected = expected_of(torch.log1p, (x,), x)
    assert compare(x - x * x / 2, expected, 1.0).ok
    assert not compare(torch.log(1 + x), expected, 1.0).ok


@pytest.mark.parametrize("name", TEXTBOOK)
def test_noise_is_never_more_than_the_result_and_follows_the_sign_of_the_run(name):
    function, _, middle = TEXTBOOK[name]
    x = torch.cat([torch.linspace(middle - 1, middle + 1, 4001), torch.tensor([-90.0, 0.0, 60.0])])
    x = x.abs() if name == "log1p" else x
    with PlainFormFinder() as finder:
        plain = function(x)
    perturb = Perturbation(CHANGES, 0, 4, tf32=False)
    moved = []
    for sign in (1.0, -1.0):
        perturb.start(sign)
        with PlainForms(perturb, finder.shares):
            moved.append(function(x) - plain)
    assert bool((moved[0].abs() <= plain.abs()).all())
    assert 0 < float(moved[0].abs().max()) < 1e-5
    assert bool(((moved[0] == 0) | (moved[1] == 0) | (moved[0].sign() == -moved[1].sign())).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_dtypes_and_functions_in_place(dtype):
    x = torch.linspace(-3, 3, 999, dtype=dtype)
    with PlainFormFinder() as finder:
        plain = x.clone().tanh_()
    perturb = Perturbation(CHANGES, 0, 2, tf32=False)
    perturb.start(1.0)
    with PlainForms(perturb, finder.shares):
        moved = x.clone().tanh_()
    assert moved.dtype == dtype
    assert float((moved - plain).abs().max()) < (1e-14 if dtype == torch.float64 else 2e-3)


def attention(q, k, v):
    return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


def fused_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def rounded_twice(q, k, v):
    """Attention whose numerators and denominators come from exponents that differ by one step."""
    logits = q @ k.mT / q.shape[-1] ** 0.5
    largest = logits.amax(-1, keepdim=True)
    step = torch.nextafter(largest, largest.new_full((), torch.inf)) - largest
    return torch.exp(logits - largest - step) @ v / torch.exp(logits - largest).sum(-1, keepdim=True)


@pytest.mark.parametrize("function", [attention, fused_attention])
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_of_large_exponents_are_tolerated_and_no_evidence(function, seed):
    torch.manual_seed(seed)
    usual = [torch.randn(2, 12, 16) for _ in range(3)]
    far = [one + 1024 for one in usual]
    expected = expected_of(function, usual, *far)
    assert compare(rounded_twice(*far), expected, 1.0).ok
    assert not expected.is_mostly_steady
    assert not compare(rounded_twice(*far), expected_of(function, usual, *far, textbook=False), 1.0).ok


@pytest.mark.parametrize("function", [attention, fused_attention])
def test_exponents_of_usual_size_stay_evidence(function):
    torch.manual_seed(0)
    usual = [torch.randn(2, 12, 16) for _ in range(3)]
    expected = expected_of(function, usual, *usual)
    assert expected.is_steady
    assert compare(rounded_twice(*usual), expected, 1.0).ok
    assert not compare(function(*usual) * 1.001, expected, 1.0).ok


def masked(x, mask):
    return F.softmax(x.masked_fill(mask, -1e9), -1)


def test_rows_that_are_masked_as_usual_stay_evidence():
    torch.manual_seed(0)
    x, mask = torch.randn(8, 12), torch.rand(8, 12) < 0.3
    mask[3] = True
    with PlainFormFinder() as finder:
        plain = masked(x, mask)
    perturb = Perturbation(CHANGES, 0, 4, tf32=False)
    perturb.start(1.0)
    with PlainForms(perturb, finder.shares):
        assert torch.equal(masked(x, mask), plain)
