"""Settings from files and commands: `table.key=value` overrides, and validation errors that name the near key."""

import difflib
import tomllib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from warpsmith.records.errors import UsageError


def override(values: dict[str, Any], given: str, error: type[UsageError] = UsageError) -> str:
    """Set one `a.b=c` in nested tables, making tables on the way.

    Args:
        values: the tables, changed in place.
        given: `table.key=value`, the value in TOML syntax; what is no TOML is taken as a string.
        error: what is raised.

    Returns:
        The name that was set, `table.key` without spaces.

    Raises:
        UsageError: as `error`; `given` is not of that form, or one of its tables is a value.
    """
    dotted, equals, text = given.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        raise error(f"--set {given} is not of the form table.key=value.", "Example: --set run.steps=2.")
    table = values
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise error(f"--set {given}: `{key}` is a value, not a table.", "Name a key of a table.")
    table[keys[-1]] = _value(text.strip())
    return ".".join(keys)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def explained(kind: type[BaseModel], error: ValidationError) -> str:
    """Say what is wrong with each key, and which known key is nearest to an unknown one; one sentence."""
    text = "; ".join(_cause(kind, detail["type"], detail["loc"], detail["msg"]) for detail in error.errors())
    return text if text.endswith(("?", ".")) else f"{text}."


def _cause(kind: type[BaseModel], error_type: str, location: Iterable[int | str], message: str) -> str:
    *tables, key = [str(part) for part in location] or ["the settings"]
    name = ".".join(tables) or "top level"
    known = _keys_of(kind, tables)
    if error_type == "extra_forbidden":
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; its keys are {', '.join(sorted(known))}"
        return f"unknown key `{key}` in [{name}]{hint}"
    if error_type == "missing":
        return f"key `{key}` is missing in [{name}]"
    return f"`{'.'.join([*tables, key])}`: {message.removeprefix('Value error, ')}"


def _keys_of(kind: type[BaseModel], tables: Iterable[str]) -> Mapping[str, Any]:
    """Return the fields of the table at the end of `tables`, or none where that is no table."""
    for table in tables:
        if table.isdigit():
            continue
        field = kind.model_fields.get(table)
        model = (model_in(field.annotation) or _model_of_items(field.annotation)) if field else None
        if model is None:
            return {}
        kind = model
    return kind.model_fields


def _model_of_items(annotation: Any) -> type[BaseModel] | None:
    """Return the model that the items of a tuple are: an array of tables."""
    return model_in(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is, or is in a union with None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((model for part in get_args(annotation) if (model := model_in(part))), None)
    return None
