"""Floating-point numbers of which the interpreter must not tell that it is no chip."""

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import chip_numerics, libdevice
from warpsmith.evaluator.languages.triton.interpreter.chip_numerics import ChipDiffersError

FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")]
TINY = np.float32(1e-40)


def handle(values, dtype=np.float32, kind=tl.float32):
    return interpreter.TensorHandle(np.array(values, dtype=dtype), kind)


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


def test_looking_at_the_bits_of_a_nan_is_undecided():
    guarded = chip_numerics._guarded_bitcast(interpreter.InterpreterBuilder.create_bitcast)
    builder = interpreter.InterpreterBuilder()
    assert guarded(builder, handle([-0.0]), tl.int32).data[0] == np.int32(-(2**31))
    assert guarded(builder, handle([np.nan], kind=tl.float32), tl.float32).data.dtype == np.float32
    with pytest.raises(ChipDiffersError, match="bits of a NaN"):
        guarded(builder, handle([1.0, np.nan]), tl.int32)


@pytest.mark.parametrize("symbol", ["float_as_int", "signbitf", "copysignf"])
def test_so_is_looking_by_the_device_library(symbol):
    plain = [np.array([1.0], dtype=np.float32)] * (2 if "copy" in symbol else 1)
    dtype = np.dtype(np.float32 if "copy" in symbol else np.int32)
    libdevice.compute(f"__nv_{symbol}", plain, dtype)
    with pytest.raises(ChipDiffersError):
        libdevice.compute(f"__nv_{symbol}", [*plain[:-1], np.array([np.nan], dtype=np.float32)], dtype)


def test_denormals_become_zeros_of_their_sign_where_a_chip_flushes_them():
    found = chip_numerics.flushed(np.array([TINY, -TINY, 1.0, np.nan, np.inf], dtype=np.float32))
    assert found.tobytes() == np.array([0.0, -0.0, 1.0, np.nan, np.inf], dtype=np.float32).tobytes()
    wide = np.array([1e-310])
    assert chip_numerics.flushed(wide) is wide
    floor = chip_numerics._flushing(lambda self, value: handle(np.floor(value.data)))
    assert floor(None, handle([-TINY])).data[0] == 0.0
    assert libdevice.compute("__nv_expf", [np.array([-90.0], dtype=np.float32)], np.dtype(np.float32))[0] == 0.0


def test_a_maximum_of_zeros_is_the_positive_one_and_a_minimum_the_negative_one():
    builder = interpreter.InterpreterBuilder()
    one, other = handle([0.0, -0.0, -0.0, 1.0]), handle([-0.0, 0.0, -0.0, -0.0])
    most = chip_numerics._extreme(np.maximum, np.logical_and)(builder, one, other).data
    least = chip_numerics._extreme(np.minimum, np.logical_or)(builder, one, other).data
    assert list(np.signbit(most)) == [False, False, True, False]
    assert list(np.signbit(least)) == [True, True, True, True]


@pytest.mark.parametrize(("kind", "dtype"), chip_numerics.FP8.items(), ids=str)
def test_fp8_is_rounded_as_torch_and_chips_do(kind, dtype):
    values = np.linspace(-400, 400, 4001, dtype=np.float32)
    narrow = chip_numerics._to_fp8(values, kind)
    assert torch.from_numpy(narrow).view(dtype).float().equal(torch.from_numpy(values).to(dtype).float())
    assert np.array_equal(chip_numerics._from_fp8(narrow, kind), torch.from_numpy(values).to(dtype).float().numpy())
    for beyond in (np.nan, np.inf, 1e6):
        with pytest.raises(ChipDiffersError, match="beyond"):
            chip_numerics._to_fp8(np.array([beyond], dtype=np.float32), kind)


def test_another_fp8_and_another_rounding_are_undecided():
    with pytest.raises(ChipDiffersError, match="fp8e4b15"):
        chip_numerics._to_fp8(np.ones(1, dtype=np.float32), tl.float8e4b15)
    rounded = chip_numerics._rounded(interpreter.InterpreterBuilder.create_fp_to_fp)
    with pytest.raises(ChipDiffersError, match="towards zero"):
        rounded(interpreter.InterpreterBuilder(), handle([1.0]), tl.float8e5, interpreter._ir.ROUNDING_MODE.RTZ)


@pytest.mark.parametrize("numbers", [[1.0009, -1.0009, 3.0, 0.0, -0.0], [65520.0, -1e6, 1e-9, -3e-8, 2049.5]])
def test_rounding_towards_zero_never_leads_away_from_it(numbers):
    rounded = chip_numerics._rounded(interpreter.InterpreterBuilder.create_fp_to_fp)
    towards_zero = interpreter._ir.ROUNDING_MODE.RTZ
    found = rounded(interpreter.InterpreterBuilder(), handle(numbers), tl.float16, towards_zero).data.astype(np.float64)
    values = np.array(numbers, dtype=np.float32).astype(np.float64)
    nearest = values.astype(np.float16)
    assert (np.abs(found) <= np.abs(values)).all()
    # The next half away from zero is beyond the number.
    beyond = np.nextafter(found.astype(np.float16), np.copysign(np.float16(np.inf), nearest)).astype(np.float64)
    assert (np.abs(beyond) > np.abs(values)).all()


def test_rounding_bfloat16_towards_zero_is_undecided():
    rounded = chip_numerics._rounded(interpreter.InterpreterBuilder.create_fp_to_fp)
    with pytest.raises(ChipDiffersError, match="towards zero"):
        rounded(interpreter.InterpreterBuilder(), handle([1.001]), tl.bfloat16, interpreter._ir.ROUNDING_MODE.RTZ)
