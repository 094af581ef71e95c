"""Finds numbers and booleans in quotes, which pydantic would silently convert."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from warpsmith.rollout.settings.tables import models_in, types_of

Location = tuple[int | str, ...]
"""Location of a value: names of tables and keys, and indices of items."""


def quoted(kind: type[BaseModel], values: Mapping[str, Any], at: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yield location and correction of each string where a number or a boolean is expected.

    Args:
        kind: the model of the values.
        values: the values as in a file.
        at: location of the values.
    """
    for name, value in values.items():
        field, here = kind.model_fields.get(name), (*at, name)
        if field is None:
            continue
        models = models_in(field.annotation)
        if models and isinstance(value, Mapping):
            yield from _in_table(models, field.get_default(call_default_factory=True, validated_data={}), value, here)
        elif models and isinstance(value, list | tuple):
            for number, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from _in_table(models, None, item, (*here, number))
        else:
            yield from _in_value(field.annotation, value, here)


def _in_table(
    models: list[type[BaseModel]], default: Any, value: Mapping[str, Any], at: Location
) -> Iterator[tuple[Location, str]]:
    chosen = value.get("type", getattr(default, "type", None))
    found = [model for model in models if chosen in types_of(model)] if len(models) > 1 else models
    for model in found[:1]:
        yield from quoted(model, value, at)


def _in_value(annotation: Any, value: Any, at: Location) -> Iterator[tuple[Location, str]]:
    if _admits_text(annotation):
        return
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _in_value(annotation, item, (*at, number))
    elif isinstance(value, str):
        if (plain := _plain(value)) is not None:
            yield at, f'"{value}" is text; write {plain}, without quotes'
        elif bool in _leaves(annotation):
            yield at, f'"{value}" is text; write true or false, without quotes'


def _plain(text: str) -> str | None:
    """Return a number or boolean as written in TOML; None for any other text."""
    written = text.strip()
    written = written.lower() if written.lower() in ("true", "false") else written
    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return None
    return written if isinstance(value, bool | int | float) else None


def _admits_text(annotation: Any) -> bool:
    return any(
        leaf is Any or isinstance(leaf, str) or (isinstance(leaf, type) and issubclass(leaf, str | Path | dict))
        for leaf in _leaves(annotation)
    )


def _leaves(annotation: Any) -> list[Any]:
    """Return the types and literal values in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, dict):
        return [dict]
    parts = get_args(annotation)
    if getattr(annotation, "__origin__", None) is dict:
        return [dict]
    # Literal values are leaves, even numbers; metadata of Annotated does no harm.
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [annotation]
