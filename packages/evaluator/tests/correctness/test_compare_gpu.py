"""The one pass over a large output on a GPU finds what the comparison part by part does, and leaves the rest to it."""

import math
import warnings

import pytest
import torch

from warpsmith.evaluator.correctness import compare
from warpsmith.evaluator.correctness.compare import Expected
from warpsmith.evaluator.correctness.compare_gpu import Factors, largest_error_if_near
from warpsmith.evaluator.devices.cuda import CudaDevice
from warpsmith.evaluator.devices.cuda_health import probe_device

pytestmark = pytest.mark.gpu

COUNT = compare.LARGE + 77
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@pytest.fixture(autouse=True)
def _on_a_device(gpu):
    """All of it needs a GPU."""


def numbers(dtype, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(COUNT, generator=generator, dtype=torch.float64, device="cuda").to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_exact", [False, True])
def test_the_largest_error_of_what_is_near_is_that_of_double_precision(dtype, with_exact):
    value = numbers(dtype)
    exact = value.double() * (1 + 1e-12) if with_exact else None
    got = value.clone()
    got[COUNT // 2] = got[COUNT // 2] * (1 + 2 * torch.finfo(dtype).eps)
    found = largest_error_if_near(got, value, exact, None, Factors(2e-2, absolute=1e-3))
    truth = value.double() if exact is None else exact
    assert found == pytest.approx(float((got.double() - truth).abs().max()), rel=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e4])
@pytest.mark.parametrize("with_exact", [False, True])
def test_one_wrong_element_is_not_near_wherever_it_stands(dtype, wrong, with_exact):
    value = numbers(dtype)
    for place in (0, COUNT // 3, COUNT - 1):
        got = value.clone()
        got[place] = wrong
        exact = value.double() if with_exact else None
        assert largest_error_if_near(got, value, exact, torch.ones_like(value), Factors(1e-2, 1e-3, 1.0, 1e-3)) is None
        assert not compare.compare(got, Expected(value, None), 1.0).ok


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_that_belong_there_are_left_to_the_comparison_which_accepts_them(dtype):
    value = numbers(dtype)
    value[5] = -math.inf
    assert largest_error_if_near(value, value, None, None, Factors(1e-2, absolute=1e-3)) is None
    assert compare.compare(value.clone(), Expected(value, None), 1.0).ok


def test_what_fails_in_a_part_need_not_be_seen_whole():
    value = numbers(torch.float32)
    assert compare.agrees(value.clone(), Expected(value, value.double()), 1.0)
    assert not compare.agrees(torch.zeros_like(value), Expected(value, None), 1.0)
    rare = value.clone()
    rare[1] = 100.0
    assert not compare.agrees(rare, Expected(value, None), 1.0)


def test_a_device_that_works_passes_its_probe():
    assert probe_device(CudaDevice().torch_device) == ""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_exact", [False, True])
@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_each_element_has_its_own_bound(dtype, with_exact, factor):
    value = numbers(dtype).abs() + 1
    exact = value.double() * (1 + 1e-7) if with_exact else None
    spread = torch.rand(COUNT, device="cuda") + 0.5
    wanted = Expected(value, exact, spread)
    got = value.double().clone()
    places = torch.tensor([0, COUNT // 2, COUNT - 1], device="cuda")
    bound = compare.bounds(Expected(*(None if one is None else one[places] for one in (value, exact, spread))), 1.0)
    truth = value.double() if exact is None else exact
    got[places] = truth[places] + factor * bound
    found = compare.compare(got.to(dtype), wanted, 1.0)
    assert found.ok is (factor < 1)
    assert found.ok or found.mismatched == 3


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 0.9995, 1.0005, 1.01, 3.0])
def test_near_the_bound_it_is_judged_as_double_precision_has_it(factor, monkeypatch):
    value = torch.linspace(-3, 3, 4001, device="cuda")
    got = value * (1 + factor * 1e-4)
    found = []
    for large in (1 << 22, 1000):
        monkeypatch.setattr(compare, "LARGE", large)
        found.append(compare.compare(got, Expected(value, None), 1.0))
    slow, quick = found
    assert (quick.ok, quick.mismatched, quick.where) == (slow.ok, slow.mismatched, slow.where)
    assert quick.max_abs_error == pytest.approx(slow.max_abs_error, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("factor", [1.0, 1.00003, 1.5])
def test_a_small_output_is_compared_with_one_wait_and_as_on_the_host(dtype, factor):
    truth = numbers(torch.float64)[:100_003]
    got, wanted = (truth * factor).to(dtype), Expected(truth.to(dtype), truth)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            largest = compare.largest_error_if_right(got, wanted, 100.0)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len([one for one in said if "called a synchronizing CUDA operation" in str(one.message)]) == 1
    there = compare.compare(got.cpu(), Expected(wanted.value.cpu(), truth.cpu()), 100.0)
    assert (largest is not None) == there.ok == (factor < 1.5)
    assert largest is None or largest == pytest.approx(there.max_abs_error, rel=1e-12)
