"""Records: values with named fields, as configurations are, taken apart for another process and made again there.

    @dataclass                     get_init_inputs() may return [Config(width=32)]
    class Config:                  and Model(config) reads config.width
        width: int

They are dataclasses, named tuples, namespaces, members of enumerations, and objects of classes that have no methods of
their own. Neither a class nor its code is sent: what is made has a class of the same name and kind, with the same
fields. Attributes besides the fields, constants of the class and the values of its properties are sent too; methods are
not.
"""

import argparse
import dataclasses
import enum
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

import torch

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.codec import Record

NAMED_TUPLE: Final = "named tuple"
DATACLASS: Final = "dataclass"
FROZEN: Final = "frozen dataclass"
NAMESPACE: Final = "namespace"
OBJECT: Final = "object"
ENUMERATION: Final = "enumeration"

_LEAVES: Final = (bool, int, float, str, type(None), torch.dtype)
_NO_RECORDS: Final = frozenset({*_LEAVES, bytes, list, tuple})
_MIXED: Final = {"IntEnum": enum.IntEnum, "StrEnum": enum.StrEnum}
_MIXED_TYPES: Final = {"int": int, "str": str, "float": float}
_PLAIN_ENTRIES: Final = frozenset({
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__init__", "__repr__",
    "__str__", "__eq__", "__hash__", "__firstlineno__", "__static_attributes__",
})  # fmt: skip
"""What a class without methods of its own may define besides constants and properties."""


def taken(value: Any) -> Record | None:
    """Return a record's kind, name and fields, unchanged; None for anything else."""
    if type(value) in _NO_RECORDS or isinstance(value, type | torch.Tensor | torch.nn.Module | Mapping):
        return None
    if isinstance(value, enum.Enum):
        return _taken_member(value)
    kind, fields = _fields_of(value)
    if not kind:
        return None
    beside = {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in fields}
    return Record(kind, type(value).__name__, dict(fields), dict(_derived(value, fields)) | beside)


def _fields_of(value: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a record, empty for what is none, and its fields."""
    own = type(value)
    if isinstance(value, tuple) and hasattr(own, "_fields"):
        return NAMED_TUPLE, dict(zip(own._fields, value, strict=True))
    if dataclasses.is_dataclass(own):
        names = [field.name for field in dataclasses.fields(own) if hasattr(value, field.name)]
        kind = FROZEN if own.__dataclass_params__.frozen else DATACLASS  # type: ignore[attr-defined]
        return kind, {name: getattr(value, name) for name in names}
    if isinstance(value, SimpleNamespace | argparse.Namespace):
        return NAMESPACE, vars(value)
    if hasattr(value, "__dict__") and all(map(_has_no_methods, own.__mro__[:-1])):
        return OBJECT, vars(value)
    return "", {}


def _derived(value: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the constants of a value's class, and what its properties are, where these are plain."""
    for name in dir(type(value)):
        if not name.startswith("_") and name not in known:
            try:
                found = getattr(value, name)
            except Exception:  # noqa: BLE001  (a property is foreign code)
                continue
            if _is_plain(found):
                yield name, found


def _is_plain(value: Any) -> bool:
    if type(value) in {list, tuple}:
        return all(map(_is_plain, value))
    return isinstance(value, _LEAVES)


def _taken_member(value: enum.Enum) -> Record | None:
    mixed = next((name for name, base in {**_MIXED, **_MIXED_TYPES}.items() if isinstance(value, base)), "")
    if isinstance(value, enum.Flag) or type(value.value) not in {bool, int, float, str, type(None)}:
        return None
    fields = {"name": value.name, "value": value.value, "mixed": mixed}
    return Record(ENUMERATION, type(value).__name__, fields, {})


def _has_no_methods(kind: type) -> bool:
    return all(
        name in _PLAIN_ENTRIES or isinstance(entry, property) or _is_plain(entry) for name, entry in vars(kind).items()
    )


def made(record: Record) -> Any:
    """Return an object with a record's fields; records with the same fields have the same class.

    Raises:
        WireError: there can be no such object.
    """
    maker = _MAKERS.get(record.kind)
    try:
        if maker is None:
            raise ValueError("its kind is unknown")
        found = maker(record.name, record.fields)
        if record.others:
            vars(found).update(record.others)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise WireError(f"The {record.kind[:40]} {record.name[:40]!r} cannot be made: {error}.") from error
    return found


def _named_tuple(name: str, fields: dict[str, Any]) -> Any:
    return _tuple_class(name, tuple(fields))(*fields.values())


@lru_cache(maxsize=256)
def _tuple_class(name: str, fields: tuple[str, ...]) -> type:
    # The named tuple's own class has no room for attributes besides its fields.
    return type(name, (namedtuple(name, fields),), {})


def _dataclass(name: str, fields: dict[str, Any]) -> Any:
    return _data_class(name, tuple(fields), False)(**fields)


def _frozen(name: str, fields: dict[str, Any]) -> Any:
    return _data_class(name, tuple(fields), True)(**fields)


@lru_cache(maxsize=256)
def _data_class(name: str, fields: tuple[str, ...], frozen: bool) -> type:
    return dataclasses.make_dataclass(name, [(field, Any) for field in fields], frozen=frozen)


def _namespace(name: str, fields: dict[str, Any]) -> Any:
    return _class(name, SimpleNamespace)(**fields)


class _Object:
    """What classes of plain objects derive from."""


def _object(name: str, fields: dict[str, Any]) -> Any:
    found = _class(name, _Object)()
    vars(found).update(fields)
    return found


@lru_cache(maxsize=256)
def _class(name: str, base: type) -> type:
    return base if name == base.__name__ else type(name, (base,), {})


def _member(name: str, fields: dict[str, Any]) -> Any:
    return _member_of(name, fields["name"], fields["value"], fields["mixed"])


@lru_cache(maxsize=256, typed=True)
def _member_of(name: str, member: str, value: Any, mixed: str) -> Any:
    base: Any = _MIXED.get(mixed, enum.Enum)
    return base(name, {member: value}, type=_MIXED_TYPES.get(mixed))[member]


_MAKERS: Final[dict[str, Callable[[str, dict[str, Any]], Any]]] = {
    NAMED_TUPLE: _named_tuple,
    DATACLASS: _dataclass,
    FROZEN: _frozen,
    NAMESPACE: _namespace,
    OBJECT: _object,
    ENUMERATION: _member,
}
