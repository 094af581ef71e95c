"""Error messages for configuration files: they name the key, the nearest known one and the table that has it."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

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
    text = "; ".join(_cause(kind, detail) for detail in error.errors())
    return text if text.endswith(("?", ".")) else f"{text}."


def _cause(kind: type[BaseModel], detail: Mapping[str, Any]) -> str:
    known = list(places(kind))
    *tables, key = [str(part) for part in detail["loc"]] or ["the settings"]
    shown, place = _place_of(known, tables)
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{key}` in [{shown or 'top level'}]{_hint(known, place, key)}"
    if detail["type"] == "missing":
        return f"key `{key}` is missing in [{shown or 'top level'}]"
    own, _ = _place_of(known, [*tables, key])
    return f"`{own}`: {detail['msg'].removeprefix('Value error, ')}"


def _place_of(known: list[Place], location: list[str]) -> tuple[str, Place]:
    """Return where an error is as a file has it, and that table.

    pydantic puts the number of an array's item and the `type` of a table behind its name.
    """
    shown: list[str] = []
    table, type_ = "", None
    for part in location:
        types = {place.type for place in known if place.table == table}
        below = f"{table}.{part}".lstrip(".")
        if part.isdigit():
            shown.append(part)
        elif part in types and type_ is None:
            type_ = part
        else:
            shown.append(part)
            if any(place.table == below for place in known):
                table, type_ = below, None
    here = [place for place in known if place.table == table]
    chosen = next((place for place in here if place.type == type_), here[0])
    return ".".join(shown), chosen


def _hint(known: list[Place], here: Place, key: str) -> str:
    """Return the end of a sentence about an unknown key: which was meant, where it belongs, or which there are."""
    others = [place for place in known if place.table == here.table and key in place.keys]
    if others:
        types = " or ".join(f'"{place.type}"' for place in others)
        return f"; it is a key of type = {types}: remove it, or choose that type"
    within, fuzzy = _within(known, here.table, key)
    near = difflib.get_close_matches(key, here.keys, n=1)
    elsewhere = " or ".join(dict.fromkeys(f"`{key}` in {place}" for place in known if key in place.keys))
    meant = within or (f"`{near[0]}`" if near else "") or elsewhere or fuzzy
    return f"; did you mean {meant}?" if meant else f"; its keys are {', '.join(sorted(here.keys))}"


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
