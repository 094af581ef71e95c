"""libdevice's `fast_` functions: any result within the bound of a chip's instruction, none beyond it."""

import math

import numpy as np
import pytest

from warpsmith.evaluator.languages.triton.interpreter import approximations
from warpsmith.evaluator.languages.triton.interpreter.chip_numerics import ChipDiffersError
from warpsmith.evaluator.languages.triton.interpreter.libdevice import compute

FLOAT = np.dtype(np.float32)
ANGLES = np.linspace(-6.28, 6.28, 4001, dtype=np.float32)
POSITIVE = np.geomspace(1e-30, 1e30, 4001, dtype=np.float32)


def fast(name, *arguments):
    return compute(f"__nv_fast_{name}", [np.asarray(values, dtype=np.float32) for values in arguments], FLOAT)


@pytest.mark.parametrize(("name", "exact"), [("sinf", np.sin), ("cosf", np.cos)])
def test_a_sine_lies_within_its_bound_and_not_on_the_sine(name, exact):
    error = np.abs(fast(name, ANGLES) - exact(ANGLES.astype(np.float64)))
    rounding = 2.0**-24
    assert 2.0**-21.5 < error.max() <= 2.0**-20.5 + rounding
    assert fast(name, [0.0]) == np.float32(exact(0.0))


@pytest.mark.parametrize("name", ["sinf", "cosf", "tanf"])
def test_an_angle_beyond_two_pi_is_undecided(name):
    fast(name, [6.28, -6.28, np.inf, np.nan])
    for beyond in (6.29, -400.0, 8000.0):
        with pytest.raises(ChipDiffersError, match="2 pi"):
            fast(name, [0.0, beyond])


def test_a_tangent_is_as_inexact_as_its_sine_and_cosine():
    near_pole = np.full(64, math.pi / 2 - 1e-3, dtype=np.float32) + np.arange(64, dtype=np.float32) * np.float32(1e-5)
    error = np.abs(fast("tanf", near_pole) / np.tan(near_pole.astype(np.float64)) - 1)
    assert 1e-5 < error.max() < 2e-2


def test_a_logarithm_near_one_has_few_digits():
    x = np.float32(1) + np.linspace(1e-4, 1e-3, 501, dtype=np.float32)
    error = np.abs(fast("log2f", x) - np.log2(x.astype(np.float64)))
    assert 2.0**-23 < error.max() <= 2.0**-22 + 2.0**-32
    assert fast("logf", [1.0]) == 0.0
    far = np.abs(fast("log2f", POSITIVE) / np.log2(POSITIVE.astype(np.float64)) - 1)[np.abs(np.log(POSITIVE)) > 1]
    assert far.max() <= 2.0**-22 + 2.0**-24


def test_logarithms_are_products_of_the_binary_one():
    binary = fast("log2f", POSITIVE)
    assert fast("logf", POSITIVE).tobytes() == (binary * np.float32(math.log(2))).tobytes()
    assert fast("log10f", POSITIVE).tobytes() == (binary * np.float32(math.log10(2))).tobytes()


@pytest.mark.parametrize(("name", "base"), [("expf", math.e), ("exp10f", 10.0)])
def test_an_exponential_has_the_error_of_its_rounded_product(name, base):
    x = np.linspace(-30, 30, 4001, dtype=np.float32)
    product = x * np.float32(math.log2(base))
    error = np.abs(fast(name, x) / np.exp2(product.astype(np.float64)) - 1)
    assert 2.0**-23 < error.max() <= 2.0**-21.4
    assert fast(name, [0.0, -np.inf, np.inf]).tolist() == [1.0, 0.0, np.inf]


def test_a_power_is_made_of_a_logarithm_and_an_exponential():
    found = fast("powf", [2.0, 4.0, -2.0, 0.0, 0.0, 1.0], [3.0, 0.5, 2.0, 0.0, 2.0, 1e30])
    np.testing.assert_allclose(found, [8.0, 2.0, np.nan, np.nan, 0.0, 1.0], rtol=1e-6)
    large = fast("powf", np.full(64, 1.7) + np.arange(64) * 1e-3, np.full(64, 150.0))
    exact = (np.full(64, 1.7) + np.arange(64) * 1e-3).astype(np.float32).astype(np.float64) ** 150
    assert 1e-6 < np.abs(large / exact - 1).max() < 1e-4


def test_a_quotient_is_zero_where_the_divisor_is_huge():
    """As an H100 has it."""
    found = fast("fdividef", [3e38, 3e38, 1.0, -1.0, np.inf, 1.0], [3e38, -3e38, np.inf, 2.0, 3e38, 1e-40])
    assert found[:4].tobytes() == np.array([0.0, -0.0, 0.0, -0.5], dtype=np.float32).tobytes()
    assert np.isnan(found[4])
    assert found[5] == np.inf
    exact = 1e-5 / POSITIVE.astype(np.float64)
    error = np.abs(fast("fdividef", np.full_like(POSITIVE, 1e-5), POSITIVE) / exact - 1)
    assert 2.0**-23 < error.max() <= 2.0**-21.4


def test_the_same_number_gives_the_same_result_and_another_key_another(monkeypatch):
    one = fast("sinf", ANGLES)
    assert one.tobytes() == fast("sinf", ANGLES[::-1])[::-1].tobytes()
    monkeypatch.setattr(approximations, "process_key", lambda: 7)
    other = fast("sinf", ANGLES)
    assert (one != other).mean() > 0.8


def test_denormals_are_flushed_by_the_instructions_and_not_by_the_products_between_them():
    """As an H100 has it: 0 to the power of a denormal is 0, for its logarithm is infinite."""
    assert fast("log2f", [1e-40]) == -np.inf
    assert fast("powf", [0.0], [1e-40]) == 0.0
    assert fast("sinf", [1e-40]).tobytes() == np.zeros(1, dtype=np.float32).tobytes()
    assert fast("expf", [-88.0]) == 0.0
