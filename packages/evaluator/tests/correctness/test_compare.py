import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.correctness.compare import (
    RELATIVE,
    Expected,
    agrees,
    bounds,
    compare,
    floor,
    largest_error_if_right,
    near_one,
    relative_tolerance,
)
from warpsmith.evaluator.devices import tensor_views


def expected(value: torch.Tensor, exact: torch.Tensor | None = None) -> Expected:
    return Expected(value, exact)


def test_rounding_in_another_order_is_no_error():
    torch.manual_seed(0)
    a, b = torch.randn(64, 2048), torch.randn(2048, 64)
    reference = expected(a @ b, a.double() @ b.double())
    blocks = sum(a[:, k : k + 32] @ b[k : k + 32] for k in range(0, 2048, 32))
    assert compare(blocks, reference, 2048).ok


def softplus_plainly(x):
    return torch.log(1 + torch.exp(x))


def rows_by_blocks(x):
    return sum(x[:, start : start + 16] @ x.t()[start : start + 16] for start in range(0, x.shape[1], 16))


def variance_in_one_pass(x):
    return (x * x).mean(dim=1) - x.mean(dim=1) ** 2


REWRITES = {
    "another order of summation": (lambda x: x @ x.t(), rows_by_blocks),
    "softplus of a wide range": (
        lambda x: torch.nn.functional.softplus(x * 20),
        lambda x: torch.where(x > 1, x * 20, softplus_plainly(x * 20)),
    ),
    "softplus": (torch.nn.functional.softplus, softplus_plainly),
    "a variance in one pass": (lambda x: x.var(dim=1, unbiased=False), variance_in_one_pass),
    "relu after a sum": (lambda x: torch.relu(x @ x.t()), lambda x: torch.relu(rows_by_blocks(x))),
    "softmax": (lambda x: torch.softmax(x * 9, 1), lambda x: torch.exp(x * 9) / torch.exp(x * 9).sum(1, keepdim=True)),
    "a heavy tail": (lambda x: torch.exp(torch.exp(x)), lambda x: torch.pow(2, torch.exp(x) * 1.4426950408889634)),
}


@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("known", [True, False])
def test_honest_rewrites_agree(name, known):
    torch.manual_seed(0)
    x = torch.randn(64, 256)
    reference, rewrite = REWRITES[name]
    wanted = expected(reference(x), reference(x.double()) if known else None)
    assert compare(rewrite(x), wanted, 256).ok


def test_rows_of_many_magnitudes_agree_where_the_references_own_error_is_known():
    torch.manual_seed(0)
    a, b = torch.randn(64, 256) * 10.0 ** torch.arange(64)[:, None].remainder(5), torch.randn(256, 64)
    blocks = sum(a[:, start : start + 16] @ b[start : start + 16] for start in range(0, 256, 16))
    assert compare(blocks, expected(a @ b, a.double() @ b.double()), 256).ok


def test_half_precision_agrees_with_single_where_terms_cancel():
    torch.manual_seed(0)
    a, b, c = (torch.randn(5000).half() for _ in range(3))
    reference = expected(a * b + c, a.double() * b.double() + c.double())
    assert compare((a.float() * b.float() + c.float()).half(), reference, 1).ok


@given(st.integers(2, 200), st.floats(0.0, 20.0), st.booleans(), st.integers(0, 1 << 30))
@settings(deadline=None)
def test_most_elements_can_never_be_wrong_by_all_they_are(count, tail, known, seed):
    exact = torch.exp(tail * torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    exact = exact.clamp(1e-5, 1e30)
    wanted = expected(exact.float(), exact if known else None)
    largest = torch.where(exact > exact.median(), exact, 0).float()
    found = compare(largest, wanted, 1)
    assert not found.ok
    assert found.mismatched >= count // 4


@pytest.mark.parametrize(
    "lossy", [lambda t: t.half().float(), lambda t: (t.view(torch.int32) & ~0x1FFF).view(torch.float32)]
)
def test_half_or_tf32_operands_are_an_error(lossy):
    torch.manual_seed(0)
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    reference = expected(a @ b, a.double() @ b.double())
    found = compare(lossy(a) @ lossy(b), reference, 512)
    assert not found.ok
    assert found.where is not None


def test_the_worst_element_is_named_with_both_values():
    value = torch.zeros(3, 4) + 1.0
    got = value.clone()
    got[1, 2] = 5.0
    found = compare(got, expected(value), 1)
    assert (found.mismatched, found.total, found.where) == (1, 12, (1, 2))
    assert (found.expected, found.got, found.max_abs_error) == (1.0, 5.0, 4.0)
    assert "index [1, 2]: expected 1, got 5" in found.message
    assert found.mismatched_fraction == pytest.approx(1 / 12)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_special_values_must_stand_where_the_reference_has_them(special):
    value = torch.tensor([1.0, special, 3.0])
    assert compare(value.clone(), expected(value), 1).ok
    assert not compare(torch.tensor([special, 2.0, 3.0]), expected(torch.tensor([1.0, 2.0, 3.0])), 1).ok
    assert not compare(torch.tensor([1.0, 2.0, 3.0]), expected(value), 1).ok
    assert not compare(torch.tensor([1.0, -special if special == special else 0.0, 3.0]), expected(value), 1).ok


@pytest.mark.parametrize("got", [[1.0, -math.inf, 3.0], [-math.inf, 2.0, 3.0], [-math.inf, -math.inf, 3.0]])
def test_a_mask_of_infinities_may_differ_only_where_it_does_between_runs(got):
    value = torch.tensor([1.0, -math.inf, 3.0])
    spread = torch.tensor([math.inf, math.inf, 0.0])
    assert compare(torch.tensor(got), Expected(value, None, spread), 1.0).ok
    assert compare(torch.tensor(got), Expected(value, None, torch.zeros(3)), 1.0).ok is (got == value.tolist())
    for wrong in ([1.0, -math.inf, -math.inf], [math.nan, -math.inf, 3.0], [1.0, 2.0, 4.0], [1.1, -math.inf, 3.0]):
        assert not compare(torch.tensor(wrong), Expected(value, None, spread), 1.0).ok


def test_infinities_that_few_runs_have_make_an_answer_unsteady():
    value = torch.tensor([1.0, -math.inf] * 8)
    assert Expected(value, None, torch.zeros(16)).is_steady
    flips = Expected(value, None, torch.tensor([0.0, math.inf] * 8))
    assert not flips.is_mostly_steady
    assert (flips.decidable, Expected(value, None, torch.zeros(16)).decidable) == (0.5, 1.0)


def test_poison_never_passes():
    for dtype in (torch.float16, torch.float32, torch.float64):
        value = torch.randn(8).to(dtype)
        assert not compare(torch.full_like(value, math.nan), expected(value), 1).ok


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_integers_are_compared_exactly(dtype):
    value = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert compare(value.clone(), expected(value), 1).ok
    assert not compare(1 - value.to(torch.int64).to(dtype) if dtype != torch.bool else ~value, expected(value), 1).ok


def test_a_byte_that_is_no_bool_is_wrong():
    got = torch.tensor([0xA5, 1], dtype=torch.uint8).view(torch.bool)
    assert not compare(got, expected(torch.tensor([True, True])), 1).ok


def test_large_integers_are_not_rounded():
    value = torch.tensor([(1 << 60) + 1])
    assert not compare(value - 1, expected(value), 1).ok


@settings(deadline=None)
@given(st.sampled_from([torch.float16, torch.float32, torch.float64]), st.integers(0, 6), st.integers(1, 1 << 20))
def test_a_bound_is_a_share_of_the_element_and_of_its_spread(dtype, power, reduction):
    torch.manual_seed(1)
    value = torch.randn(100, dtype=torch.float64).to(dtype)
    spread = torch.rand(100) * 0.01
    one = bounds(Expected(value, None, spread), reduction)
    two = bounds(Expected(value * 2.0**power, None, spread * 2**power), reduction)
    assert bool((two <= 2.0**power * one * (1 + 1e-12)).all())
    assert bool((one >= 2 * spread).all())
    share = relative_tolerance(tensor_views.NAMES[dtype], reduction)
    rest = max(near_one(tensor_views.NAMES[dtype]), floor(tensor_views.NAMES[dtype]))
    assert bool((one <= (share * value.double().abs() + 2 * spread.double() + rest) * (1 + 1e-12)).all())


def test_the_tolerance_never_shrinks_with_the_reduction_and_stays_below_that_of_kernelbench():
    shares = [relative_tolerance("float32", 4**power) for power in range(20)]
    assert shares == sorted(shares)
    assert shares[0] < 1e-4 == shares[-1]
    assert relative_tolerance("float32", 1 << 14) == pytest.approx(2.0**-23 * (512 + 256))


def test_an_fp64_run_that_computes_something_else_is_not_trusted():
    value = torch.randn(50)
    assert compare(value.clone(), expected(value, value.double() + 1.0), 1).ok


def test_complex_and_empty_tensors_compare():
    value = torch.randn(5, dtype=torch.complex64)
    assert compare(value.clone(), expected(value), 1).ok
    assert not compare(value.conj().resolve_conj(), expected(value), 1).ok
    assert compare(torch.empty(0), expected(torch.empty(0)), 1).ok


# --- part by part ---

DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]
SPECIAL = [math.nan, math.inf, -math.inf]


@st.composite
def outputs(draw):
    """An output and what was expected, with errors of all sizes and special values at places of both."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    exact = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    known = draw(st.booleans()) and dtype.is_floating_point
    value, got = exact.clone().to(dtype), exact.clone().to(dtype)
    places = st.integers(0, exact.numel() - 1)
    for tensor in (got, value):
        if dtype.is_floating_point or dtype.is_complex:
            for place in draw(st.lists(places, max_size=3)):
                tensor.view(-1)[place] = draw(st.sampled_from(SPECIAL))
    for place in draw(st.lists(places, max_size=4)):
        error = draw(st.sampled_from([1e-7, 1e-3, 1.0, 4.0])) if dtype.is_floating_point else 1
        got.view(-1)[place] = ~got.view(-1)[place] if dtype == torch.bool else got.view(-1)[place] + error
    if draw(st.integers(0, 9)) == 0:
        exact = exact + 100.0
    if draw(st.booleans()) and got.dim() > 1:
        got, value, exact = (tensor.transpose(0, 1) for tensor in (got, value, exact))
    spread = torch.rand(value.shape, generator=generator) * draw(st.sampled_from([0.0, 1e-6, 2.0]))
    spread = spread.double() if value.dtype == torch.int64 else spread
    return got, Expected(value, exact if known else None, spread if draw(st.booleans()) else None)


def facts(comparison):
    """What a comparison says; NaN is equal to NaN here."""
    return [str(fact) for fact in vars(comparison).values()]


def flat(expected, *_):
    return expected if expected.value.numel() == 1 else expected.changed(torch.Tensor.flatten)


@settings(deadline=None)
@given(outputs(), st.integers(1, 12))
def test_parts_amount_to_the_whole(output, part):
    with pytest.MonkeyPatch.context() as patch:
        # What is found from a sample is found from all here, of which the next test tells.
        patch.setattr("warpsmith.evaluator.correctness.compare.sampled", flat)
        whole = compare(*output, 4.0)
        patch.setattr("warpsmith.evaluator.correctness.compare.PART", part)
        assert facts(compare(*output, 4.0)) == facts(whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.int32, torch.bool])
@pytest.mark.parametrize("known", [False, True])
def test_a_large_output_is_judged_as_a_small_one(dtype, known, monkeypatch):
    torch.manual_seed(0)
    exact = torch.randn(100, 70, dtype=torch.float64)
    wanted = expected(exact.to(dtype), exact if known and dtype.is_floating_point else None)
    monkeypatch.setattr("warpsmith.evaluator.correctness.compare.PART", 512)
    assert compare(wanted.value.clone(), wanted, 1).ok
    wrong = wanted.value.clone()
    wrong[93, 41] = wrong[93, 41] + 1 if dtype != torch.bool else ~wrong[93, 41]
    wrong[12, 3] = wrong[12, 3] + 2 if dtype != torch.bool else ~wrong[12, 3]
    found = compare(wrong, wanted, 1)
    assert (found.ok, found.mismatched, found.total) == (False, 2, 14000 if dtype.is_complex else 7000)
    assert found.where == ((12, 3, 0) if dtype.is_complex else (12, 3))


def test_whether_the_fp64_run_is_trusted_holds_for_all_parts(monkeypatch):
    """One constant of its own dtype in one row: the fp64 run computed something else, also where it is near."""
    value = torch.linspace(1, 2, 4096).reshape(64, 64)
    exact = value.double() + 1e-3
    exact[::2] += 50.0
    assert compare(value.clone(), expected(value, exact), 1).ok
    monkeypatch.setattr("warpsmith.evaluator.correctness.compare.PART", 64)
    assert compare(value.clone(), expected(value, exact), 1).ok


def test_an_error_that_no_part_can_measure_hides_none(monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.correctness.compare.PART", 2)
    value = torch.ones(6)
    for places in ([0, 1], [2, 3], [4, 5]):
        got = value + 0.5
        got[places] = math.nan
        found = compare(got, expected(value), 1)
        assert (found.max_abs_error, found.mismatched, found.where) == (0.5, 6, (places[0],))
    assert math.isnan(compare(torch.full((6,), math.nan), expected(value), 1).max_abs_error)


ODD = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 6e4])
NUMBERS = st.floats(-4, 4, width=16) | ODD
NUDGES = st.sampled_from([0.0, 0.0, 0.0, 1e-13, 1e-9, 3e-6, 1e-4, 1.01e-4, 1e-2, 0.5, math.nan, math.inf])


@st.composite
def judged_outputs(draw):
    """An output, what was expected, with or without an fp64 run that may be another computation, and a reduction."""
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64]))
    count = draw(st.integers(1, 12))

    def some(values):
        return torch.tensor(draw(st.lists(values, min_size=count, max_size=count)), dtype=torch.float64)

    truth, scale = some(NUMBERS), draw(st.sampled_from([1.0, 1e-3, 1e3]))
    value, got = (truth * scale * (1 + some(NUDGES)) for _ in range(2))
    wide = (value if draw(st.booleans()) else truth * scale * (1 + some(NUDGES))).double()
    exact = wide if draw(st.booleans()) and not dtype.is_complex else None
    spread = some(st.sampled_from([0.0, 1e-9, 1e-5, 1e-2])).abs() * scale if draw(st.booleans()) else None
    return got.to(dtype), Expected(value.to(dtype), exact, spread), draw(st.sampled_from([1.0, 300.0, 1e6]))


@st.composite
def noisy_outputs(draw):
    """As above, with noise of any size on the reference and on the output, each on a share of the elements."""
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.float64]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    count, edge = draw(st.integers(1, 40)), RELATIVE[tensor_views.NAMES[dtype]]

    def noise():
        some = torch.rand(count, generator=generator) < draw(st.sampled_from([0.1, 0.5, 1.0]))
        size = draw(
            st.floats(-12, 0).map(lambda power: 10.0**power) | st.floats(0.1, 4.0).map(lambda part: part * edge)
        )
        return torch.where(some, size * torch.randn(count, generator=generator, dtype=torch.float64), 0.0)

    tail = draw(st.sampled_from([0.0, 1.0, 6.0]))
    truth = torch.randn(count, generator=generator, dtype=torch.float64)
    truth *= torch.exp(tail * torch.randn(count, generator=generator, dtype=torch.float64))
    truth[torch.rand(count, generator=generator) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    value, exact = truth + noise() * truth.abs().amax(), truth.clone()
    exact[torch.rand(count, generator=generator) < draw(st.sampled_from([0.0, 0.3]))] = math.nan
    got = value * (1 + noise()) + noise() * truth.abs().amax()
    spread = (noise() * truth).abs() if draw(st.booleans()) else None
    wanted = Expected(value.to(dtype), exact if draw(st.booleans()) else None, spread)
    return got.to(dtype), wanted, draw(st.sampled_from([1.0, 300.0, 1e6]))


def wide(tensor):
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def plain_bounds(wanted, reduction):
    """What each element may be off, and the best known values: number by number, without a tensor."""
    name = tensor_views.NAMES[wanted.value.dtype]
    parts = 2 if wanted.value.is_complex() else 1
    relative = relative_tolerance(name, reduction)
    value = wide(wanted.value).flatten().tolist()
    known = torch.zeros(wanted.value.numel()) if wanted.spread is None else wanted.spread.double()
    spread = known.repeat_interleave(parts).tolist()
    exact = value if wanted.exact is None else wide(wanted.exact).flatten().tolist()
    both = [
        n for n, (one, two) in enumerate(zip(value, exact, strict=True)) if math.isfinite(one) and math.isfinite(two)
    ]
    scale = math.sqrt(math.fsum(exact[n] ** 2 for n in both) / len(exact))
    far = [
        n for n in both if abs(value[n] - exact[n]) > 100 * relative * max(abs(exact[n]), scale, 1e-12) + 2 * spread[n]
    ]
    trusted = len(far) <= len(both) / 16
    truth = [exact[n] if trusted and n in both else one for n, one in enumerate(value)]
    own = [abs(value[n] - one) if math.isfinite(value[n]) else 0.0 for n, one in enumerate(truth)]
    usual = math.fsum(abs(one) for one in truth if math.isfinite(one)) / len(truth)
    absolute = near_one(name) * min(usual, 1.0)
    if wanted.spread is None:
        sizes = sorted(abs(one) for one in truth if one and math.isfinite(one))
        low = sizes[max(math.ceil(0.25 * len(sizes)), 1) - 1] if sizes else 0.0
        absolute = min(max(absolute, relative * low), relative * usual)
    absolute = max(absolute, floor(name))
    factor = 4 if wanted.spread is None else 2
    found = [relative * abs(t) + factor * o + 2 * s + absolute for t, o, s in zip(truth, own, spread, strict=True)]
    return found, truth


@settings(max_examples=400, deadline=None)
@given(judged_outputs() | noisy_outputs())
def test_one_wait_tells_what_many_do_and_a_plain_reckoning_does(judged):
    got, wanted, reduction = judged
    whole = compare(got, wanted, reduction)
    largest = largest_error_if_right(got, wanted, reduction)
    assert (largest is not None) == whole.ok
    if largest is not None:
        assert largest == whole.max_abs_error or (math.isnan(largest) and math.isnan(whole.max_abs_error))
    found, truth = plain_bounds(wanted, reduction)
    finite = [n for n, one in enumerate(truth) if math.isfinite(one)]
    reported = bounds(wanted, reduction).flatten().tolist()
    assert [reported[n] for n in finite] == [pytest.approx(found[n], rel=1e-9) for n in finite]
    worst = 0.0
    results, values = (wide(part).flatten().tolist() for part in (got, wanted.value))
    for one, value, best, bound in zip(results, values, truth, found, strict=True):
        if not math.isfinite(value):
            worst = max(worst, 0.0 if one == value or (math.isnan(one) and math.isnan(value)) else math.inf)
        elif not math.isfinite(one):
            worst = math.inf
        else:
            worst = max(worst, abs(one - best) / bound)
    # On the very edge the last bit of a sum decides.
    assert abs(worst - 1) < 1e-9 or whole.ok == (worst <= 1)


@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("factor", [1.0, 1.00005, 1.002])
def test_one_wait_tells_it_of_honest_and_of_lossy_outputs(name, known, factor):
    torch.manual_seed(1)
    x = torch.randn(64, 256)
    reference, rewrite = REWRITES[name]
    wanted = expected(reference(x), reference(x.double()) if known else None)
    got = rewrite(x) * factor
    whole, largest = compare(got, wanted, 256), largest_error_if_right(got, wanted, 256)
    assert (None if largest is None else largest) == (whole.max_abs_error if whole.ok else None)


@pytest.mark.parametrize("shape", [(7, 3), (2049, 2049)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_one_number_for_all_elements_agrees_as_if_it_were_written_out(shape, dtype):
    ones = torch.ones(shape, dtype=dtype)
    other = ones.clone()
    other[-1, -1] = 0
    for number in (0, 1):
        one = torch.tensor(number, dtype=dtype).expand(shape)
        for value in (ones, other):
            expected = Expected(value, None)
            found = agrees(one, expected, 1.0)
            assert found == agrees(one.contiguous(), expected, 1.0) == torch.equal(one, value)
