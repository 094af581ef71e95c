"""Settings from files and commands: `table.key=value` overrides, and validation errors that suggest the closest key."""

import difflib
import tomllib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from warpsmith.records.errors import UsageError

OTHER = "other"
"""Tag of the model that accepts every `type` that has no model of its own."""


def override(values: dict[str, Any], given: str, error: type[UsageError] = UsageError) -> str:
    """Set one `a.b=c` in nested tables, creating tables as needed.

    Args:
        values: the tables, changed in place.
        given: `table.key=value`, the value in TOML syntax; anything else is taken as a string.
        error: type of the error to raise.

    Returns:
        The name of the key that was set, `table.key` without spaces.

    Raises:
        UsageError: as `error`; `given` does not have that form, or one of its tables is a value.
    """
    dotted, equals, text = given.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        raise error(f"--set {given} does not have the form table.key=value.", "Example: --set run.steps=2.")
    table = values
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise error(f"--set {given}: `{key}` is a value, not a table.", "Use a key of a table.")
    table[keys[-1]] = _value(text.strip())
    return ".".join(keys)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def explained(kind: type[BaseModel], error: ValidationError) -> str:
    """Return one sentence on what is wrong with each key, with the closest known key for an unknown one."""
    text = "; ".join(_cause(kind, detail["type"], detail["loc"], detail["msg"]) for detail in error.errors())
    return text if text.endswith(("?", ".")) else f"{text}."


def _cause(kind: type[BaseModel], error_type: str, location: Iterable[int | str], message: str) -> str:
    path = [str(part) for part in location] or ["the settings"]
    *tables, key = _without_types(kind, path)
    name = ".".join(tables) or "top level"
    known = _keys_of(_table_at(kind, path[:-1]))
    if error_type == "extra_forbidden":
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; its keys are {', '.join(sorted(known))}"
        return f"unknown key `{key}` in [{name}]{hint}"
    if error_type == "missing":
        return f"key `{key}` is missing in [{name}]"
    return f"`{'.'.join([*tables, key])}`: {message.removeprefix('Value error, ')}"


def _keys_of(table: type[BaseModel] | None) -> Mapping[str, Any]:
    """Return the fields of a table, or none if there is no such table."""
    return {} if table is None else table.model_fields


def _without_types(kind: type[BaseModel], path: Sequence[str]) -> list[str]:
    """Return an error's place as it is in a file: pydantic puts a table's `type` after its name."""
    return [part for end, part in enumerate(path) if not _is_type(kind, path[: end + 1])]


def _is_type(kind: type[BaseModel], path: Sequence[str]) -> bool:
    """Whether the last part of a path is the `type` of the table before it."""
    if len(path) < 2:
        return False
    *tables, name, last = path
    field = _keys_of(_table_at(kind, tables)).get(name)
    models = models_in(field.annotation) if field else []
    return len(models) > 1 and any(last in types_of(model) for model in models)


def _table_at(kind: type[BaseModel], tables: Iterable[str]) -> type[BaseModel] | None:
    """Return the table at the end of `tables`, or None if that is not a table."""
    table: type[BaseModel] | None = kind
    choices: list[type[BaseModel]] = []
    for part in tables:
        if part.isdigit():
            continue
        if choices:
            table, choices = next((model for model in choices if part in types_of(model)), None), []
            continue
        field = _keys_of(table).get(part)
        models = models_in(field.annotation) or _models_of_items(field.annotation) if field else []
        table = models[0] if models else None
        choices = models if len(models) > 1 else []
    return table


def _models_of_items(annotation: Any) -> list[type[BaseModel]]:
    """Return the models of a tuple's items: an array of tables."""
    return models_in(get_args(annotation)[0]) if get_origin(annotation) is tuple else []


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that an annotation allows: several if a table's keys depend on its `type`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is Annotated:
        return models_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


def types_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of `type` that select a model among several of one table; `other` if it takes any other."""
    field = model.model_fields.get("type")
    return () if field is None else get_args(field.annotation) or (OTHER,)
