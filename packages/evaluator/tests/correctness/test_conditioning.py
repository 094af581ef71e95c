"""Bounds that are each element's own: honest rewrites in other orders pass, and what is left out or cut short fails."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from warpsmith.evaluator.correctness.compare import MOST_FLIPS, TF32_RELATIVE, Expected, agrees, bounds, compare
from warpsmith.evaluator.correctness.spread import FEW, Changes, Perturbation, distance, is_coarse

SEEDS = range(8)
CHANGES = Changes(torch.device("cpu"))


def spread_of(function, tensors, value, *, seed=0, tf32=False):
    finest = max((value.dtype.itemsize for value in [value] if value.is_floating_point()), default=1)
    found = torch.zeros_like(distance(value, value))
    for pair in range(2):
        perturb = Perturbation(CHANGES, seed + pair, finest, tf32=tf32)
        for sign in (1.0, -1.0):
            perturb.start(sign)
            found = torch.maximum(found, distance(value, function(*map(perturb, tensors))))
    return found


def known(function, *tensors, exact=True, tf32=False):
    """What the judge knows of a function's answer."""
    value = function(*tensors)
    wide = None
    if exact and value.is_floating_point():
        wide = function(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors))
    scale = max((float(tensor.abs().double().mean()) for tensor in tensors if tensor.is_floating_point()), default=1.0)
    return Expected(value, wide, spread_of(function, tensors, value, tf32=tf32), tf32, scale)


def reduction_of(value, *tensors):
    return max(sum(tensor.numel() for tensor in tensors) / max(value.numel(), 1), 1.0)


def judged(got, function, *tensors, **options):
    expected = known(function, *tensors, **options)
    return compare(got, expected, reduction_of(expected.value, *tensors))


# --- honest ---


def serial(terms):
    """The sum over the last dimension, one term after the other in the terms' own precision."""
    total = torch.zeros_like(terms[..., 0])
    for term in terms.unbind(-1):
        total = total + term
    return total


def by_blocks(x, y, block=16):
    return sum(x[:, k : k + block] @ y[k : k + block] for k in range(0, x.shape[1], block))


def one_pass_norm(x, weight, bias):
    mean = serial(x) / x.shape[-1]
    variance = serial(x * x) / x.shape[-1] - mean * mean
    return (x - mean[:, None]) * torch.rsqrt(variance[:, None] + 1e-5) * weight + bias


def plain_softmax(x):
    grown = torch.exp2(x * 1.4426950408889634)
    return grown / serial(grown)[:, None]


def online_logsumexp(x):
    top, total = torch.full_like(x[:, 0], -math.inf), torch.zeros_like(x[:, 0])
    for part in x.split(16, dim=1):
        higher = torch.maximum(top, part.amax(1))
        total = total * torch.exp(top - higher) + torch.exp(part - higher[:, None]).sum(1)
        top = higher
    return top + torch.log(total)


def unfolded_conv(x, weight):
    windows = F.unfold(x, 3).transpose(1, 2)
    return (
        by_blocks(windows.flatten(0, 1), weight.flatten(1).t())
        .reshape(x.shape[0], -1, weight.shape[0])
        .mT.reshape(x.shape[0], weight.shape[0], x.shape[2] - 2, x.shape[3] - 2)
    )


def softplus_as_written(x):
    return torch.where(x > 20, x, torch.log(1 + torch.exp(x)))


def plain_gelu(x):
    return x * 0.5 * (1 + torch.erf(x * 0.7071067811865476))


def normal(*shape):
    return torch.randn(*shape)


HONEST = {
    "sum": (lambda x: x.sum(1), serial, lambda: [normal(40, 3000)]),
    "sum of positive numbers": (lambda x: x.sum(1), serial, lambda: [torch.rand(40, 3000)]),
    "cumulated sum": (lambda x: x.cumsum(1), lambda x: x.double().cumsum(1).float(), lambda: [normal(10, 4000)]),
    "product": (lambda x: x.prod(1), lambda x: torch.exp2(torch.log2(x).sum(1)), lambda: [torch.rand(40, 30) + 0.5]),
    "matrix product": (torch.matmul, by_blocks, lambda: [normal(40, 2048), normal(2048, 30)]),
    "one long row": (
        torch.matmul,
        lambda x, y: serial(x * y.t())[:, None],
        lambda: [normal(1, 8192), normal(8192, 1)],
    ),
    "softmax": (lambda x: torch.softmax(x, 1), plain_softmax, lambda: [9 * normal(40, 300)]),
    "log softmax": (
        lambda x: torch.log_softmax(x, 1),
        lambda x: x - online_logsumexp(x)[:, None],
        lambda: [20 * normal(40, 300)],
    ),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), online_logsumexp, lambda: [30 * normal(40, 256)]),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (256,), w, b),
        one_pass_norm,
        lambda: [3 * normal(40, 256) + 5, normal(256), normal(256)],
    ),
    "variance": (
        lambda x: x.var(1, unbiased=False),
        lambda x: (x * x).mean(1) - x.mean(1) ** 2,
        lambda: [normal(40, 500) + 2],
    ),
    "convolution": (F.conv2d, unfolded_conv, lambda: [normal(2, 16, 12, 12), normal(8, 16, 3, 3)]),
    "softplus": (F.softplus, softplus_as_written, lambda: [20 * normal(40, 100)]),
    "gelu": (F.gelu, plain_gelu, lambda: [3 * normal(40, 100)]),
    "difference of near numbers": (
        lambda x, y: x - (x + y),
        lambda x, y: -y + (x - x),
        lambda: [100 * torch.rand(40, 100), 1e-2 * normal(40, 100)],
    ),
    "a sine of large numbers": (
        lambda x, f: torch.sin(x[:, None] * f),
        lambda x, f: torch.sin((x[:, None] * (f / math.pi)) * math.pi),
        lambda: [torch.rand(300), 2.0 ** torch.arange(12) * math.pi],
    ),
    "a quantisation": (
        lambda x, g: torch.round(x * g * 255.0) / 255.0,
        lambda x, g: torch.round(x * (g * 255.0)) / 255.0,
        lambda: [torch.rand(400, 1024), torch.rand(1024) + 0.5],
    ),
    "a quantised product": (
        lambda x, y: torch.round(x @ y * 8) / 8,
        lambda x, y: torch.round(by_blocks(x, y) * 8) / 8,
        lambda: [normal(300, 512), normal(512, 200)],
    ),
    "a threshold": (
        lambda x, y: torch.where(x @ y > 0, 1.0, -1.0),
        lambda x, y: torch.where(by_blocks(x, y) > 0, 1.0, -1.0),
        lambda: [normal(300, 512), normal(512, 200)],
    ),
    "the index of a maximum": (
        lambda x, y: (x @ y).argmax(1),
        lambda x, y: by_blocks(x, y).argmax(1),
        lambda: [normal(2000, 64), normal(64, 500)],
    ),
    "a comparison": (
        lambda x, y: (x @ y) > 1,
        lambda x, y: by_blocks(x, y) > 1,
        lambda: [normal(300, 512), normal(512, 200)],
    ),
}


# Without its fp64 run nobody knows how far the reference is off where it rounds what cancels later.
CANCELS = "difference of near numbers"
PAIRS = [(name, exact) for name in HONEST for exact in (True, False) if exact or name != CANCELS]


@pytest.mark.parametrize(("name", "exact"), PAIRS)
def test_another_order_or_formula_agrees(name, exact):
    reference, rewrite, make = HONEST[name]
    for seed in SEEDS:
        torch.manual_seed(seed)
        tensors = make()
        found = judged(rewrite(*tensors), reference, *tensors, exact=exact)
        assert found.ok, (seed, found.message)


HALF = {
    "product": (torch.matmul, lambda x, y: (x.float() @ y.float()).half(), lambda: [normal(40, 512), normal(512, 30)]),
    "softmax": (
        lambda x: torch.softmax(x, 1),
        lambda x: plain_softmax(x.float()).half(),
        lambda: [4 * normal(40, 256)],
    ),
    "chain": (
        lambda x, y: x * y + x - y,
        lambda x, y: (x.float() * y.float() + x.float() - y.float()).half(),
        lambda: [normal(50, 100), normal(50, 100)],
    ),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (256,), w, b),
        lambda x, w, b: one_pass_norm(x.float(), w.float(), b.float()).half(),
        lambda: [3 * normal(40, 256) + 1, normal(256), normal(256)],
    ),
}


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_computed_in_single_agrees(name, dtype):
    reference, rewrite, make = HALF[name]
    for seed in SEEDS:
        torch.manual_seed(seed)
        tensors = [tensor.to(dtype) for tensor in make()]
        found = judged(rewrite(*tensors).to(dtype), reference, *tensors)
        assert found.ok, (seed, found.message)


# --- wrong ---


def as_half(tensor):
    return tensor.half().float()


def as_bfloat(tensor):
    return tensor.bfloat16().float()


def as_tf32(tensor):
    """Round the fraction to ten bits, to the nearest."""
    return ((tensor.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


ROUNDED = ["sum", "matrix product", "softmax", "log softmax", "logsumexp", "layer norm", "convolution", "gelu"]


@pytest.mark.parametrize("name", [*ROUNDED, "softplus", "a sine of large numbers"])
@pytest.mark.parametrize("lossy", [as_half, as_bfloat, as_tf32])
@pytest.mark.parametrize("exact", [True, False])
def test_fewer_bits_inside_are_wrong(name, lossy, exact):
    reference, _, make = HONEST[name]
    torch.manual_seed(0)
    tensors = make()
    assert not judged(reference(*map(lossy, tensors)), reference, *tensors, exact=exact).ok


@pytest.mark.parametrize("name", ["matrix product", "convolution"])
def test_tf32_is_right_where_it_is_asked_for_and_half_the_terms_are_not(name):
    reference, _, make = HONEST[name]

    def in_tf32(*tensors):
        return reference(*(as_tf32(one) if one.dtype == torch.float32 else one for one in tensors))

    for seed in SEEDS:
        torch.manual_seed(seed)
        tensors = make()
        expected = known(in_tf32, *tensors, tf32=True)
        cut = [(one.view(torch.int32) & ~0x1FFF).view(torch.float32) for one in tensors]
        assert compare(reference(*cut), expected, 100.0).ok
        halved = [tensors[0].clone(), tensors[1]]
        halved[0][:, : halved[0].shape[1] // 2] = 0
        assert not compare(reference(*halved), expected, 100.0).ok
    assert TF32_RELATIVE < 1e-2


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([1 << 14, 1 << 18, 1 << 21]), st.floats(0.25, 0.9))
def test_a_mean_of_some_of_the_terms_is_wrong(seed, count, share):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, generator=generator)
    y = torch.rand(count, generator=generator)

    def mean(a, b):
        return ((a - b) ** 2).mean()

    some = int(share * count)
    expected = known(mean, x, y)
    truth, bound = float(mean(x.double(), y.double())), float(bounds(expected, 2 * count))
    assert bound <= 1.5e-4 * truth
    sampled = mean(x[:some], y[:some])
    # By chance a sample may come near; what is further off than the bound is wrong, whatever the length.
    assert agrees(sampled, expected, 2 * count) == (abs(float(sampled) - truth) <= bound)


def test_three_eighths_of_a_large_mean_are_wrong_in_most_sets():
    wrong = 0
    for seed in range(20):
        x, y = torch.rand(2, 1 << 20, generator=torch.Generator().manual_seed(seed)).unbind()
        part = slice(0, 3 << 17)
        expected = known(lambda a, b: ((a - b) ** 2).mean(), x, y)
        wrong += not compare(((x[part] - y[part]) ** 2).mean(), expected, float(1 << 21)).ok
    assert wrong >= 17


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.floats(-7.0, 3.0), st.booleans(), st.booleans())
def test_a_part_that_is_left_out_is_wrong_however_small_it_is(seed, power, exact, columns):
    """Two columns or rows of a scale of their own beside others near one."""
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(301, 8, generator=generator), torch.randn(8, 2, generator=generator)

    def heads(a, w):
        gates = 10.0**power * torch.tanh(a @ w)
        whole = torch.cat([torch.sigmoid(a) + 0.5, gates], 1)
        return whole if columns else whole.t().contiguous()

    expected = known(heads, x, weight, exact=exact)
    got = expected.value.clone()
    (got[:, 8:] if columns else got[8:]).zero_()
    found = compare(got, expected, 1.0)
    assert found.mismatched >= 0.8 * 602


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 400), st.floats(0.0, 12.0))
def test_no_element_is_bound_by_the_size_of_another(seed, count, tail):
    """To make other elements larger widens no bound."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(count, generator=generator)
    larger = value.clone()
    half = count // 2
    larger[half:] *= 10**tail
    spread = 1e-6 * torch.rand(count, generator=generator)
    before = bounds(Expected(value, None, spread), 1.0)[:half]
    after = bounds(Expected(larger, None, spread), 1.0)[:half]
    assert bool((after <= torch.maximum(before, 1e-4 * value[:half].abs() + 2 * spread[:half] + 4e-6)).all())


LEFT_OUT = {
    "eps": (
        lambda x: F.layer_norm(x, (200,), eps=1e-5),
        lambda x: F.layer_norm(x, (200,), eps=1e-12),
        lambda: [0.05 * normal(45, 200)],
    ),
    "eps of a root mean square": (
        lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6),
        lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True)),
        lambda: [0.02 * normal(45, 200)],
    ),
    "a gain": (
        lambda x, g: torch.tanh(x) * g,
        lambda x, g: torch.tanh(x),
        lambda: [normal(40, 64), 1 + 0.1 * normal(64)],
    ),
    "a bias": (lambda x, b: x.relu() + b, lambda x, b: x.relu(), lambda: [normal(40, 64), 0.01 * normal(64)]),
    "a maximum that begins at zero": (
        lambda x: x.amax(1),
        lambda x: x.amax(1).clamp(min=0),
        lambda: [normal(40, 133) - 4],
    ),
    "a running maximum that begins at zero": (
        lambda x: x.cummax(1).values,
        lambda x: x.cummax(1).values.clamp(min=0),
        lambda: [normal(40, 133)],
    ),
    "the last term": (lambda x: x.sum(1), lambda x: x[:, :-1].sum(1), lambda: [normal(40, 3000)]),
    "a rounding": (
        lambda x, g: torch.round(x * g * 255.0) / 255.0,
        lambda x, g: x * g,
        lambda: [torch.rand(100, 256), torch.ones(256)],
    ),
    "the index of a maximum": (lambda x: x.argmax(1), lambda x: 0 * x[:, 0].long(), lambda: [normal(50, 20)]),
    "a sign of zero": (lambda x: x > 0, lambda x: x > -0.01, lambda: [normal(60, 60)]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("exact", [True, False])
def test_what_is_left_out_is_wrong(name, exact):
    reference, wrong, make = LEFT_OUT[name]
    for seed in SEEDS:
        torch.manual_seed(seed)
        tensors = make()
        assert not judged(wrong(*tensors), reference, *tensors, exact=exact).ok


# --- steps of a function ---


def test_only_elements_beside_a_step_may_jump():
    torch.manual_seed(0)
    x = torch.rand(1000, 1024)
    expected = known(lambda a: torch.round(a * 255.0) / 255.0, x)
    beside = expected.spread > 1e-3
    assert 0 < int(beside.sum()) < 0.001 * beside.numel() * 10
    step = 1 / 255
    for flips, ok in ((beside, True), (~beside, False)):
        place = tuple(torch.nonzero(flips)[0].tolist())
        got = expected.value.clone()
        got[place] += step if float(got[place]) < x[place] else -step
        found = compare(got, expected, 1.0)
        assert found.ok is ok
        assert ok or found.mismatched == 1


def test_an_index_may_be_that_of_a_tie_and_no_other():
    x = torch.full((3, 40), 0.1)
    x[:, 7] = 0.7
    x[1, 31] = 0.7000000001 * (1 + 1e-7)
    expected = known(lambda a: a.argmax(1), x)
    assert (expected.spread > 0).tolist() == [False, True, False]
    got = expected.value.clone()
    got[1] = 7 if int(got[1]) == 31 else 31
    # One of three flips: more than may.
    assert not compare(got, expected, 1.0).ok
    many = Expected(expected.value.repeat(3), None, torch.tensor([0.0, 24.0] + 7 * [0.0], dtype=torch.float64))
    assert compare(torch.cat([got, expected.value.repeat(2)]), many, 1.0).ok
    other = many.value.clone()
    other[2] += 24
    assert not compare(other, many, 1.0).ok
    assert many.decidable == pytest.approx(8 / 9)


def test_where_everything_flips_nothing_may():
    value = torch.arange(100)
    expected = Expected(value, None, torch.full((100,), 5.0, dtype=torch.float64))
    assert compare(value.clone(), expected, 1.0).ok
    assert not compare(value + 1, expected, 1.0).ok
    assert MOST_FLIPS < 1


def test_a_bool_that_may_flip_is_still_a_bool():
    value = torch.ones(100, dtype=torch.bool)
    spread = torch.zeros(100)
    spread[3] = 1
    expected = Expected(value, None, spread)
    for byte, ok in ((0, True), (1, True), (2, False)):
        got = value.clone()
        got.view(torch.uint8)[3] = byte
        assert compare(got, expected, 1.0).ok is ok


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_a_set_of_which_most_is_unknown_is_no_evidence(share):
    value = torch.ones(1000)
    spread = torch.where(torch.arange(1000) < share * 1000, 3.0, 0.0)
    assert Expected(value, None, spread).decidable == pytest.approx(1 - share)


def test_zeros_are_known_and_not_undecidable():
    torch.manual_seed(0)
    expected = known(torch.relu, normal(50, 50))
    assert expected.decidable == 1.0


# --- perturbations ---


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30), st.booleans())
def test_a_perturbation_and_its_opposite_stand_on_both_sides(numbers, whole):
    tensor = torch.tensor(numbers, dtype=torch.float32)
    tensor = tensor.round() if whole else tensor
    perturb = Perturbation(CHANGES, 1, 4, tf32=False)
    found = []
    for sign in (1.0, -1.0):
        perturb.start(sign)
        found.append(perturb(tensor).double())
    coarse, other = is_coarse(tensor), tensor != 0
    coarse &= ((coarse & other).sum() >= FEW * other.sum()) | ~other
    one, two = (side - tensor.double() for side in found)
    assert bool((one[coarse] == 0).all()) and bool((two[coarse] == 0).all())
    far = tensor.abs().double() > 1e-30
    moved = far & ~coarse
    assert bool((one[moved] * two[moved] < 0).all())
    assert bool((one[moved].abs() <= 2.0**-17 * tensor[moved].abs()).all())


def test_where_nothing_was_coarse_all_is_perturbed_from_then_on():
    """A row that a trial made constant is rounded on its way as any other is; labels among numbers stay."""
    inexact: set[int] = set()
    perturb = Perturbation(CHANGES, 1, 4, tf32=False, inexact=inexact)
    numbers, labelled, indices = torch.rand(40, 10) + 0.1, torch.rand(40, 10) + 0.1, torch.arange(30.0)
    labelled[:, 0] = torch.arange(40.0) % 7
    for sign in (1.0, -1.0):
        perturb.start(sign)
        assert bool((perturb(numbers) != numbers).all())
        assert torch.equal(perturb(labelled)[:, 0], labelled[:, 0])
        assert torch.equal(perturb(indices), indices)
    assert inexact == {1}
    later = Perturbation(CHANGES, 2, 4, tf32=False, inexact=inexact)
    numbers[:4] = -0.5
    later.start(-1.0)
    assert bool((later(numbers) != numbers).all())
    assert torch.equal(later(labelled)[:, 0], labelled[:, 0])
    assert torch.equal(later(indices), indices)


def test_what_no_rounding_made_is_not_perturbed():
    for tensor in (
        torch.eye(8),
        torch.arange(5000.0),
        (torch.rand(50) > 0.5).float(),
        torch.arange(20).float() / 4,
        torch.arange(9).half(),
        torch.randint(0, 9, (9,)),
        torch.tensor([math.inf, -math.inf, 0.0]),
    ):
        perturb = Perturbation(CHANGES, 2, 1, tf32=False)
        perturb.start(1.0)
        assert torch.equal(perturb(tensor), tensor)
    assert int((~is_coarse(torch.rand(10_000))).sum()) > 9_000
    assert int((~is_coarse(torch.randn(10_000).half())).sum()) > 9_000


def test_operands_that_are_exact_in_single_precision_are_left_as_they_are():
    perturb = Perturbation(CHANGES, 2, 4, tf32=False)
    perturb.start(1.0)
    half = torch.randn(100).half()
    assert torch.equal(perturb(half), half)


def test_two_tensors_of_a_run_are_given_other_signs():
    perturb = Perturbation(CHANGES, 2, 4, tf32=False)
    perturb.start(1.0)
    x = torch.rand(100_000)
    one, two = perturb(x) > x, perturb(x) > x
    assert 0.45 < float((one == two).float().mean()) < 0.55


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (1.0, 3.0, 2.0),
        (-math.inf, -math.inf, 0.0),
        (-math.inf, 2.0, math.inf),
        (2.0, math.inf, math.inf),
        (math.nan, 2.0, 0.0),
        (math.inf, math.nan, 0.0),
    ],
)
def test_runs_are_infinitely_far_apart_where_one_has_an_infinity(one, other, apart):
    assert distance(torch.tensor([one]), torch.tensor([other])).tolist() == [apart]


def test_a_distance_that_overflows_tells_nothing():
    assert distance(torch.tensor([6e4]).half(), torch.tensor([-6e4]).half()).tolist() == [0.0]
