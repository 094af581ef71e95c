"""Writes a configuration as TOML, with what every key means above it."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from warpsmith.rollout.settings.describe import as_toml, unit_of
from warpsmith.rollout.settings.tables import Place, places

_WIDTH: Final = 100


def commented(kind: type[BaseModel], tables: Mapping[str, Any], head: str) -> str:
    """Return a file with these tables.

    Args:
        kind: has the meaning of every key.
        tables: nested tables; every leaf is a key.
        head: text of the first comment; a line of its own for each of its lines.
    """
    known = {(place.table, place.type): place for place in places(kind)}
    lines = [*(f"# {line}".rstrip() for line in head.splitlines()), *_tables(known, tables, "")]
    return "\n".join(lines) + "\n"


def _tables(known: Mapping[tuple[str, str | None], Place], tables: Mapping[str, Any], name: str) -> Iterator[str]:
    keys = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    if keys:
        place = known.get((name, tables.get("type"))) or known[name, None]
        yield from ("", f"[{name}]")
        for key, value in keys.items():
            field = place.fields[key]
            unit = unit_of(key, field)
            comment = f"{field.description or _types(known, name)}{f' Unit: {unit}.' if unit else ''}"
            yield from (f"# {line}" for line in textwrap.wrap(comment, _WIDTH - 2))
            yield f"{key} = {as_toml(value)}"
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _tables(known, value, f"{name}.{key}".lstrip("."))


def _types(known: Mapping[tuple[str, str | None], Place], name: str) -> str:
    """Return what the key `type` of a table chooses from."""
    types = [f'"{type_}"' for table, type_ in known if table == name]
    return f"One of {', '.join(types)}; each has keys of its own."
