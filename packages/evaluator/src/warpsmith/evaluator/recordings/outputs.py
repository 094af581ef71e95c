"""The result of `forward` in a canonical form, in which each part has the name that a caller reads it by.

Outputs are paired by name at every depth: entries of a dict by key; fields of a dataclass, a namedtuple or a
ModelOutput by field; items of a tuple or a list by position. The order of a dict's entries does not matter.

A tree has leaves (tensors or their slots, numbers, strings, dtypes, None), tuples, and groups. A group is a dict of
plain values, so it can be sent to other processes: `kind`, `labels` (the repr of each part's key: `'mean'`, `2`) and
`items`. Trees come from foreign processes, so readers validate everything.
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot

MAPPING: Final = "dict"
FIELDS: Final = "dataclass"
NAMED_TUPLE: Final = "namedtuple"
MODEL_OUTPUT: Final = "model output"
"""A mapping that is also a dataclass, as in transformers: each part is both an entry and a field."""

PLACE: Final = "Output"
MAX_SHOWN: Final = 80

MOST: Final = 512
"""Maximum number of tensors in an output: each costs a comparison, and its own memory, in every trial."""

Leaf = Callable[[torch.Tensor, str], torch.Tensor]

_READ_ALIKE: Final = {
    MAPPING: {MAPPING, MODEL_OUTPUT},
    FIELDS: {FIELDS, NAMED_TUPLE, MODEL_OUTPUT},
    NAMED_TUPLE: {FIELDS, NAMED_TUPLE, MODEL_OUTPUT},
    MODEL_OUTPUT: {MAPPING, FIELDS, NAMED_TUPLE, MODEL_OUTPUT},
}
"""For each expected kind, the kinds that a caller can read in the same way."""


class OutputError(RuntimeError):
    """`forward` returned something that cannot be compared; the message names its place and what to return instead."""


class Bounded:
    """Leaves for `canonical`: each tensor as it is, and an OutputError for more than `MOST` of them."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, tensor: torch.Tensor, place: str) -> torch.Tensor:
        self._seen += 1
        if self._seen > MOST:
            raise OutputError(
                f"The output has more than {MOST} tensors, first {place}. Return fewer: stack those of one form."
            )
        return tensor


def canonical(value: Any, leaf: Leaf, place: str = PLACE) -> Any:
    """Return an output as a canonical tree. Entries of a mapping are sorted by key.

    Args:
        value: what forward returned.
        leaf: called with each tensor and its place; returns the leaf of the tree.
        place: the value's place in the output, for messages.

    Raises:
        OutputError: a part cannot be compared.
    """
    match value:
        case torch.Tensor():
            return leaf(value, place)
        case np.generic():
            return value.item()
        case None | bool() | int() | float() | str() | bytes() | torch.dtype():
            return value
        case _:
            return _container(value, leaf, place)


def _container(value: Any, leaf: Leaf, place: str) -> Any:
    names = _tuple_names(value)
    if isinstance(value, Mapping):
        kind = MODEL_OUTPUT if dataclasses.is_dataclass(value) else MAPPING
        parts = sorted(((_label(key, place), item) for key, item in value.items()), key=lambda part: part[0])
    elif names:
        kind, parts = NAMED_TUPLE, [(repr(name), item) for name, item in zip(names, value, strict=True)]
    elif isinstance(value, list | tuple):
        return tuple(canonical(item, leaf, f"{place}[{number}]") for number, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = FIELDS
        parts = [(repr(field.name), getattr(value, field.name)) for field in dataclasses.fields(value)]
    else:
        raise OutputError(
            f"{place} is of type {type(value).__name__}, which cannot be compared. Return tensors, numbers, strings, "
            "None, or lists, tuples, dicts, namedtuples and dataclasses of them."
        )
    items = tuple(canonical(item, leaf, _place_of(place, kind, label)) for label, item in parts)
    return _group(kind, [label for label, _ in parts], items)


def _tuple_names(value: Any) -> tuple[str, ...]:
    """Return the fields of a namedtuple or of torch's own kind of it (`torch.return_types.max`); otherwise ()."""
    names = getattr(type(value), "__match_args__", ())
    known = isinstance(value, tuple) and isinstance(names, tuple) and len(names) == len(value)
    return names if known and all(isinstance(name, str) for name in names) else ()


def _label(key: Any, place: str) -> str:
    """Return a mapping key's label: its repr."""
    match key:
        case None | bool() | bytes() | torch.dtype():
            return repr(key)
        # Members of a StrEnum or IntEnum can be looked up by their plain value too.
        case str():
            return repr(str.__str__(key))
        case int():
            return repr(int(key))
        case float():
            return repr(float(key))
        case enum.Enum():
            return f"{type(key).__name__}.{key.name}"
        case tuple():
            return f"({', '.join(_label(part, place) for part in key)})"
        case _:
            raise OutputError(
                f"{place} has a key of type {type(key).__name__}, which cannot be compared. Use strings or numbers as "
                "keys."
            )


def _group(kind: str, labels: list[str], items: tuple[Any, ...]) -> dict[str, Any]:
    return {"kind": kind, "labels": labels, "items": items}


@dataclasses.dataclass(frozen=True)
class _Group:
    """A group of a tree whose form has been checked."""

    kind: str
    parts: dict[str, Any]


def _group_of(tree: Any) -> _Group | None:
    match tree:
        case {"kind": str(kind), "labels": [*labels], "items": [*items]} if kind in _READ_ALIKE:
            texts = [label for label in labels if isinstance(label, str)]
            if len(tree) == 3 and len(set(texts)) == len(labels) == len(items):
                return _Group(kind, dict(zip(texts, items, strict=True)))
    return None


def _place_of(place: str, kind: str, label: str) -> str:
    """Return the expression that reads one part of a group: `Output['mean']`, `Output.loss`."""
    name = label[1:-1]
    return f"{place}.{name}" if kind != MAPPING and name.isidentifier() else f"{place}[{label}]"


def arranged(tree: Any, expected: Any) -> Any:
    """Return a canonical tree with the parts of each group in the order of `expected`, as far as names agree."""
    wanted, group = _group_of(expected), _group_of(tree)
    if group is not None and wanted is not None:
        order = {label: number for number, label in enumerate(wanted.parts)}
        labels = sorted(group.parts, key=lambda label: order.get(label, len(order)))
        items = tuple(arranged(group.parts[label], wanted.parts.get(label)) for label in labels)
        return _group(group.kind, labels, items)
    if group is not None:
        items = tuple(map(arranged, group.parts.values(), _positions(expected, len(group.parts))))
        return _group(group.kind, [*group.parts], items)
    if isinstance(tree, tuple):
        return tuple(map(arranged, tree, _positions(expected, len(tree))))
    return tree


def _positions(expected: Any, count: int) -> tuple[Any, ...]:
    """Return what is expected at each position; None for each if the counts differ."""
    items = _items_of(expected)
    return items if items is not None and len(items) == count else (None,) * count


def _items_of(tree: Any) -> tuple[Any, ...] | None:
    """Return the items of a tuple or a namedtuple; None for anything else."""
    if isinstance(tree, tuple):
        return tree
    group = _group_of(tree)
    return tuple(group.parts.values()) if group is not None and group.kind == NAMED_TUPLE else None


def places(tree: Any, place: str = PLACE) -> Iterator[str]:
    """Yield the place of each tensor slot of a tree, from left to right: `Output['mean']`, `Output[1].loss`."""
    group = _group_of(tree)
    if isinstance(tree, TensorSlot):
        yield place
    elif group is not None:
        for label, item in group.parts.items():
            yield from places(item, _place_of(place, group.kind, label))
    elif isinstance(tree, tuple | list):
        for number, item in enumerate(tree):
            yield from places(item, f"{place}[{number}]")
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from places(item, place)


def form_mismatch(got: codec.Value, expected: codec.Value, place: str = PLACE) -> str:
    """Return how the form of an output differs from the expected one: names, dtypes, shapes, plain values.

    Both are canonical trees with slots for tensors. Empty if they agree.
    """
    wanted, group = _group_of(expected), _group_of(got)
    if isinstance(expected, TensorSlot) and isinstance(got, TensorSlot):
        return _slot_mismatch(got, expected, place)
    if wanted is not None and group is not None:
        return _group_mismatch(group, wanted, place)
    items, own = _items_of(expected), _items_of(got)
    if items is None or own is None:
        return _value_mismatch(got, expected, place)
    if len(items) != len(own):
        return f"{place} has {len(own)} items; expected {len(items)}"
    found = (form_mismatch(*pair, f"{place}[{number}]") for number, pair in enumerate(zip(own, items, strict=True)))
    return next(filter(None, found), "")


def _group_mismatch(got: _Group, expected: _Group, place: str) -> str:
    if got.kind not in _READ_ALIKE[expected.kind]:
        return f"{place} is a {got.kind}; expected a {expected.kind} with {_names(expected)}"
    parts, wanted = got.parts, expected.parts
    if MODEL_OUTPUT in {got.kind, expected.kind}:
        # A ModelOutput has no keys for fields that are None.
        parts, wanted = ({k: v for k, v in some.items() if v is not None} for some in (parts, wanted))
    if parts.keys() != wanted.keys():
        return f"{place} has {_names(got)}; expected {_names(expected)}"
    found = (form_mismatch(parts[key], wanted[key], _place_of(place, expected.kind, key)) for key in wanted)
    return next(filter(None, found), "")


def _names(group: _Group) -> str:
    what = "keys" if group.kind == MAPPING else "fields"
    return f"the {what} {', '.join(sorted(group.parts))[:400]}" if group.parts else f"no {what}"


def _slot_mismatch(got: TensorSlot, expected: TensorSlot, place: str) -> str:
    if expected.dtype != got.dtype:
        return f"{place} has dtype {got.dtype}; expected {expected.dtype}"
    return "" if expected.shape == got.shape else f"{place} has shape {_shape(got)}; expected {_shape(expected)}"


def _value_mismatch(got: codec.Value, expected: codec.Value, place: str) -> str:
    if isinstance(expected, float) and isinstance(got, float | int) and not isinstance(got, bool):
        same = math.isclose(got, expected, rel_tol=1e-4, abs_tol=1e-8) or (math.isnan(got) and math.isnan(expected))
        return "" if same else f"{place} is {got!r}; expected {expected!r}"
    comparable = type(got) is type(expected) and not isinstance(expected, TensorSlot | dict | list | tuple)
    if not comparable:
        return f"{place} is {_kind(got)}; expected {_kind(expected)}"
    return "" if got == expected else f"{place} is {_shown(got)}; expected {_shown(expected)}"


def _shown(value: Any) -> str:
    return (f"torch.{value.name}" if isinstance(value, codec.DType) else repr(value))[:MAX_SHOWN]


def _shape(slot: TensorSlot) -> str:
    return f"[{', '.join(map(str, slot.shape))}]"


def _kind(value: Any) -> str:
    group = _group_of(value)
    match value:
        case TensorSlot():
            return f"a {value.dtype} tensor of shape {_shape(value)}"
        case tuple():
            return f"a tuple of {len(value)} items"
        case None:
            return "None"
        case _ if group is not None:
            return f"a {group.kind} with {_names(group)}"
        case _:
            return f"the {type(value).__name__} {_shown(value)}"
