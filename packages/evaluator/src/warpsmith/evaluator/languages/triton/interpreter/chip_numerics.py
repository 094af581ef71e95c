"""Floating-point results that differ between a chip and Triton's interpreter: reproduced if possible, else rejected.

What every chip does is done here too: some functions and atomic additions flush denormals; `%` and `exp` consist of
other instructions; a maximum of zeros is +0; a sum of negative zeros is negative; fp8 is rounded to nearest even. What
depends on the chip or on the compiler (sign and payload of a NaN, fp8 beyond its range) must not decide a verdict: a
kernel that depends on it raises.
"""

import ctypes
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import versions

Operation = Callable[..., Any]
FLUSHING: Final = tuple(f"create_{name}" for name in ("exp2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil"))
"""Operations whose float32 instructions end in `.ftz`: denormal inputs and outputs become zeros of the same sign."""
FP8: Final = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}
_DENORMAL: Final = np.finfo(np.float32).smallest_normal
_LOG2_E: Final = np.float32(1.4426950408889634)
_SAFE: Final = np.float32(2.0**-102)
"""Numbers at least this large are multiples of 2^-125, and so are their sums: none is a denormal."""


class ChipDiffersError(RuntimeError):
    """A kernel depends on a result that differs between a chip and the interpreter, so it cannot be judged here."""


def install() -> None:
    """Patch the interpreter's operations in this process to do what a chip does, or to raise."""
    builder = interpreter.InterpreterBuilder
    for name in FLUSHING:
        setattr(builder, name, _flushing(getattr(builder, name)))
    builder.create_maximumf = _extreme(np.maximum, np.logical_and)
    builder.create_maxnumf = _extreme(np.fmax, np.logical_and)
    builder.create_minimumf = _extreme(np.minimum, np.logical_or)
    builder.create_minnumf = _extreme(np.fmin, np.logical_or)
    builder.create_frem = _remainder
    builder.create_exp = _exponential(builder.create_exp)
    builder.create_atomic_rmw = _flushing_addition(builder.create_atomic_rmw, builder.create_masked_load)
    builder.create_bitcast = _guarded_bitcast(builder.create_bitcast)
    builder.create_fp_to_fp = _rounded(builder.create_fp_to_fp)
    interpreter.ReduceOps.sum = _sum
    interpreter.ReduceOps.min_max = _min_max(interpreter.ReduceOps.min_max)


def flushed(values: Any) -> Any:
    """Return float32 with denormals replaced by zeros; other dtypes unchanged."""
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < _DENORMAL, np.copysign(np.float32(0), values), values)


def fused(x: Any, y: Any, z: Any) -> Any:
    """Return x y + z of float32 or float64, rounded once."""
    return versions.fma(*np.broadcast_arrays(x, y, z))


def check_face(values: Any) -> None:
    """Raise if the values contain a NaN, whose bits would be read."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ChipDiffersError(
            "the bits of a NaN are looked at. Its sign and its payload are others on each chip. "
            "Ask for NaN by x != x, or replace it by tl.where before."
        )


def blurred(values: Any, rng: np.random.Generator) -> Any:
    """Return floats with the sign and payload of each NaN drawn at random, so that they reveal nothing."""
    if values.dtype.kind != "f" or not (lost := np.isnan(values)).any():
        return values
    bits = np.dtype(f"u{values.dtype.itemsize}")
    noise = rng.integers(0, np.iinfo(bits).max, values.shape, dtype=bits, endpoint=True)
    found = values.copy()
    # A quiet NaN: all bits of the exponent and the first bit after it.
    found.view(bits)[lost] = (noise | np.array(np.inf, values.dtype).view(bits) | _quiet(values.dtype))[lost]
    return found


def _quiet(dtype: np.dtype[Any]) -> Any:
    bits = np.dtype(f"u{dtype.itemsize}")
    return bits.type(1) << bits.type(np.finfo(dtype).nmant - 1)


def sharp(values: Any) -> bytes:
    """Return the bytes of values, with all NaN made equal."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return bytes(np.ascontiguousarray(values).tobytes())


def _remainder(_builder: Any, one: Any, other: Any) -> Any:
    """Return `x % y` of floats as Triton compiles it: x - y trunc(x / y), wrong where x / y rounds to an integer."""
    kind = one.data.dtype
    x, y = np.broadcast_arrays(one.data, other.data)
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32), y.astype(np.float32)
    found = _remaining(x, y) if kind == np.float64 else _remaining(*narrow).astype(kind)
    if kind == np.float64:
        # The compiler computes in float32 if operands were cast from it and the result is cast back.
        is_narrow = (narrow[0] == x) & (narrow[1] == y)
        with np.errstate(over="ignore"):
            if (is_narrow & (found.astype(np.float32) != _remaining(*narrow)) & ~np.isnan(found)).any():
                raise ChipDiffersError(
                    "a remainder of float64 numbers that are float32 too, which the compiler may compute in float32: "
                    "with another result. Use libdevice.fmod, or bound the quotient before."
                )
    return interpreter.TensorHandle(found, one.dtype.scalar)


def _remaining(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(np.isinf(y), x, fused(-np.trunc(x / y), y, x))


def _exponential(compute: Operation) -> Operation:
    """Return `tl.exp`, for float32 as Triton compiles it: 2^p, with p = x log2 e rounded to float32.

    The rounding error of p grows with x: exp(80) is off by some 50 units in the last place.
    """

    def compiled(self: Any, value: Any) -> Any:
        if value.data.dtype != np.float32:
            return compute(self, value)
        with np.errstate(all="ignore"):
            found = np.exp2((value.data * _LOG2_E).astype(np.float64)).astype(np.float32)
        return interpreter.TensorHandle(found, value.dtype.scalar)

    return compiled


def _flushing_addition(update: Operation, load: Operation) -> Operation:
    """Return an atomic operation whose float32 addition flushes denormal inputs and outputs; half precision keeps them.

    The returned old value keeps its denormals.
    """
    read = versions.without_hints(load, 2)

    def updated(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        if op != interpreter._ir.ATOMIC_OP.FADD or val.data.dtype != np.float32:
            return update(self, op, ptr, val, mask, *rest)
        there = read(self, ptr, mask).data
        active = np.broadcast_to(mask.data, there.shape).astype(bool)
        if not (_is_tiny(there[active]) or _is_tiny(val.data[active])):
            return update(self, op, ptr, val, mask, *rest)
        found = np.zeros_like(there)
        for place in np.flatnonzero(active):
            cell = np.ctypeslib.as_array((ctypes.c_float * 1).from_address(int(ptr.data.flat[place])))
            found.flat[place] = cell[0]
            cell[0] = flushed(flushed(cell[0]) + flushed(val.data.flat[place]))
        return interpreter.TensorHandle(found, val.dtype.scalar)

    return updated


def _is_tiny(values: Any) -> bool:
    return bool(((values != 0) & (np.abs(values) < _SAFE)).any())


def _flushing(compute: Operation) -> Operation:
    def guarded(self: Any, value: Any) -> Any:
        found = compute(self, interpreter.TensorHandle(flushed(value.data), value.dtype))
        return interpreter.TensorHandle(flushed(found.data), found.dtype)

    return guarded


def _extreme(function: Operation, sign: Operation) -> Operation:
    """Return a maximum or minimum for which +0 is greater than -0."""

    def compute(self: Any, one: Any, other: Any) -> Any:
        found = self.binary_op(one, other, function)
        zeros = (one.data == 0) & (other.data == 0)
        if zeros.any():
            negative = sign(np.signbit(one.data), np.signbit(other.data))
            found.data = np.where(zeros, np.where(negative, -0.0, 0.0).astype(found.data.dtype), found.data)
        return found

    return compute


def _sum(self: Any, values: Any) -> Any:
    data = values.handle.data
    # -0 is the neutral element of addition; NumPy starts at +0, so a sum of -0 would lose its sign.
    begin = {"initial": data.dtype.type(-0.0)} if data.dtype.kind == "f" else {}
    return self.to_tensor(np.sum(data, axis=self.axis, keepdims=self.keep_dims, **begin), values.dtype)


def _min_max(reduce: Operation) -> Operation:
    """Return a minimum or maximum reduction whose zeros have the same sign as on a chip.

    In a plain minimum -0 is less than +0; with an index, the first of equal elements is taken.
    """

    def compute(self: Any, given: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        found = reduce(self, given, val_reduce_op, idx_reduce_op)
        value = found[0] if isinstance(found, tuple) else found
        data = (given[0] if isinstance(given, tuple) else given).handle.data
        held = np.asarray(value.handle.data)
        if val_reduce_op is None or data.dtype.kind != "f" or not (held == 0).any():
            return found
        negative = _sign_of_zero(data, self.axis, self.keep_dims, val_reduce_op is np.nanmin, idx_reduce_op)
        signed = np.where(held == 0, np.where(negative.reshape(held.shape), -0.0, 0.0), held).astype(held.dtype)
        value = self.to_tensor(signed if value.type.is_block() else signed.item(), value.dtype)
        return (value, *found[1:]) if isinstance(found, tuple) else value

    return compute


def _sign_of_zero(data: Any, axis: int | None, keep_dims: bool, least: bool, first_of: Any) -> Any:
    """Return where the zeros that a reduction finds are negative."""
    zeros, negative = data == 0, np.signbit(data)
    if first_of is not None:
        first = np.argmax(zeros, axis=axis, keepdims=True)
        taken = np.take_along_axis(negative, first, axis) if axis is not None else negative.ravel()[first.ravel()]
        return taken if keep_dims or axis is None else np.squeeze(taken, axis)
    some = (zeros & negative if least else zeros & ~negative).any(axis=axis, keepdims=keep_dims)
    return np.asarray(some if least else ~some)


def _guarded_bitcast(cast: Operation) -> Operation:
    def guarded(self: Any, value: Any, to: Any) -> Any:
        if not value.dtype.scalar.is_ptr() and not to.scalar.is_floating():
            check_face(value.data)
        return cast(self, value, to)

    return guarded


def _rounded(convert: Operation) -> Operation:
    def guarded(self: Any, value: Any, to: Any, rounding: Any) -> Any:
        origin, target = value.dtype.scalar, to.scalar
        if not (origin.is_fp8() or target.is_fp8()):
            to_zero = rounding == interpreter._ir.ROUNDING_MODE.RTZ
            return _towards_zero(value, target) if to_zero else convert(self, value, to, rounding)
        if target.is_fp8() and rounding not in (None, interpreter._ir.ROUNDING_MODE.RTNE):
            raise ChipDiffersError("a number is rounded to fp8 towards zero, which the interpreter does otherwise.")
        wide = _from_fp8(value.data, origin) if origin.is_fp8() else value.data
        found = _to_fp8(wide, target) if target.is_fp8() else wide.astype(interpreter._get_np_dtype(target))
        return interpreter.TensorHandle(found, target)

    return guarded


def _towards_zero(value: Any, target: Any) -> Any:
    """Return a float rounded towards zero; the interpreter returns NaN for one that is too large."""
    dtype = np.dtype(interpreter._get_np_dtype(target))
    if dtype.kind != "f":
        raise ChipDiffersError(f"a number is rounded to {target} towards zero, which the interpreter does otherwise.")
    with np.errstate(over="ignore"):
        nearest = value.data.astype(dtype)
    too_large = np.abs(nearest.astype(np.float64)) > np.abs(value.data.astype(np.float64))
    return interpreter.TensorHandle(np.where(too_large, np.nextafter(nearest, dtype.type(0)), nearest), target)


def _from_fp8(values: Any, kind: Any) -> Any:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return torch.from_numpy(np.ascontiguousarray(values)).view(_kind(kind)).float().numpy()


def _to_fp8(values: Any, kind: Any) -> Any:
    largest = torch.finfo(_kind(kind))
    # Up to half a step beyond the largest number every conversion rounds down to it.
    limit = largest.max + largest.eps * 2.0 ** math.floor(math.log2(largest.max)) / 2
    if not (np.abs(values) < limit).all():
        raise ChipDiffersError(
            f"a number that is NaN or {limit:g} and beyond is cast to {kind}, which chips do in different ways. "
            "Bound it before, with tl.clamp."
        )
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        narrow = torch.from_numpy(np.ascontiguousarray(values)).float().to(_kind(kind))
        return narrow.view(torch.uint8).numpy()


def _kind(kind: Any) -> torch.dtype:
    if kind not in FP8:
        raise ChipDiffersError(f"the interpreter does not round {kind} as a chip does. Use float8e4nv or float8e5.")
    return FP8[kind]
