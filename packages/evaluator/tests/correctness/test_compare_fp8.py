import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.correctness import compare_fp8
from warpsmith.evaluator.correctness.compare import Expected, agrees, compare, largest_error_if_right
from warpsmith.evaluator.correctness.compare_fp8 import MOST_FLIPPED, allowed, beyond_a_step, one_step_nearer

FORMATS = sorted(compare_fp8.FORMATS, key=str)
each_format = pytest.mark.parametrize("dtype", FORMATS, ids=str)
formats = st.sampled_from(FORMATS)
seeds = st.integers(0, 1 << 30)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    most = torch.finfo(dtype).max
    return x.clamp(-most, most).to(dtype)


def truncated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Cast towards zero: the nearest number, or the one below where that is the larger."""
    near = cast(x, dtype)
    sizes = near.view(torch.uint8) & 0x7F
    larger = near.float().abs() > x.abs()
    return torch.where(larger & (sizes > 1), near.view(torch.uint8) - 1, near.view(torch.uint8)).view(dtype)


def codes(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)


def share(one: torch.Tensor, two: torch.Tensor) -> float:
    return float((one.float() != two.float()).double().mean())


@each_format
def test_a_step_leads_to_the_next_number_of_the_format(dtype):
    numbers = codes(dtype)
    numbers = numbers.view(torch.uint8)[torch.isfinite(numbers.float())].view(dtype)
    line = sorted(set(numbers.float().tolist()))
    at = [line.index(one) for one in numbers.float().tolist()]
    for got, place in zip(numbers, at, strict=True):
        rows = got.view(torch.uint8).expand(len(at)).contiguous().view(dtype)
        nearer = [line[place + (other > place) - (other < place)] for other in at]
        assert one_step_nearer(rows, numbers).tolist() == nearer
        assert beyond_a_step(rows, numbers).tolist() == [abs(other - place) > 1 for other in at]


@each_format
def test_among_many_right_numbers_one_may_be_a_step_off_and_none_two(dtype):
    value = cast(drawn(0, 64, 64), dtype)
    for steps, right in ((1, True), (2, False), (3, False)):
        got = value.clone()
        bits = got.view(torch.uint8)
        place = int((value.float() - 1.0).abs().argmin())
        bits.view(-1)[place] += steps
        assert compare(got, Expected(value, None), 1.0).ok is right
        assert (largest_error_if_right(got, Expected(value, None), 1.0) is not None) is right


@each_format
def test_numbers_near_zero_have_no_wider_bound(dtype):
    """Flushing what is below 0.4 to zero passed when the floor was four roundings of one in fp8."""
    value = cast(100 * drawn(1, 64, 64), dtype)
    got = torch.where(value.float().abs() < 0.4, torch.zeros_like(value.view(torch.uint8)), value.view(torch.uint8))
    found = compare(got.view(dtype), Expected(value, None, torch.zeros(64, 64)), 1.0)
    assert not found.ok
    more_than_a_step = (value.view(torch.uint8) & 0x7F) > 1
    assert found.mismatched == int(((value.float().abs() < 0.4) & more_than_a_step).sum())


@settings(max_examples=60, deadline=None)
@given(formats, seeds, st.integers(6, 13), st.integers(-3, 5))
def test_truncation_is_distinguished_from_rounding(dtype, seed, power, scale):
    x = drawn(seed, 1 << power) * 2.0**scale
    value, got = cast(x, dtype), truncated(x, dtype)
    normal = value.float().abs() >= torch.finfo(dtype).tiny
    wanted = Expected(value, None, torch.zeros(x.shape))
    assert compare(value.clone(), wanted, 1.0).ok
    found = compare(got, wanted, 1.0)
    if share(got, value) > 0.4 and normal.double().mean() > 0.9:
        assert not found.ok
        assert found.flipped == str(dtype).removeprefix("torch.")
        assert f"({share(got, value):.2%}) are the {found.flipped} number next to" in found.message
    assert found.ok == agrees(got, wanted, 1.0) == (largest_error_if_right(got, wanted, 1.0) is not None)


QUANTISERS = {
    "a product with the reciprocal": lambda x, largest, most: x * (1 / (largest / most)),
    "a product with the inverse scale": lambda x, largest, most: x * (most / largest),
    "a division first": lambda x, largest, most: x / largest * most,
    "fp64": lambda x, largest, most: (x.double() / (largest.double() / most)).float(),
}


@settings(max_examples=60, deadline=None)
@given(formats, seeds, st.sampled_from([(1, 4096), (64, 64), (512, 8)]), st.sampled_from(sorted(QUANTISERS)))
def test_quantisers_that_round_otherwise_in_single_precision_agree(dtype, seed, shape, name):
    x, most = drawn(seed, *shape), torch.finfo(dtype).max
    largest = x.abs().amax(1, keepdim=True)
    value, got = cast(x / (largest / most), dtype), cast(QUANTISERS[name](x, largest, most), dtype)
    assert share(got, value) <= 2e-3
    assert compare(got, Expected(value, None, torch.zeros(shape)), 1.0).ok


HALVES = {
    "a cast": (lambda x, y: x.bfloat16(), lambda x, y: x),
    "a gate": (
        lambda x, y: torch.nn.functional.silu(y.bfloat16()) * x.bfloat16() * 0.7,
        lambda x, y: torch.nn.functional.silu(y) * x * 0.7,
    ),
    "a scale of all": (
        lambda x, y: x.bfloat16() / (x.bfloat16().abs().amax() / 448),
        lambda x, y: x / (x.abs().amax() / 448),
    ),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("seed", range(3))
def test_what_leaves_out_roundings_to_bfloat16_agrees(name, seed):
    """E4m3 flips more than e5m2: its steps are half as wide."""
    x, y = (drawn(2 * seed + one, 256, 128).bfloat16().float() * 1.1 for one in (0, 1))
    rounded, plain = HALVES[name]
    value, got = (cast(one(x, y).float(), torch.float8_e4m3fn) for one in (rounded, plain))
    assert 0.005 < share(got, value) < MOST_FLIPPED - 0.04
    assert not (beyond_a_step(got, value).any())
    for few in (64, 512, x.numel()):
        assert compare(got.flatten()[:few], Expected(value.flatten()[:few], None, torch.zeros(few)), 1.0).ok


def test_equal_numbers_before_the_cast_count_once():
    """Numbers of a grid, or of constant rows, flip together: a few of them make a large share of the elements."""
    numbers = torch.linspace(0.5, 8.0, 60).repeat_interleave(100)
    numbers = torch.cat([numbers, torch.full((4000,), 3.0)])
    value = cast(numbers, torch.float8_e4m3fn)
    bits = value.view(torch.uint8)
    got = torch.where(numbers == 3.0, bits + 1, bits).view(torch.float8_e4m3fn)
    assert share(got, value) > MOST_FLIPPED
    assert compare(got, Expected(value, None), 1.0).ok
    assert not compare((bits + 1).view(torch.float8_e4m3fn), Expected(value, None), 1.0).ok


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_truncation_of_numbers_on_a_grid_is_distinguished_from_rounding(dtype, seed):
    """Half of the expected numbers are exact there, so that counted by number few differ."""
    quarters = (drawn(seed, 64, 64) * 64).round().clamp(-128, 127) * 0.25
    even = torch.randint(-128, 128, (64, 64), generator=torch.Generator().manual_seed(seed)).float() * 0.25
    for x in (quarters, even):
        value = cast(x, dtype)
        assert compare(value.clone(), Expected(value, None), 1.0).ok
        assert not compare(truncated(x, dtype), Expected(value, None), 1.0).ok
        assert largest_error_if_right(truncated(x, dtype), Expected(value, None), 1.0) is None


@each_format
def test_elements_that_perturbed_runs_change_do_not_count_and_may_differ_by_as_much(dtype):
    value = cast(1 + drawn(3, 4096).abs(), dtype)
    bits, apart = value.view(torch.uint8), torch.zeros(4096)
    apart[:2048] = 0.5
    got = torch.cat([bits[:2048] + 1, bits[2048:]]).view(dtype)
    assert compare(got, Expected(value, None, apart), 1.0).ok
    assert not compare(got, Expected(value, None, torch.zeros(4096)), 1.0).ok
    # The run in fp64 rounds as the candidate does: it is one of the perturbed runs, unless it computed something else.
    exact = (value.float() * (1 + 2.0**-9)).double()
    few = torch.cat([bits[:200] + 1, bits[200:]]).view(dtype)
    exact[:200] = few[:200].double()
    assert compare(few, Expected(value, exact, torch.zeros(4096)), 1.0).ok
    far = exact.clone()
    far[:1024] = 8 * far[:1024]
    got = torch.cat([cast(far[:1024].float(), dtype).view(torch.uint8), bits[1024:]]).view(dtype)
    assert not compare(got, Expected(value, far, torch.zeros(4096)), 1.0).ok


@each_format
def test_nan_and_infinities_stand_where_the_reference_has_them(dtype):
    value = codes(dtype)
    assert compare(value.clone(), Expected(value, None), 1.0).ok
    special = (~torch.isfinite(value.float())).nonzero().flatten().tolist()
    for place in special:
        got = value.clone()
        got.view(torch.uint8)[place] = 1
        assert not compare(got, Expected(value, None), 1.0).ok
        for finite in (0, 0x7B):
            got = value.clone()
            got.view(torch.uint8)[finite] = place
            assert not compare(got, Expected(value, None), 1.0).ok


def test_of_few_elements_more_may_differ():
    assert [math.floor(allowed(count)) for count in (0, 1, 8, 64, 4096)] == [0, 1, 4, 16, 579]


def test_a_large_output_is_compared_in_parts(monkeypatch):
    monkeypatch.setattr("warpsmith.evaluator.correctness.compare.PART", 1024)
    x = drawn(5, 64, 64)
    value = cast(x, torch.float8_e5m2)
    got = value.clone()
    got[60, 1] = 2.0 * value[60, 1].float() + 1.0
    found = compare(got, Expected(value, None), 1.0)
    assert (found.where, found.mismatched, found.flipped) == ((60, 1), 1, "")
    found = compare(truncated(x, torch.float8_e5m2), Expected(value, x.double()), 1.0)
    assert (found.ok, found.flipped) == (False, "float8_e5m2")


def test_the_range_that_a_set_must_decide():
    value = cast(drawn(6, 1024), torch.float8_e4m3fn)
    assert Expected(value, None, torch.zeros(1024)).decidable == 1.0
    assert Expected(value, None, 2 * value.float().abs()).decidable < 0.1
