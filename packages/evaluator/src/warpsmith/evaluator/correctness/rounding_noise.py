"""Perturbs each result of a reference that was rounded, and leaves exact results unchanged.

On inputs that lie on boundaries, perturbing the inputs would move all of them off. A kernel must match the function
there if the compared or rounded numbers are exact; if they were rounded on the way, another order of the same sum may
lie on the other side. (Monte Carlo arithmetic: Parker, 1997.)
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.utils._pytree import tree_flatten, tree_map

from warpsmith.evaluator.correctness.spread import Perturbation
from warpsmith.evaluator.operator_mode import OperatorMode, operator_name

ARITHMETIC: Final = frozenset(
    {"add", "sub", "rsub", "mul", "neg", "abs", "sum", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv"}
    | {"dot", "addmv", "cumsum", "convolution", "minimum", "maximum", "min", "max", "amin", "amax", "clamp"}
    | {"clamp_min", "clamp_max", "relu", "hardtanh", "threshold", "leaky_relu", "floor", "ceil", "round"}
    | {"trunc", "frac", "sign", "where", "fmod", "remainder", "hardshrink", "softshrink", "fmax", "fmin"}
    | {"prod", "cummax", "cummin", "aminmax", "outer", "histc", "heaviside", "copysign", "sgn"}
)
"""Operators whose exact results every kernel reproduces, whatever its order of computation."""
SELECTING: Final = frozenset(
    {"threshold_backward", "hardtanh_backward", "hardshrink_backward", "softshrink_backward", "leaky_relu_backward"}
    | {"hardswish_backward", "hardsigmoid_backward"}
)
"""Gradients that compare an input with a number: noise in it would excuse the wrong side of the edge."""
DIVISIONS: Final = frozenset({"div", "mean"})
"""Operators that are exact in every kernel if they divide by a power of two."""
MOVES: Final = frozenset(
    {"clone", "copy", "_to_copy", "cat", "stack", "index", "gather", "index_select", "scatter"}
    | {"masked_fill", "constant_pad_nd", "repeat", "flip", "roll", "tril", "triu", "slice_scatter"}
    | {"select_scatter", "index_put", "_index_put_impl", "_unsafe_index", "embedding", "take"}
    | {"masked_select", "fill", "zero", "lift_fresh", "sort", "topk", "contiguous"}
    | {"max_pool2d_with_indices", "max_pool3d_with_indices", "diag_embed", "complex", "view_copy"}
    | {"reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"}
    | {"repeat_interleave", "one_hot"}
)
"""Operators that only move or select numbers."""
EXACT: Final = ARITHMETIC | SELECTING | MOVES
SAME: Final = frozenset(
    {"neg", "abs", "minimum", "maximum", "min", "max", "amin", "amax", "clamp", "clamp_min", "clamp_max", "relu"}
    | {"hardtanh", "threshold", "floor", "ceil", "round", "trunc", "sign", "where", "hardshrink", "fmax", "fmin"}
    | {"cummax", "cummin", "aminmax", "heaviside", "copysign", "sgn"}
)
"""Arithmetic that rounds in no dtype."""
NEVER_ROUND: Final = SAME | SELECTING | MOVES
ALIKE: Final = NEVER_ROUND | {"add", "sub", "rsub", "mul", "div", "sqrt", "reciprocal"}
"""Operators that round the exact result of each element once, so that the same computation gives the same bits.

Sums of scaled numbers (`_scales`) and `addcmul` are excluded: computing them in one step rounds less often.
"""
SUMS: Final = frozenset({"add", "sub", "rsub"})
CONSTANTS: Final = frozenset(
    {"full_like", "zeros_like", "ones_like", "empty_like", "new_full", "new_zeros", "new_ones", "new_empty"}
)
"""Operators that write one number everywhere, whatever the numbers of the tensor whose form they take."""


class RoundingNoise(OperatorMode):
    """Context in which inexact results of torch's operators get noise.

    Args:
        perturb: makes the noise.

    Attributes:
        rounded: whether some result was inexact. If none was, the computation only selects, moves and compares.
        converts: whether numbers were made of integers: no perturbed input then shows how they were rounded.
    """

    def __init__(self, perturb: Perturbation) -> None:
        super().__init__()
        self._perturb = perturb
        self.rounded = self.converts = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = operator_name(func)
        if func.is_view or name in CONSTANTS or draws(func, name):
            return func(*args, **kwargs)
        if not any(_floating([args, kwargs])):
            return self._of_integers(func, name, args, kwargs)
        comparable = name in EXACT or (name in DIVISIONS and _divides_exactly(name, args, kwargs))
        wide = _widened(func, args, kwargs) if comparable else None
        result = func(*args, **kwargs)
        if wide is None and not func._schema.is_mutable and any(_floating(result)):
            # Its intermediate results, such as a mean that it subtracts, are rounded as well.
            result = func(*tree_map(self._noisy, args), **tree_map(self._noisy, kwargs))
        made = tree_flatten(result)[0]
        wrote = func._schema.is_mutable and not made
        self.rounded = self.rounded or wrote or (name not in NEVER_ROUND and any(_widest(result)))
        for place, tensor in enumerate(made):
            if isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex()):
                self._add_noise(tensor, wide[place] if wide is not None and len(wide) == len(made) else None)
        return result

    def _of_integers(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator without a floating argument; floats that it computes of integers get noise."""
        result = func(*args, **kwargs)
        if not (any(_integers([args, kwargs])) and any(_floating(result))):
            return result
        self.converts = True
        if name not in MOVES and isinstance(result, torch.Tensor):
            comparable = name in ARITHMETIC or (name in DIVISIONS and _divides_exactly(name, args, kwargs))
            wide = _widened(func, args, kwargs, integers=True) if comparable else None
            self._add_noise(result, wide[0] if wide else None)
        return result

    def _noisy(self, value: Any) -> Any:
        return self._perturb.everywhere(value) if isinstance(value, torch.Tensor) else value

    def _add_noise(self, tensor: torch.Tensor, wide: Any) -> None:
        noisy = self._perturb.everywhere(tensor)
        if isinstance(wide, torch.Tensor) and wide.shape == tensor.shape:
            exact = (tensor.to(wide.dtype) == wide) | torch.isnan(tensor)
            noisy = torch.where(exact, tensor, noisy)
            self.rounded = self.rounded or not bool(exact.all())
        else:
            self.rounded = True
        tensor.copy_(noisy)


def draws(func: Any, name: str) -> bool:
    """Whether an operator draws random numbers, so that a second call gives others; attention only could drop some."""
    return torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name


class FunctionFinder(OperatorMode):
    """Context that notes whether anything was computed whose rounding depends on who computes it.

    The four operations and roots are rounded once everywhere; sines, powers and sums are not, where they are inexact.

    Attributes:
        found: whether there was such a result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = operator_name(func)
        alike = name in ALIKE and not _scales(name, args, kwargs)
        exempt = func.is_view or name in CONSTANTS or alike or draws(func, name)
        floating = any(_floating([args, kwargs]))
        if self.found or exempt or not (floating or any(_integers([args, kwargs]))):
            return func(*args, **kwargs)
        wide = _widened(func, args, kwargs, integers=not floating)
        result = func(*args, **kwargs)
        if any(_floating(result)):
            self.found = wide is None or not all(map(_is_exact, tree_flatten(result)[0], wide))
        return result


def _is_exact(tensor: Any, wide: Any) -> bool:
    """Whether a result is that of the same operator in fp64."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return not (isinstance(tensor, torch.Tensor) and tensor.is_complex())
    return tensor.shape == wide.shape and bool(((tensor.double() == wide) | torch.isnan(tensor)).all())


def _floating(values: Any) -> Iterator[bool]:
    for value in tree_flatten(values)[0]:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            yield True


def _widest(values: Any) -> Iterator[bool]:
    """Yield once for each tensor whose rounding no wider dtype shows."""
    for value in tree_flatten(values)[0]:
        if isinstance(value, torch.Tensor) and value.dtype in {torch.float64, torch.complex128}:
            yield True


def _integers(values: Any) -> Iterator[bool]:
    """Yield once for each tensor of several integers."""
    for value in tree_flatten(values)[0]:
        if isinstance(value, torch.Tensor) and value.numel() > 1 and value.dtype != torch.bool:
            yield not (value.is_floating_point() or value.is_complex())


def _widened(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, integers: bool = False) -> "list[Any] | None":
    """Return the results of an operator on float64 copies of its arguments; None if it does not support float64."""
    copied = _wide_integers if integers else _wide
    dtype = kwargs.get("dtype")
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and func._schema.name != "aten::_to_copy":
        kwargs = {**kwargs, "dtype": torch.float64}
    try:
        return tree_flatten(func(*tree_map(copied, args), **tree_map(copied, kwargs)))[0]
    except Exception:  # noqa: BLE001  (without a float64 form nothing is known to be exact)
        return None


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return value.to(torch.complex128, copy=True)
    # Always a copy: an in-place operator writes to its arguments.
    return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()


def _wide_integers(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype != torch.bool else value


def _divides_exactly(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a division is by powers of two only; a mean divides by its number of elements."""
    if name == "mean":
        dims = args[1] if len(args) > 1 and args[1] is not None else kwargs.get("dim")
        chosen = range(args[0].dim()) if not dims and dims != 0 else ([dims] if isinstance(dims, int) else dims)
        return _is_power_of_two(math.prod(args[0].shape[dim] for dim in chosen))
    divisor = args[1]
    if not isinstance(divisor, torch.Tensor):
        return _is_power_of_two(divisor)
    if not divisor.is_floating_point():
        return False
    return bool((torch.frexp(divisor.float()).mantissa.abs() == 0.5).all())


def _scales(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a sum multiplies one of its terms, by what can round it."""
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return name in SUMS and not _is_power_of_two(alpha)


def _is_power_of_two(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number) and math.frexp(abs(number))[0] == 0.5
