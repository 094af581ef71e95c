"""Error messages for configuration files: they name the key, the nearest known one and the table that has it."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from warpsmith.rollout.settings import explained as explained_by_settings
from warpsmith.trainer.section import sections_in, type_of

_CUTOFF = 0.75


@dataclass(frozen=True)
class Place:
    """A table in which a key may stand.

    Attributes:
        table: dotted name; empty for the top level.
        type: value of the table's `type` that has the key; None if there is one type alone.
        keys: the keys of the table, of that type.
    """

    table: str
    type: str | None
    keys: frozenset[str]

    def __str__(self) -> str:
        of_type = f' with type = "{self.type}"' if self.type else ""
        return f"[{self.table or 'top level'}]{of_type}"


def places(kind: type[BaseModel], table: str = "", type_: str | None = None) -> Iterator[Place]:
    """Yield every table of a kind of file, once for each `type`."""
    yield Place(table, type_, frozenset(kind.model_fields))
    for name, field in kind.model_fields.items():
        models = sections_in(field.annotation)
        for model in models:
            yield from places(model, f"{table}.{name}".lstrip("."), type_of(model) if len(models) > 1 else None)


def is_known(kind: type[BaseModel], name: str) -> bool:
    """Whether a dotted name is a key or a table of a kind of file, under any type."""
    table, _, key = name.rpartition(".")
    return any(place.table == table and key in place.keys for place in places(kind))


def explained(kind: type[BaseModel], error: ValidationError) -> str:
    """Return what is wrong with each key, and for an unknown one which was meant; one sentence."""
    causes = []
    for detail in error.errors():
        one = ValidationError.from_exception_data(error.title, [_line(detail)])
        cause = explained_by_settings(kind, one).removesuffix(".")
        if detail["type"] == "extra_forbidden":
            cause = _with_its_place(kind, cause, [str(part) for part in detail["loc"]])
        causes.append(cause)
    text = "; ".join(causes)
    return text if text.endswith("?") else f"{text}."


def _line(detail: Mapping[str, Any]) -> Any:
    """Return an error's detail in the form that an error is made of; its message is kept as it is."""
    from pydantic_core import PydanticCustomError

    if detail["type"] in ("extra_forbidden", "missing"):
        return {"type": detail["type"], "loc": detail["loc"], "input": detail["input"]}
    message = detail["msg"].replace("{", "{{").replace("}", "}}")
    return {"type": PydanticCustomError(detail["type"], message), "loc": detail["loc"], "input": detail["input"]}


def _with_its_place(kind: type[BaseModel], cause: str, location: list[str]) -> str:
    """Add where a key that its table does not have can stand: the same table of another type, or another table."""
    *tables, key = location
    known = list(places(kind))
    own = {place.table for place in known}
    parts: list[str] = []
    for part in tables:
        if ".".join([*parts, part]) in own:
            parts.append(part)
    table = ".".join(parts)
    here = [place for place in known if place.table == table]
    others = [place for place in here if key in place.keys]
    if others:
        types = " or ".join(f'"{place.type}"' for place in others)
        return f"{cause.partition(';')[0]}; it is a key of type = {types}: remove it, or choose that type"
    within, fuzzy = _within(known, table, key)
    if within is None and "did you mean" in cause:
        return cause
    elsewhere = " or ".join(dict.fromkeys(f"`{key}` in {place}" for place in known if key in place.keys))
    meant = within or elsewhere or fuzzy
    return f"{cause.partition(';')[0]}; did you mean {meant}?" if meant else cause


def _within(known: list[Place], table: str, key: str) -> tuple[str | None, str | None]:
    """Return the key of a table within `table` that has this name, or this name behind its table's, and the nearest.

    `refill_rounds` and `dynamic_sampling_refill_rounds` both are `refill_rounds` of a table `dynamic_sampling`.
    """
    below = [place for place in known if place.table.startswith(f"{table}." if table else "") and place.table]
    names: dict[str, str] = {}
    for place in below:
        own = place.table.removeprefix(table).lstrip(".").replace(".", "_")
        for name in sorted(place.keys - {"type"}):
            for form in (name, f"{own}_{name}"):
                names.setdefault(form, f"`{name}` in [{place.table}]")
    near = difflib.get_close_matches(key, names, n=1, cutoff=_CUTOFF)
    return names.get(key), names[near[0]] if near else None
