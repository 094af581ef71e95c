"""The base of every table of a configuration file, and tables whose keys depend on their `type`. Imports no torch."""

import functools
import operator
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warpsmith.records.registry import Registry, RegistryError


class Section(BaseModel):
    """A table of a configuration file: rejects unknown keys and infinite numbers; immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def unit(name: str) -> dict[str, Any]:
    """Return the `json_schema_extra` of a key with a unit that the end of its name does not say."""
    return {"unit": name}


def type_of(section: type[BaseModel]) -> str | None:
    """Return the value of `type` that selects a table, or None if the table has no such key."""
    field = section.model_fields.get("type")
    values = get_args(field.annotation) if field is not None else ()
    return values[0] if len(values) == 1 else None


def as_table(value: Any) -> Any:
    """Read `"name"` as the table `{type = "name"}`."""
    return {"type": value} if isinstance(value, str) else value


def switched(value: Any) -> Any:
    """Read `false` as an absent table, and `true` as a table with the defaults of all keys."""
    if isinstance(value, bool):
        return {} if value else None
    return value


def one_of(*sections: type[Section], default: str | None = None) -> Any:
    """Return the annotation of a table that is one of `sections`, selected by its `type`.

    Args:
        sections: each with a key `type: Literal["name"]`.
        default: the type of a table without `type`.
    """

    def read(value: Any) -> Any:
        table = as_table(value)
        return {"type": default, **table} if default and isinstance(table, dict) else table

    union: Any = functools.reduce(operator.or_, sections)
    return Annotated[union, Field(discriminator="type"), BeforeValidator(read)]


def registered(registry: Registry[type[Section]]) -> Any:
    """Return the annotation of a table that is one of a registry's parts, selected by its `type`.

    A part that does not load is skipped here, so that it stops only runs that use it.
    """
    sections: list[type[Section]] = []
    for name in registry.names():
        try:
            sections.append(registry.get(name))
        except RegistryError:
            continue

    def known(value: Any) -> Any:
        table = as_table(value)
        name = table.get("type") if isinstance(table, dict) else None
        if isinstance(name, str):
            try:
                registry.get(name)
            except RegistryError as error:
                raise ValueError(f"{error.message.removesuffix('.')}. {error.remedy}") from None
        return table

    return Annotated[one_of(*sections), BeforeValidator(known)]


def part_of(base: type[Section]) -> Any:
    """Return the check for a registry whose parts are subclasses of `base`, each with a single-valued `type`."""

    def wrong(part: Any) -> str:
        if not (isinstance(part, type) and issubclass(part, base)):
            return f"is not a subclass of {base.__module__}.{base.__qualname__}"
        return "" if type_of(part) else 'has no key `type: Literal["name"]`'

    return wrong
