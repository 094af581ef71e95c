"""Rejects undefined behaviour and false hints to the compiler, for which the interpreter returns some value.

A kernel could detect the interpreter by that value. Each error says what to write instead.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter.semantics import UnclearMeaningError

Operation = Callable[..., Any]


def install() -> None:
    """Guard the interpreter's operations and hints in this process; its language must have been patched before."""
    builder = interpreter.InterpreterBuilder
    for name in ("create_shl", "create_lshr", "create_ashr"):
        setattr(builder, name, _guarded_shift(getattr(builder, name)))
    for name in ("create_idiv", "create_srem", "create_urem"):
        setattr(builder, name, _guarded_division(getattr(builder, name)))
    for name in ("create_fp_to_si", "create_fp_to_ui"):
        setattr(builder, name, _guarded_conversion(getattr(builder, name)))
    builder.create_gather = _guarded_gather(builder.create_gather)
    builder.create_ptr_to_int = _refuse_address
    reduction = interpreter.ReduceOps
    reduction.min_max = _guarded_index(reduction.min_max)
    for language in (tl, tl.core):
        for name, (holds, instead) in _HINTS.items():
            setattr(language, name, _guarded_hint(name, holds, instead))


def _guarded_shift(shift: Operation) -> Operation:
    def guarded(self: Any, value: Any, by: Any) -> Any:
        bits = value.dtype.scalar.primitive_bitwidth
        if ((by.data < 0) | (by.data >= bits)).any():
            raise UnclearMeaningError(
                f"an integer of {bits} bits is shifted by less than 0 or by {bits} or more, which is undefined. "
                "Bound the shift, or cast to a wider type before it."
            )
        return shift(self, value, by)

    return guarded


def _guarded_division(divide: Operation) -> Operation:
    def guarded(self: Any, value: Any, by: Any) -> Any:
        if not by.data.all():
            raise UnclearMeaningError(
                "an integer is divided by zero, which is undefined, also where it is masked afterwards. "
                "Use tl.where on the divisor before."
            )
        if value.data.dtype.kind == "i" and ((by.data == -1) & (value.data == np.iinfo(value.data.dtype).min)).any():
            raise UnclearMeaningError(
                f"the least {value.dtype.scalar} is divided by -1, which is undefined: the quotient does not fit. "
                "Use tl.where on the divisor before."
            )
        return divide(self, value, by)

    return guarded


def _guarded_conversion(convert: Operation) -> Operation:
    def guarded(self: Any, value: Any, to: Any) -> Any:
        bounds = np.iinfo(np.uint8 if to.scalar == tl.int1 else interpreter._get_np_dtype(to.scalar))
        whole = np.trunc(value.data.astype(np.float64))
        # For 64 bits the upper bound is not a double: compare with the next power of two.
        if not ((whole >= float(bounds.min)) & (whole < float(bounds.max) + 1)).all():
            raise UnclearMeaningError(
                f"a float that is NaN or outside of {to.scalar} is cast to it, which is undefined. "
                "Bound it before, with tl.minimum and tl.maximum or tl.where."
            )
        return convert(self, value, to)

    return guarded


def _refuse_address(self: Any, value: Any, to: Any) -> Any:
    raise UnclearMeaningError(
        "a pointer is cast to an integer, which tells where the tensor lies: another place in every call and on every "
        "device. Compute with offsets, and add them to the pointer."
    )


def _guarded_gather(gather: Operation) -> Operation:
    def guarded(self: Any, source: Any, index: Any, axis: int) -> Any:
        if ((index.data < 0) | (index.data >= source.data.shape[axis])).any():
            raise UnclearMeaningError(
                "tl.gather has an index outside of its block, which is undefined. Bound it before."
            )
        return gather(self, source, index, axis)

    return guarded


def _guarded_index(min_max: Operation) -> Operation:
    def guarded(self: Any, values: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        data = (values[0] if isinstance(values, tuple) else values).handle.data
        if idx_reduce_op is not None and data.dtype.kind == "f" and np.isnan(data).any():
            raise UnclearMeaningError(
                "argmin or argmax over NaN depends on the order of comparisons. Replace NaN by tl.where before."
            )
        return min_max(self, values, val_reduce_op, idx_reduce_op)

    return guarded


def _guarded_hint(name: str, holds: Callable[[Any, int, int, int], bool], instead: str) -> Operation:
    def guarded(value: Any, hints: Any) -> Any:
        if not isinstance(value, tl.tensor):
            return value
        data = value.handle.data.astype(np.int64) if value.handle.data.dtype.kind != "b" else value.handle.data
        dimensions = len(value.shape)
        several = list(hints) if isinstance(hints, list | tuple) else [hints]
        numbers = [int(hint.value if isinstance(hint, tl.constexpr) else hint) for hint in several]
        if len(numbers) != max(1, dimensions):
            raise ValueError(f"len(values) != len(input.shape) for {name}")
        step = max(value.dtype.element_ty.primitive_bitwidth // 8, 1) if value.dtype.is_ptr() else 1
        for axis, number in enumerate(numbers):
            if not holds(data if dimensions else data.reshape(1), axis, number, step):
                raise UnclearMeaningError(f"tl.{name}(..., {number}) is not true: {instead}. Leave the hint out.")
        return value

    return guarded


def _begins_at_multiples(data: Any, axis: int, number: int, step: int) -> bool:
    """Whether each run of consecutive values along an axis starts at a multiple, as the compiler assumes."""
    lines = np.moveaxis(data, axis, 0)
    begins = np.ones(lines.shape, dtype=bool)
    begins[1:] = lines[1:] != lines[:-1] + step
    return bool((lines[begins] % number == 0).all())


def _is_contiguous(data: Any, axis: int, number: int, step: int) -> bool:
    """Whether groups along an axis are consecutive. One can wrap to zero, as `% M` does past the end."""
    lines = np.moveaxis(data, axis, 0)
    inside = np.arange(1, len(lines)) % max(number, 1) != 0
    follows = (lines[1:] == lines[:-1] + step) | (lines[1:] == 0)
    return bool(follows[inside].all())


def _is_constant(data: Any, axis: int, number: int, step: int) -> bool:
    """Whether groups along an axis are equal."""
    lines = np.moveaxis(data, axis, 0)
    inside = np.arange(1, len(lines)) % max(number, 1) != 0
    return bool((lines[1:] == lines[:-1])[inside].all())


_HINTS: Final = {
    "multiple_of": (_begins_at_multiples, "a value, or the first of a run of neighbours, is not a multiple"),
    "max_contiguous": (_is_contiguous, "within a group the values do not follow one another"),
    "max_constancy": (_is_constant, "within a group the values differ"),
}
