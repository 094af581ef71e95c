"""Reduces and scans with a kernel's own function in two orders, since a kernel cannot choose the order on a chip.

The interpreter folds from the left, element by element. Here a function is called with many elements at a time, each a
scalar to it, first as a tree and then as rows. If the results differ, the function is rejected. If they differ by no
more than rounding explains, one is chosen at random, so that a function cannot detect how it is reduced.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction

from warpsmith.evaluator.languages.triton.interpreter.semantics import UnclearMeaningError

Arrays = list[Any]
Combine = Callable[[Arrays, Arrays], Arrays]


def install() -> None:
    """Replace the interpreter's element-by-element reduction and scan in this process."""
    interpreter.ReduceOps.generic_reduce = _reduce
    interpreter.ScanOps.generic_scan = _scan


def _reduce(self: Any, values: Sequence[Any]) -> list[Any]:
    dimensions, whole = len(values[0].shape), self.axis is None
    tensors, axis = self.unravel(values, self.axis)
    lines, rest = _lines(tensors, axis)
    combine = _combiner(self.combine_fn, tensors)
    found = _tree(combine, lines)
    order = _other_order(len(lines[0]))
    again = _rows(combine, [line[order] for line in lines])
    _check_same(found, again, lines, "reduce")
    arrays = [array.reshape(rest) for array in _either(found, again)]
    if self.keep_dims:
        arrays = [array.reshape((1,) * dimensions) if whole else np.expand_dims(array, axis) for array in arrays]
    return [
        self.to_tensor(array if array.ndim else array.item(), tensor.dtype)
        for array, tensor in zip(arrays, tensors, strict=True)
    ]


def _scan(self: Any, values: Sequence[Any]) -> list[Any]:
    lines, _ = _lines(values, self.axis)
    combine = _combiner(self.combine_fn, values)
    found = _doubled(combine, lines)
    again = _carried(combine, lines)
    _check_same(found, again, lines, "associative_scan")
    moved = np.moveaxis(values[0].handle.data, self.axis, 0).shape
    return [
        self.to_tensor(np.ascontiguousarray(np.moveaxis(array.reshape(moved), 0, self.axis)), value.dtype)
        for array, value in zip(_either(found, again), values, strict=True)
    ]


def _either(found: Arrays, again: Arrays) -> Arrays:
    return again if os.urandom(1)[0] & 1 else found


def _lines(tensors: Sequence[Any], axis: int) -> tuple[Arrays, tuple[int, ...]]:
    """Return each tensor's data as (length, others), and the shape of the others."""
    moved = [np.moveaxis(tensor.handle.data, axis, 0) for tensor in tensors]
    return [array.reshape(len(array), -1) for array in moved], moved[0].shape[1:]


def _combiner(function: Any, tensors: Sequence[Any]) -> Combine:
    """Return a kernel's function on arrays of any shape, whose elements it sees as scalars."""
    body = function.rewrite() if isinstance(function, InterpretedFunction) else function
    types = [tensor.dtype for tensor in tensors]

    def scalars(arrays: Arrays) -> list[Any]:
        handles = [interpreter.TensorHandle(array, kind) for array, kind in zip(arrays, types, strict=True)]
        return [tl.tensor(handle, kind) for handle, kind in zip(handles, types, strict=True)]

    def combine(left: Arrays, right: Arrays) -> Arrays:
        found = body(*scalars(left), *scalars(right))
        several = found if isinstance(found, tuple) else (found,)
        data = [item.handle.data if isinstance(item, tl.tensor) else np.asarray(item) for item in several]
        return [np.broadcast_to(array, like.shape).astype(like.dtype) for array, like in zip(data, left, strict=True)]

    return combine


def _tree(combine: Combine, lines: Arrays) -> Arrays:
    while len(lines[0]) > 1:
        half = len(lines[0]) // 2
        lines = combine([line[:half] for line in lines], [line[half:] for line in lines])
    return [line[0] for line in lines]


def _rows(combine: Combine, lines: Arrays) -> Arrays:
    """Fold rows from the left, then their results: both depth and order differ from the tree's."""
    length = len(lines[0])
    width = 1 << (length.bit_length() // 2)
    held = [line[:width] for line in lines]
    for start in range(width, length, width):
        held = combine(held, [line[start : start + width] for line in lines])
    result = [line[0] for line in held]
    for column in range(1, len(held[0])):
        result = combine(result, [line[column] for line in held])
    return result


def _other_order(length: int) -> Any:
    """Return a random order other than the original."""
    order = default_rng().permutation(length)
    return order if (order[1:] < order[:-1]).any() else order[::-1]


def _doubled(combine: Combine, lines: Arrays) -> Arrays:
    """Scan in steps of doubling distance."""
    distance, length = 1, len(lines[0])
    while distance < length:
        later = combine([line[:-distance] for line in lines], [line[distance:] for line in lines])
        lines = [np.concatenate([line[:distance], new]) for line, new in zip(lines, later, strict=True)]
        distance *= 2
    return lines


def _carried(combine: Combine, lines: Arrays) -> Arrays:
    """Scan rows from the left, and carry the last element of each into the next."""
    length = len(lines[0])
    width = 1 << (length.bit_length() // 2)
    rows = [line.reshape(-1, min(width, length), line.shape[1]).copy() for line in lines]
    for column in range(1, rows[0].shape[1]):
        found = combine([row[:, column - 1] for row in rows], [row[:, column] for row in rows])
        for row, new in zip(rows, found, strict=True):
            row[:, column] = new
    for number in range(1, rows[0].shape[0]):
        last = [np.broadcast_to(row[number - 1, -1], row[number].shape) for row in rows]
        for row, new in zip(rows, combine(last, [row[number] for row in rows]), strict=True):
            row[number] = new
    return [row.reshape(length, -1) for row in rows]


def _check_same(found: Arrays, again: Arrays, lines: Arrays, name: str) -> None:
    for one, other, line in zip(found, again, lines, strict=True):
        if not _is_same(one, other, line):
            lossy = " If it is so already, it loses digits: combine deviations from a mean, not squares."
            raise UnclearMeaningError(
                f"the function of a tl.{name} gives another result in another order of the elements, and on a chip the "
                "order is not defined. Make it associative"
                + (" and commutative; let an index decide between equal values." if name == "reduce" else ".")
                + (lossy if line.dtype.kind == "f" else "")
            )


def _is_same(one: Any, other: Any, line: Any) -> bool:
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    with np.errstate(all="ignore"):
        finite = np.abs(np.concatenate([line.ravel(), one.ravel()]).astype(np.float64))
        scale = finite[np.isfinite(finite)].max(initial=0.0)
        loose = 2e-2 if one.dtype.itemsize == 2 else 1e-3
        return np.allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=loose, atol=loose * scale, equal_nan=True
        )
