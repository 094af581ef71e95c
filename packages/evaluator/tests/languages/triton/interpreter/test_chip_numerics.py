"""Floating-point numbers of which the interpreter must not tell that it is no chip."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import chip_numerics, libdevice
from warpsmith.evaluator.languages.triton.interpreter.chip_numerics import ChipDiffersError

FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")]
TINY = np.float32(1e-40)


def handle(values, dtype=np.float32, kind=tl.float32):
    return interpreter.TensorHandle(np.array(values, dtype=dtype), kind)


@pytest.fixture
def chip(monkeypatch):
    """The interpreter's operations as `install` leaves them; what they were before comes back after the test."""
    for changed in (interpreter.InterpreterBuilder, interpreter.ReduceOps):
        for name, held in vars(changed).copy().items():
            if not name.startswith("__"):
                monkeypatch.setattr(changed, name, held)
    chip_numerics.install()
    return interpreter.InterpreterBuilder()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_nan_gets_any_sign_and_payload_and_other_numbers_none(dtype):
    values = np.array([1.0, -0.0, np.inf, -np.inf, *[np.nan] * 64], dtype=dtype)
    found = chip_numerics.blurred(values, np.random.default_rng(0))
    assert found[:4].tobytes() == values[:4].tobytes()
    assert np.isnan(found[4:]).all()
    assert set(np.signbit(found[4:])) == {True, False}
    assert len({number.tobytes() for number in found[4:]}) > 32
    assert chip_numerics.sharp(found) == chip_numerics.sharp(values)
    assert chip_numerics.sharp(values) != chip_numerics.sharp(np.zeros_like(values))
    assert chip_numerics.blurred(values[:4], np.random.default_rng(0)) is not None


def test_numbers_without_nan_and_integers_are_left_alone():
    for values in (np.array([1.0, 2.0], dtype=np.float32), np.array([-1], dtype=np.int32)):
        assert chip_numerics.blurred(values, np.random.default_rng(0)) is values


def test_looking_at_the_bits_of_a_nan_is_undecided(chip):
    assert chip.create_bitcast(handle([-0.0]), tl.int32).data[0] == np.int32(-(2**31))
    assert chip.create_bitcast(handle([np.nan], kind=tl.float32), tl.float32).data.dtype == np.float32
    with pytest.raises(ChipDiffersError, match="bits of a NaN"):
        chip.create_bitcast(handle([1.0, np.nan]), tl.int32)


@pytest.mark.parametrize("symbol", ["float_as_int", "signbitf", "copysignf"])
def test_so_is_looking_by_the_device_library(symbol):
    plain = [np.array([1.0], dtype=np.float32)] * (2 if "copy" in symbol else 1)
    dtype = np.dtype(np.float32 if "copy" in symbol else np.int32)
    libdevice.compute(f"__nv_{symbol}", plain, dtype)
    with pytest.raises(ChipDiffersError):
        libdevice.compute(f"__nv_{symbol}", [*plain[:-1], np.array([np.nan], dtype=np.float32)], dtype)


def test_denormals_become_zeros_of_their_sign_where_a_chip_flushes_them(chip):
    found = chip_numerics.flushed(np.array([TINY, -TINY, 1.0, np.nan, np.inf], dtype=np.float32))
    assert found.tobytes() == np.array([0.0, -0.0, 1.0, np.nan, np.inf], dtype=np.float32).tobytes()
    wide = np.array([1e-310])
    assert chip_numerics.flushed(wide) is wide
    assert chip.create_floor(handle([-TINY])).data[0] == 0.0
    assert chip.create_exp2(handle([-130.0])).data[0] == 0.0
    assert libdevice.compute("__nv_exp2f", [np.array([-130.0], dtype=np.float32)], np.dtype(np.float32))[0] == 0.0


@pytest.mark.parametrize(("symbol", "number"), [("expf", -90.0), ("exp10f", -39.0), ("logf", 1e-40), ("log2f", 1e-45)])
def test_the_exponential_and_the_logarithm_of_the_device_library_keep_denormals(symbol, number):
    """As an H100 has it."""
    x = np.array([number], dtype=np.float32)
    exact = {"expf": np.exp, "exp10f": lambda v: 10.0**v, "logf": np.log, "log2f": np.log2}[symbol](
        x.astype(np.float64)
    )
    np.testing.assert_allclose(libdevice.compute(f"__nv_{symbol}", [x], np.dtype(np.float32)), exact, rtol=1e-5)


def test_where_other_code_of_the_library_meets_denormals_they_are_kept_or_not_or_it_is_undecided():
    tail = np.array([10.0], dtype=np.float32)
    found = {float(libdevice.compute("__nv_erfcf", [tail], np.dtype(np.float32))[0]) for _ in range(64)}
    assert len(found) == 2
    assert 0.0 in found
    with pytest.raises(ChipDiffersError, match="2\\^-126"):
        libdevice.compute("__nv_powf", [np.array([v], dtype=np.float32) for v in (1e-40, 0.5)], np.dtype(np.float32))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (1.2345e20, 3.0, -4.398047e12),
        (1.2345e20, -1.0, 0.0),
        (5.5, 2.0, 1.5),
        (-5.5, 2.0, -1.5),
        (-0.0, 1.0, 0.0),
        (3.0, np.inf, 3.0),
        (np.inf, 3.0, np.nan),
        (1.0, 0.0, np.nan),
        (1e-45, 3.0, 1e-45),
    ],
)
def test_a_remainder_is_made_of_a_quotient_as_an_h100_has_it(x, y, expected, chip):
    found = chip.create_frem(handle([x]), handle([y])).data
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.float32(expected), rtol=1e-6)
    assert np.signbit(found)[0] == np.signbit(np.float32(expected)) or np.isnan(expected)


def test_remainders_of_other_floats_are_made_alike(chip):
    half = chip.create_frem(handle([2049.0], np.float16, tl.float16), handle([0.1], np.float16, tl.float16))
    x, y = np.float32(np.float16(2049.0)), np.float32(np.float16(0.1))
    assert half.data.dtype == np.float16
    assert half.data[0] == np.float16(float(x) - float(y) * float(np.trunc(x / y)))
    double = handle([3e40], np.float64, tl.float64), handle([7.0], np.float64, tl.float64)
    assert chip.create_frem(*double).data[0] == Fraction(3e40) - 7 * int(3e40 / 7.0) != 0
    double = handle([7.3], np.float64, tl.float64), handle([1.1], np.float64, tl.float64)
    assert chip.create_frem(*double).data[0] == pytest.approx(0.7)


def test_a_remainder_of_doubles_that_came_from_floats_is_undecided_where_a_compiler_may_narrow_it(chip):
    numbers = handle([1.2345e20], np.float64, tl.float64)
    numbers.data[:] = np.float32(1.2345e20)
    with pytest.raises(ChipDiffersError, match="float64"):
        chip.create_frem(numbers, handle([3.0], np.float64, tl.float64))


def test_an_exponential_has_the_error_of_the_product_that_a_chip_rounds(chip):
    x = np.linspace(60, 88, 1001, dtype=np.float32)
    found = chip.create_exp(handle(x)).data
    error = np.abs(found / np.exp(x.astype(np.float64)) - 1)
    assert 1e-6 < error.max() < 1e-5
    assert chip.create_exp(handle([0.0, -np.inf, np.inf, 89.0])).data.tolist() == [1.0, 0.0, np.inf, np.inf]
    assert 0.0 < chip.create_exp(handle([-90.0])).data[0] < 1e-38
    wide = handle([70.0], np.float64, tl.float64)
    assert chip.create_exp(wide).data[0] == np.exp(70.0)


ATOMICS = [
    (1e-40, 1e-40, 0.0),
    (-1e-40, -1e-40, -0.0),
    (1e-40, 1.0, 1.0),
    (0.0, 1e-40, 0.0),
    (2e-38, -1.5e-38, 0.0),
    (-2e-38, 1.5e-38, -0.0),
    (2e-38, 1.5e-38, np.float32(2e-38) + np.float32(1.5e-38)),
    (1e-30, -1e-30, 0.0),
]


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_atomic_addition_of_floats_flushes_denormals_as_an_h100_does(lanes, chip):
    there = np.array([old for old, _, _ in ATOMICS], dtype=np.float32)
    before = there.copy()
    places = np.arange(len(ATOMICS)).repeat(lanes)
    pointers = handle(there.ctypes.data + 4 * places, np.uint64, tl.pointer_type(tl.float32))
    # A second lane adds nothing, to what the first one left.
    added = np.where(np.arange(len(places)) % lanes == 0, np.array([new for _, new, _ in ATOMICS])[places], -0.0)
    rest = (ir.MEM_SEMANTIC.ACQUIRE_RELEASE, ir.MEM_SYNC_SCOPE.GPU)
    mask = handle(np.ones(len(places)), bool, tl.int1)
    found = chip.create_atomic_rmw(ir.ATOMIC_OP.FADD, pointers, handle(added), mask, *rest)
    assert there.tobytes() == np.array([new for _, _, new in ATOMICS], dtype=np.float32).tobytes()
    assert found.data[::lanes].tobytes() == before.tobytes()


def test_a_masked_lane_of_such_an_addition_is_left_alone_and_halves_keep_denormals(chip):
    rest = (ir.MEM_SEMANTIC.ACQUIRE_RELEASE, ir.MEM_SYNC_SCOPE.GPU)
    for dtype, kind, tiny, sums in ((np.float32, tl.float32, 1e-40, 0.0), (np.float16, tl.float16, 6e-8, 1.2e-7)):
        there = np.full(2, tiny, dtype=dtype)
        pointers = handle(there.ctypes.data + there.itemsize * np.arange(2), np.uint64, tl.pointer_type(kind))
        mask = handle([True, False], bool, tl.int1)
        chip.create_atomic_rmw(ir.ATOMIC_OP.FADD, pointers, handle([tiny] * 2, dtype, kind), mask, *rest)
        assert there.tobytes() == np.array([sums, tiny], dtype=dtype).tobytes()


def test_a_maximum_of_zeros_is_the_positive_one_and_a_minimum_the_negative_one(chip):
    one, other = handle([0.0, -0.0, -0.0, 1.0]), handle([-0.0, 0.0, -0.0, -0.0])
    for most in (chip.create_maximumf, chip.create_maxnumf):
        assert list(np.signbit(most(one, other).data)) == [False, False, True, False]
    for least in (chip.create_minimumf, chip.create_minnumf):
        assert list(np.signbit(least(one, other).data)) == [True, True, True, True]


@pytest.mark.parametrize(("kind", "dtype"), chip_numerics.FP8.items(), ids=str)
def test_fp8_is_rounded_as_torch_and_chips_do(kind, dtype, chip):
    values = np.linspace(-400, 400, 4001, dtype=np.float32)
    narrow = chip.create_fp_to_fp(handle(values), kind, None)
    assert torch.from_numpy(narrow.data).view(dtype).float().equal(torch.from_numpy(values).to(dtype).float())
    wide = chip.create_fp_to_fp(narrow, tl.float32, None).data
    assert np.array_equal(wide, torch.from_numpy(values).to(dtype).float().numpy())
    largest, first_beyond = {torch.float8_e4m3fn: (448, 464), torch.float8_e5m2: (57344, 61440)}[dtype]
    nearly = np.nextafter(np.float32(first_beyond), np.float32(0))
    narrow = chip.create_fp_to_fp(handle([448.00003, largest, nearly]), kind, None)
    assert torch.from_numpy(narrow.data).view(dtype).float().tolist() == [448, largest, largest]
    for beyond in (np.nan, np.inf, first_beyond):
        with pytest.raises(ChipDiffersError, match="beyond"):
            chip.create_fp_to_fp(handle([beyond]), kind, None)


def test_another_fp8_and_another_rounding_are_undecided(chip):
    with pytest.raises(ChipDiffersError, match="fp8e4b15"):
        chip.create_fp_to_fp(handle([1.0]), tl.float8e4b15, None)
    with pytest.raises(ChipDiffersError, match="towards zero"):
        chip.create_fp_to_fp(handle([1.0]), tl.float8e5, ir.ROUNDING_MODE.RTZ)


@pytest.mark.parametrize("numbers", [[1.0009, -1.0009, 3.0, 0.0, -0.0], [65520.0, -1e6, 1e-9, -3e-8, 2049.5]])
def test_rounding_towards_zero_never_leads_away_from_it(numbers, chip):
    towards_zero = ir.ROUNDING_MODE.RTZ
    found = chip.create_fp_to_fp(handle(numbers), tl.float16, towards_zero).data.astype(np.float64)
    values = np.array(numbers, dtype=np.float32).astype(np.float64)
    nearest = values.astype(np.float16)
    assert (np.abs(found) <= np.abs(values)).all()
    # The next half away from zero is beyond the number.
    beyond = np.nextafter(found.astype(np.float16), np.copysign(np.float16(np.inf), nearest)).astype(np.float64)
    assert (np.abs(beyond) > np.abs(values)).all()


def test_rounding_bfloat16_towards_zero_is_undecided(chip):
    with pytest.raises(ChipDiffersError, match="towards zero"):
        chip.create_fp_to_fp(handle([1.001]), tl.bfloat16, ir.ROUNDING_MODE.RTZ)
