"""Operations that Triton compiles and its interpreter lacks, added to it.

Atomic exchange of floats, atomic updates through a tensor descriptor, a function mapped over elements, and the
dependencies between launches, which do not change a value. `tests/.../test_missing_operations.py` finds the next ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import cuda
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter import semantics
from warpsmith.evaluator.languages.triton.interpreter.libdevice import UnsupportedOnCpuError

Operation = Callable[..., Any]


def install() -> None:
    """Extend Triton's interpreter in this process; others that wrap atomic operations install themselves after this."""
    builder: Any = interpreter.InterpreterBuilder
    builder.create_atomic_rmw = _exchanging_floats(builder.create_atomic_rmw)
    builder.create_descriptor_reduce = _reduce_by_descriptor
    builder.create_int_to_ptr = _refuse_pointer
    if not hasattr(builder, "create_dot_scaled"):
        builder.create_dot_scaled = _refuse_scaled_product
    tl.map_elementwise = tl.core.map_elementwise = _map_elementwise
    for name in ("gdc_wait", "gdc_launch_dependents"):
        setattr(cuda, name, _do_nothing)


def _exchanging_floats(update: Operation) -> Operation:
    """Return an atomic operation that exchanges floats as the integers of their bits."""

    def create_atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        if op != interpreter._ir.ATOMIC_OP.XCHG or val.data.dtype.kind != "f":
            return update(self, op, ptr, val, mask, *rest)
        bits = val.data.view(f"u{val.data.dtype.itemsize}")
        found = update(self, op, ptr, interpreter.TensorHandle(bits, val.dtype), mask, *rest)
        return interpreter.TensorHandle(found.data.view(val.data.dtype), val.dtype.scalar)

    return create_atomic_rmw


def _reduce_by_descriptor(self: Any, kind: Any, desc: Any, value: Any, indices: list[Any]) -> None:
    """Update the elements of a block that lie inside the tensor; others are left out, as by the chip's copy engine."""
    pointers, mask = desc.materialize_pointers(indices)
    element = pointers.get_element_ty()
    name = kind.name
    if name == "ADD" and element.is_floating():
        name = "FADD"
    elif name in {"MIN", "MAX"} and element.is_floating():
        raise UnsupportedOnCpuError(
            f"desc.atomic_{name.lower()} of {element} cannot be interpreted on the cpu device; evaluate on a GPU."
        )
    elif name in {"MIN", "MAX"} and not element.is_int_signed():
        name = f"U{name}"
    operations, order, scope = interpreter._ir.ATOMIC_OP, interpreter._ir.MEM_SEMANTIC, interpreter._ir.MEM_SYNC_SCOPE
    self.create_atomic_rmw(getattr(operations, name), pointers, value, mask, order.RELAXED, scope.GPU)


def _refuse_pointer(_builder: Any, *_: Any) -> Any:
    raise UnsupportedOnCpuError(
        "A number that becomes a pointer cannot be interpreted on the cpu device: pass the tensor as an argument."
    )


def _refuse_scaled_product(_builder: Any, *_: Any) -> Any:
    raise UnsupportedOnCpuError(
        "tl.dot_scaled is not interpreted by Triton before 3.8: install a newer one, or evaluate on a GPU."
    )


def _do_nothing(*_: Any, **__: Any) -> None:
    """Launches run one after another here."""


def _map_elementwise(scalar_fn: Operation, *args: Any, pack: int = 1, **_: Any) -> Any:
    """Call a function with `pack` elements of each argument at a time, as `tl.map_elementwise` says."""
    tensors = [interpreter.interpreter_semantic.to_tensor(arg) for arg in args]
    arrays = np.broadcast_arrays(*(one.handle.data for one in tensors))
    shape, flat = arrays[0].shape, [array.reshape(-1, pack) for array in arrays]
    function, calls = semantics.mapped(scalar_fn), []
    for row in range(flat[0].shape[0]):
        elements = [
            _scalar(values[row, k], one.dtype) for values, one in zip(flat, tensors, strict=True) for k in range(pack)
        ]
        found = function(*elements)
        calls.append(found if isinstance(found, tuple | tl.tuple) else (found,))
    results = [_block([call[place : place + pack] for call in calls], shape) for place in range(0, len(calls[0]), pack)]
    return results[0] if len(results) == 1 else tuple(results)


def _scalar(value: Any, dtype: tl.dtype) -> tl.tensor:
    return tl.tensor(interpreter.TensorHandle(np.array([value]), dtype), dtype)


def _block(rows: list[Any], shape: tuple[int, ...]) -> tl.tensor:
    values = np.array([one.handle.data.item() for row in rows for one in row], dtype=rows[0][0].handle.data.dtype)
    dtype = rows[0][0].dtype
    return tl.tensor(interpreter.TensorHandle(values.reshape(shape), dtype), tl.block_type(dtype, list(shape)))
