"""Checks settings; errors name the key, the nearest known key and the table that has it."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from warpsmith.rollout.settings.quotes import Location, quoted
from warpsmith.rollout.settings.tables import Place, places

_MISSPELT: Final = 0.8
"""Similarity at which a key of the same table is suggested before one of exactly this name in another table."""
_SIMILAR: Final = 0.6
"""Similarity at which a key of the same table is suggested."""
_CUTOFF: Final = 0.75
"""Similarity at which a key of another table is suggested."""

_MOST_PLACES: Final = 3
_TABLES: Final = {"engine": "sampler"}
"""Tables by the names that other tools give them."""

M = TypeVar("M", bound=BaseModel)


class SettingsError(ValueError):
    """Invalid settings; the text says in one sentence what is wrong with each key."""


def checked(kind: type[M], values: Mapping[str, Any]) -> M:
    """Return settings as their model.

    Raises:
        SettingsError: a key is unknown or missing, or has an invalid value; the text names them all.
    """
    texts = dict(quoted(kind, values))
    causes = [f"`{_shown(kind, at)}`: {text}" for at, text in texts.items()]
    try:
        made = kind.model_validate(values)
    except ValidationError as error:
        causes += explained(kind, error, without=texts)
    if causes:
        raise SettingsError(_sentence(causes))
    return made


def explained(kind: type[BaseModel], error: ValidationError, without: Iterable[Location] = ()) -> list[str]:
    """Return what is wrong with each key, with a suggestion for an unknown one.

    Args:
        kind: the model that was to be made.
        error: pydantic's error.
        without: locations that have been reported already.
    """
    known, reported = list(places(kind)), {_shown(kind, at) for at in without}
    causes = []
    for detail in error.errors():
        own = _place_of(known, [str(part) for part in detail["loc"]])[0]
        if own not in reported:
            causes.append(_cause(known, detail))
    return causes


def _sentence(causes: Sequence[str]) -> str:
    text = "; ".join(causes)
    return text if text.endswith(("?", ".")) else f"{text}."


def _shown(kind: type[BaseModel], at: Location) -> str:
    return _place_of(list(places(kind)), [str(part) for part in at])[0]


def _cause(known: list[Place], detail: Mapping[str, Any]) -> str:
    *tables, key = [str(part) for part in detail["loc"]] or ["the settings"]
    shown, place = _place_of(known, tables)
    if detail["type"] == "extra_forbidden":
        what = "table" if isinstance(detail["input"], dict) else "key"
        return f"unknown {what} `{key}` in [{shown or 'top level'}]{_hint(known, place, key, detail['input'])}"
    if detail["type"] == "missing":
        return f"key `{key}` is missing in [{shown or 'top level'}]"
    own, _ = _place_of(known, [*tables, key])
    return f"`{own}`: {_reason(detail)}"


def _reason(detail: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, with a suggestion if it is one of several choices."""
    given, context = detail["input"], detail.get("ctx", {})
    if detail["type"] == "union_tag_invalid":
        tags = _names(context["expected_tags"])
        return f'there is no type "{context["tag"]}"; the types are {", ".join(tags)}{_meant(context["tag"], tags)}'
    text = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "literal_error":
        return f"{text}, not {_toml(given)}{_meant(given, _names(context['expected']))}"
    if detail["type"] == "string_type" and isinstance(given, bool | int | float):
        return f'{text}; write "{_toml(given)}", in quotes'
    return text


def _names(listed: str) -> list[str]:
    return re.findall(r"'([^']*)'", listed)


def _meant(given: Any, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, names, n=1) if isinstance(given, str) else []
    return f"; did you mean `{near[0]}`?" if near else ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _place_of(known: list[Place], location: Sequence[str]) -> tuple[str, Place]:
    """Return an error's location as in a file, and its table.

    pydantic adds the index of an array's item and the `type` of a table to a location.
    """
    shown: list[str] = []
    table, type_ = "", None
    for part in location:
        types = {place.type for place in known if place.table == table}
        below = f"{table}.{part}".lstrip(".")
        if part in types and type_ is None:
            type_ = part
            continue
        shown.append(part)
        if not part.isdigit() and any(place.table == below for place in known):
            table, type_ = below, None
    here = [place for place in known if place.table == table]
    chosen = next((place for place in here if place.type == type_), here[0])
    return ".".join(shown), chosen


def _hint(known: list[Place], here: Place, key: str, value: Any) -> str:
    """Return the end of a sentence about an unknown key or table: a suggestion, or the known keys."""
    others = [place for place in known if place.table == here.table and key in place.fields]
    if others:
        types = " or ".join(f'"{place.type}"' for place in others)
        return f"; it is a key of type = {types}: remove it, or choose that type"
    within, like_within = _within(known, here.table, key)
    meant = (
        _table_of(known, key, value)
        or within
        or _near(key, here, _MISSPELT)
        or _of_tables(known, key)
        or _of_keys_in(known, value)
        or _near(key, here, _SIMILAR)
        or like_within
        or _like(known, key)
    )
    return f"; did you mean {meant}?" if meant else f"; its keys are {', '.join(sorted(here.fields))}"


def _near(key: str, here: Place, cutoff: float) -> str:
    near = difflib.get_close_matches(key, here.fields, n=1, cutoff=cutoff)
    return f"`{near[0]}`" if near else ""


def _table_of(known: list[Place], key: str, value: Any) -> str:
    """Return the table that an unknown one means: by another tool's name for it, or the only one with its keys."""
    if not isinstance(value, Mapping):
        return ""
    name = _TABLES.get(key)
    named = {place.table for place in known if name and place.table.rpartition(".")[2] == name}
    fitting = {place.table for place in known if len(value) > 1 and value.keys() <= place.fields.keys()}
    found = named or fitting
    return f"`{found.pop()}`" if len(found) == 1 else ""


def _of_tables(known: list[Place], key: str) -> str:
    """Return the keys of this name in other tables."""
    found = dict.fromkeys(f"`{place.key(key)}`" for place in known if key in place.fields and key != "type")
    return " or ".join(list(found)[:_MOST_PLACES])


def _of_keys_in(known: list[Place], value: Any) -> str:
    """Return where the keys of an unknown table belong; empty for a value."""
    table = value if isinstance(value, Mapping) else {}
    return " and ".join(found for key in table if (found := _of_tables(known, key)))


def _like(known: list[Place], key: str) -> str:
    """Return the most similar key of any table."""
    names = {name for place in known for name in place.fields}
    near = difflib.get_close_matches(key, sorted(names), n=1, cutoff=_CUTOFF)
    return _of_tables(known, near[0]) if near else ""


def _within(known: list[Place], table: str, key: str) -> tuple[str, str]:
    """Return the key in a table below `table` that has this name, with or without its table's, and the most similar.

    `refill_rounds` and `dynamic_sampling_refill_rounds` both mean `refill_rounds` of a table `dynamic_sampling`.
    """
    below = [place for place in known if place.table.startswith(f"{table}." if table else "") and place.table]
    names: dict[str, str] = {}
    for place in below:
        own = place.table.removeprefix(table).lstrip(".").replace(".", "_")
        for name in sorted(place.fields.keys() - {"type"}):
            for form in (name, f"{own}_{name}"):
                names.setdefault(form, f"`{place.key(name)}`")
    near = difflib.get_close_matches(key, names, n=1, cutoff=_CUTOFF)
    return names.get(key, ""), names[near[0]] if near else ""
