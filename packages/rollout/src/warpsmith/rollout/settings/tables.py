"""The tables and keys of a kind of file, from the annotations of its models."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

OTHER: Final = "other"
"""Tag of the model for every `type` that has no model of its own."""


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation: several if a table's keys depend on its `type`.

    A tuple is an array of tables; the models of its items are included.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is Annotated:
        return models_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


def types_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of `type` that select a model among those of a table; `other` for the remaining values."""
    field = model.model_fields.get("type")
    return () if field is None else get_args(field.annotation) or (OTHER,)


@dataclass(frozen=True)
class Place:
    """A table and its keys.

    Attributes:
        table: dotted name; empty for the top level.
        type: value of the table's `type` that has these keys; None if there is only one type.
        fields: the keys of the table with that type.
    """

    table: str
    type: str | None
    fields: dict[str, FieldInfo]

    @property
    def header(self) -> str:
        """The table's header in a file."""
        return f"[{self.table or 'top level'}]"

    def key(self, name: str) -> str:
        """Return the dotted name of one of its keys, for `--set`."""
        return f"{self.table}.{name}".lstrip(".")


def places(kind: type[BaseModel], table: str = "", type_: str | None = None) -> Iterator[Place]:
    """Yield every table of a kind of file, once for each `type`."""
    yield Place(table, type_, dict(kind.model_fields))
    for name, field in kind.model_fields.items():
        models = models_in(field.annotation)
        for model in models:
            chosen = next(iter(types_of(model)), None) if len(models) > 1 else None
            yield from places(model, f"{table}.{name}".lstrip("."), chosen)


def is_known(kind: type[BaseModel], name: str) -> bool:
    """Whether a dotted name is a key or a table of a kind of file, under any type."""
    table, _, key = name.rpartition(".")
    return any(place.table == table and key in place.fields for place in places(kind))
