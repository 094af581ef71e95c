"""Holds the steps of a reference that no rounding reaches: comparisons, roundings and orders of unrounded numbers.

A perturbed run asks what a reference answers to numbers that were rounded otherwise on their way. What lies before a
step such as `x > 0.3` is not rounded where `x` is an input: every kernel compares the same two numbers, also one that
lies on the edge. So such a step has the result of the own run in every other run, whatever the rest of the answer does.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from warpsmith.evaluator.correctness.rounding_noise import CONSTANTS, NEVER_ROUND
from warpsmith.evaluator.operator_mode import OperatorMode, operator_name

FLOATING_STEPS: Final = frozenset({"floor", "ceil", "round", "trunc", "sign", "heaviside"})
"""Steps whose results are floating numbers; the other ones answer with integers or truth values."""
RANKINGS: Final = frozenset(
    {"sort", "topk", "argsort", "argmax", "argmin", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax"}
    | {"cummin", "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"}
    | {"fractional_max_pool2d", "fractional_max_pool3d", "msort"}
)
"""Steps whose ties have no defined order; their values are selected, not rounded."""
SCALES: Final = frozenset({"mul", "div"})
"""Exact by a power of two."""
READS: Final = "_local_scalar_dense"
"""Gives Python the number of a tensor."""
HALF_BYTES: Final = 2
MOST_HELD: Final = 1 << 28
"""Bytes of held results; later ones are not held."""

Steps = Mapping[tuple[str, int], list[torch.Tensor | None]]
"""By operator and its number among the calls of it: its results in a flat list, None for those that are not a step."""


class _Counting(OperatorMode):
    """Counts the calls of each operator by the kind of their results: a run in fp64 has other casts between floats.

    Attributes:
        count: how many calls there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def _key(self, func: Any, result: Any) -> tuple[str, int]:
        kinds = {"float" if _is_inexact(one) else str(one.dtype) for one in _tensors(result)}
        name = " ".join([operator_name(func), *sorted(kinds)])
        self.count[name] += 1
        return name, self.count[name]


class StepFinder(_Counting):
    """Context of a run that notes its steady steps and their results.

    Args:
        inexact: tensors whose numbers others may have otherwise.

    Attributes:
        others: whether there were steps of rounded numbers too.
        casts: whether there were steps that met a number as half precision rounds it.
    """

    def __init__(self, inexact: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.others = self.casts = False
        self._held: dict[tuple[str, int], list[torch.Tensor | None]] = {}
        self._rounded = set(map(_storage, inexact))
        self._left = MOST_HELD
        # Whether Python has a number that others may have otherwise, and may compare with it.
        self._was_read = False

    def steps(self, *, tied: bool) -> Steps:
        """Return the results of steady steps; without orders if equal numbers were ordered."""
        return {key: held for key, held in self._held.items() if not (tied and key[0].split()[0] in RANKINGS)}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = list(_tensors([args, kwargs]))
        rounded = any(_storage(tensor) in self._rounded for tensor in given)
        # A truth value only chooses the way that a run takes, and `follows` looks at that.
        self._was_read |= rounded and operator_name(func) == READS and given[0].dtype != torch.bool
        casts = _casts_a_number(operator_name(func), args, kwargs, given)
        self.casts |= casts
        steady = not (rounded or self._was_read or casts)
        result = func(*args, **kwargs)
        key, made = self._key(func, result), tree_flatten(result)[0]
        if any(map(_is_inexact, given)) and not func._schema.is_mutable and not func.is_view:
            if steady:
                self._hold(key, made)
            self.others |= (rounded or self._was_read) and any(_is_step(operator_name(func), one) for one in made)
        rounds = not steady or _rounds(func, args, given, made)
        written = [*_tensors(made), *(given if func._schema.is_mutable else ())]
        for tensor in written:
            if rounds and _is_inexact(tensor):
                self._rounded.add(_storage(tensor))
            elif all(tensor is not one and _storage(tensor) != _storage(one) for one in given):
                # Memory of a tensor that is gone may be used again.
                self._rounded.discard(_storage(tensor))
        if not steady:
            # A comparison of rounded numbers is not an exact truth value.
            self._rounded.update(_storage(tensor) for tensor in written)
        return result

    def _hold(self, key: tuple[str, int], made: list[Any]) -> None:
        name = key[0].split()[0]
        with _disable_current_modes():  # It is no part of the forward that other modes observe.
            held = [one.clone() if _is_step(name, one) else None for one in made]
        size = sum(one.nbytes for one in held if one is not None)
        if size and size <= self._left:
            self._left -= size
            self._held[key] = held


class WideNumbers(OperatorMode):
    """Context of a run that compares half precision with a number itself, not with the number as that rounds it."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func._schema.is_mutable or any(map(_is_inexact, _tensors(result))):
            return result
        if not _casts_a_number(operator_name(func), args, kwargs, list(_tensors([args, kwargs]))):
            return result
        return func(*tree_map(_single, args), **tree_map(_single, kwargs))


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


class SteadySteps(_Counting):
    """Context of another run of the same reference, in which steady steps have their results."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        self._names = {name for name, _ in steps}

    def follows(self, own: Counter[str]) -> bool:
        """Whether the run called the operators of steps as often as the run that they are of."""
        return all(self.count[name] == own[name] for name in self._names)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        held = self._steps.get(self._key(func, result))
        if held is None:
            return result
        made, form = tree_flatten(result)
        if len(made) != len(held):
            return result
        return tree_unflatten([_held(one, own) for one, own in zip(made, held, strict=True)], form)


def _held(one: Any, own: torch.Tensor | None) -> Any:
    """Return what a run gets instead of its own result; a run in fp64 keeps its dtype."""
    return one if own is None or own.shape != one.shape else own.to(one.dtype, copy=True)


def _is_step(name: str, tensor: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return False
    return not _is_inexact(tensor) or name in FLOATING_STEPS


def _rounds(func: Any, args: tuple[Any, ...], given: list[torch.Tensor], made: list[Any]) -> bool:
    """Whether an operator may round numbers that were not."""
    name = operator_name(func)
    if func.is_view or name in CONSTANTS or name in RANKINGS:
        return False
    if not any(map(_is_inexact, _tensors(made))) and not func._schema.is_mutable:
        return False
    if name in SCALES and len(args) == 2 and isinstance(args[1], int | float) and args[1]:
        return math.frexp(abs(args[1]))[0] != 0.5
    if name not in NEVER_ROUND:
        return bool(given)
    finest = max((one.element_size() for one in given if _is_inexact(one)), default=0)
    return any(_is_inexact(one) and one.element_size() < finest for one in _tensors(made))


def _casts_a_number(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[torch.Tensor]) -> bool:
    """Whether torch rounds a number to the half precision of the tensors that it meets.

    A kernel that computes in fp32 compares with the number itself, so that both are right about what lies between.
    """
    finest = max((one for one in given if _is_inexact(one) and one.ndim), key=torch.Tensor.element_size, default=None)
    if finest is None or finest.element_size() > HALF_BYTES or name in RANKINGS:
        return False
    if any(not one.ndim and _is_inexact(one) and one.element_size() > HALF_BYTES for one in given):
        return True
    numbers = [float(one) for one in tree_flatten([args, kwargs])[0] if type(one) in {int, float}]
    with _disable_current_modes():
        wide = torch.tensor(numbers, dtype=torch.float64, device="cpu")
        return not torch.equal(wide, wide.to(finest.dtype).double())


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor))


def _storage(tensor: torch.Tensor) -> int:
    """Return what identifies a tensor's memory, also where it has no elements."""
    return int(tensor.untyped_storage()._cdata)
