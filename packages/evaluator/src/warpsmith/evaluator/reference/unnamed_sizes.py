"""Sizes of inputs that no integer in a problem's source states: read from a text or a file, counted, computed.

Runs in the reference worker. The sides requested from functions that make tensors are noted while `get_inputs` runs. A
later run requests other sides in their place, so that an input's side changes wherever its size comes from.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch
from torch import nn

from warpsmith.evaluator.devices import records

SIDE: Final = "side "
"""Prefix of the name of such a size; the sample's value follows."""
MOST_SIDES: Final = 32
SPREAD: Final = frozenset({"rand", "randn", "zeros", "ones", "empty"})
"""Functions of torch and NumPy that take the sides of a shape as arguments."""
SHAPED: Final = SPREAD | {"randint", "normal", "full", "random", "uniform", "standard_normal", "integers"}
"""Functions that take a shape as a tuple, by its place or as `size`."""

_DIGITS: Final = re.compile(r"\d{1,9}")


class Sides:
    """The sides requested from the functions.

    Attributes:
        met: those of this run, each once.
    """

    def __init__(self, others: Mapping[int, int]) -> None:
        self._others = others
        self.met: dict[int, None] = {}

    def asked(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a function that makes a tensor, with other sides."""
        if name == "arange" and len(args) == 1 and type(args[0]) is int:
            return (self._others.get(args[0], args[0]),), dict(kwargs)
        if name not in SHAPED:
            return args, dict(kwargs)
        changed = tuple(self._side(one) if name in SPREAD and type(one) is int else self._shape(one) for one in args)
        return changed, {**kwargs, **{word: self._shape(kwargs[word]) for word in ("size",) if word in kwargs}}

    def _shape(self, value: Any) -> Any:
        if isinstance(value, list | tuple) and all(type(one) is int for one in value):
            return tuple(self._side(one) for one in value)
        return value

    def _side(self, side: int) -> int:
        if len(self.met) < MOST_SIDES:
            self.met[side] = None
        return self._others.get(side, side)


def sides_among(sizes: Mapping[str, int]) -> dict[int, int]:
    """Return the other sides among the changed sizes of an input set, by the sample's value."""
    return {int(name.removeprefix(SIDE)): size for name, size in sizes.items() if name.startswith(SIDE)}


def held_by(source: ast.Module, fixed: Iterable[ast.stmt], model: nn.Module, init: Any) -> frozenset[int]:
    """Return the integers that are not such sizes: those of the source, those of a model, and combinations of these.

    `fixed` are the statements that the model depends on, of which the texts count as well.

    An integer of the source is a named size, or is excluded for a reason (`named_sizes.py`). What a module holds, or
    what its constructor is given, sets the shapes of parameters or stands for a size in its forward.
    """
    integers = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant) and type(node.value) is int}
    for statement in fixed:
        constants = (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))
        integers |= {one for value in constants if isinstance(value, str) for one in _integers(value)}
    for module in model.modules():
        integers |= {value for value in vars(module).values() if type(value) is int}
    tensors = [*model.parameters(), *model.buffers()]
    sides = {side for tensor in tensors for side in tensor.shape}
    return frozenset(integers | sides | set(_integers(init)) | _composed(integers))


def _integers(value: Any) -> Iterable[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, torch.Tensor):
        yield from value.shape
    elif isinstance(value, str):
        yield from (int(number) for number in _DIGITS.findall(value))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, dict):
        yield from _integers(list(value.values()))
    elif (record := records.taken(value)) is not None:
        yield from _integers([record.fields, record.others])


def _composed(integers: Iterable[int]) -> set[int]:
    """Return the products and powers of the integers: such a size changes with what it is made of."""
    some = sorted({abs(one) for one in integers if 1 < abs(one) < 1 << 20})[:MOST_SIDES]
    pairs = {one * other for one in some for other in some}
    powers = {one**other for one in some if one < 1 << 10 for other in some if other < 8}
    shifts = {one << other for one in (1, *some) for other in some if other < 24}
    return pairs | powers | shifts | {one * other for one in pairs for other in some}
