"""Makes the interpreters of all supported Triton versions behave alike, so that verdicts do not depend on the version.

Two rules, and no branch on a version. A method of Triton's is called with what it computes from; its other parameters
are hints to a chip, whose number changes, and get None. An operation that some version computes unlike the compiler is
replaced in every version, so what the tests see in one holds in the others.
"""

import ctypes
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

Operation = Callable[..., Any]
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


def without_hints(access: Operation, given: int) -> Operation:
    """Return a method that takes only the first `given` arguments after self; the others are None."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [entry for entry in inspect.signature(access).parameters.values() if entry.kind in positional]
    hints = (None,) * (len(taken) - 1 - given)
    return lambda self, *arguments: access(self, *arguments, *hints)


def install() -> None:
    """Replace in this process what versions do differently; after `_patch_lang`, before all others that install."""
    tl.tensor.__index__ = _index
    builder: Any = interpreter.InterpreterBuilder
    builder.binary_op = _wrapping_truth(builder.binary_op)
    builder.create_ashr = _keeping_operands(builder.create_ashr)
    builder.create_clampf = _clamp
    builder.create_umulhi = _high_product
    builder.create_fma = _create_fma
    builder.create_histogram = _histogram
    builder.get_all_ones_value = _all_ones(builder.get_all_ones_value)
    interpreter.ReduceScanOpInterface.to_tensor = _to_tensor
    for kind in vars(interpreter).values():
        if inspect.isclass(kind) and hasattr(kind, "materialize_pointers"):
            kind.materialize_pointers = _with_mask_handle(kind.materialize_pointers)


def _index(self: Any) -> int:
    """Return a scalar tensor as an integer. Triton 3.6 converts an array of one element, which NumPy 2.4 forbids."""
    return int(np.squeeze(self.handle.data))


def _wrapping_truth(compute: Operation) -> Operation:
    """Let truth values wrap as integers of one bit do; before Triton 3.9 they saturate, and cannot be subtracted."""

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Operation) -> Any:
        if lhs.data.dtype != np.bool_ or rhs.data.dtype != np.bool_:
            return compute(self, lhs, rhs, op)
        return compute(self, lhs, rhs, lambda x, y: (op(x.astype(np.int8), y.astype(np.int8)) & 1).astype(np.bool_))

    return binary_op


def _keeping_operands(shift: Operation) -> Operation:
    """Shift copies: before Triton 3.8 the shift makes its operands signed, also where they are used again."""

    def create_ashr(self: Any, value: Any, by: Any) -> Any:
        return shift(self, *(interpreter.TensorHandle(one.data, one.dtype) for one in (value, by)))

    return create_ashr


def _clamp(self: Any, value: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    """Clamp floats; before Triton 3.8, NaN is always propagated."""
    ignoring = propagate_nans == interpreter._ir.PROPAGATE_NAN.NONE
    larger, smaller = (np.fmax, np.fmin) if ignoring else (np.maximum, np.minimum)
    return self.binary_op(self.binary_op(value, low, larger), high, smaller)


def _high_product(_builder: Any, one: Any, other: Any) -> Any:
    """Return the high half of a product of unsigned integers; before Triton 3.9 the sign of signed ones is extended."""
    kind = one.data.dtype
    unsigned, bits = np.dtype(f"u{kind.itemsize}"), 8 * kind.itemsize
    x, y = (handle.data.astype(unsigned).astype(np.uint64) for handle in (one, other))
    high = _high_of_64(x, y) if bits == 64 else (x * y) >> np.uint64(bits)
    return interpreter.TensorHandle(high.astype(unsigned).astype(kind), one.dtype.scalar)


def _high_of_64(x: Any, y: Any) -> Any:
    """Return the upper 64 bits of products of 64-bit integers, from the products of their halves."""
    low = (x & _LOW) * (y & _LOW)
    cross = (x >> _HALF) * (y & _LOW) + (low >> _HALF)
    other = (x & _LOW) * (y >> _HALF) + (cross & _LOW)
    return (x >> _HALF) * (y >> _HALF) + (cross >> _HALF) + (other >> _HALF)


def _create_fma(_builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z, rounded once; before Triton 3.9 it is rounded twice."""
    with np.errstate(all="ignore"):
        found = fma(*np.broadcast_arrays(x.data, y.data, z.data))
    return interpreter.TensorHandle(found, z.dtype.scalar)


def fma(x: Any, y: Any, z: Any) -> Any:
    """Return x y + z of floats of one dtype and shape, rounded once, by Triton's own code where it has some: faster."""
    function: Operation = getattr(interpreter._interpreter, f"fma_fp{8 * x.dtype.itemsize}", fused)
    return function(x, y, z)


def fused(x: Any, y: Any, z: Any) -> Any:
    """Return what `fma` returns, by NumPy and the C library."""
    if x.dtype == np.float64:
        return np.asarray(_fused_doubles(x, y, z), dtype=np.float64)
    product, wide = x.astype(np.float64) * y, z.astype(np.float64)  # the product of two narrow floats is exact
    total = product + wide
    # The error of the sum, exactly (Knuth's two-sum). It decides the last bit (rounding to odd), so that rounding to
    # the narrow type afterwards rounds as if for the first time.
    back = total - product
    error = (product - (total - back)) + (wide - back)
    lost = np.isfinite(error) & (error != 0) & (total.view(np.int64) & 1 == 0)
    total = np.where(lost, np.nextafter(total, np.copysign(np.inf, error)), total)
    return total.astype(z.dtype)


def _c_fma() -> Operation:
    function = ctypes.CDLL("libm.so.6").fma
    function.argtypes, function.restype = [ctypes.c_double] * 3, ctypes.c_double
    return function


_fused_doubles: Final = np.frompyfunc(_c_fma(), 3, 1)


def _histogram(_builder: Any, data: Any, bins: int, mask: Any) -> Any:
    """Count values; before Triton 3.9 one equal to `bins` is counted too, in the last bin."""
    inside = (data.data >= 0) & (data.data < bins)
    if mask is not None:
        inside &= mask.data.astype(np.bool_)
    counts = np.bincount(data.data[inside].astype(np.int64), minlength=bins)
    return interpreter.TensorHandle(counts.astype(np.int32), tl.int32)


def _all_ones(original: Operation) -> Operation:
    """Return all bits set, of which `~x` consists; before Triton 3.9 it is -1, which NumPy 2 refuses as unsigned."""

    def get_all_ones_value(self: Any, kind: Any) -> Any:
        dtype = np.dtype(interpreter._get_np_dtype(kind))
        if dtype.kind != "u":
            return original(self, kind)
        return interpreter.TensorHandle(np.full(1, np.iinfo(dtype).max, dtype=dtype), kind.scalar)

    return get_all_ones_value


def _to_tensor(_operation: Any, ret: Any, dtype: Any) -> Any:
    """Return a result of a reduction or scan; before Triton 3.9, NumPy 2 refuses scalars that have to wrap."""
    values = np.asarray(ret).astype(interpreter._get_np_dtype(dtype))
    shape = list(values.shape)
    handle = interpreter.TensorHandle(values if shape else values.reshape(1), dtype.scalar)
    return tl.tensor(handle, tl.block_type(dtype, shape) if shape else dtype)


def _with_mask_handle(pointers_of: Operation) -> Operation:
    """Return a block's pointers and mask as handles; before Triton 3.9 the mask is an array."""

    def materialize_pointers(self: Any, *places: Any) -> Any:
        pointers, mask = pointers_of(self, *places)
        return pointers, interpreter.TensorHandle(mask, tl.int1) if isinstance(mask, np.ndarray) else mask

    return materialize_pointers
