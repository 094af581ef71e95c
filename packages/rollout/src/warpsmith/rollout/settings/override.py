"""`--set table.key=value`: changes nested tables before they are checked."""

import tomllib
from typing import Any, Final

from pydantic import BaseModel

from warpsmith.records.errors import UsageError
from warpsmith.rollout.settings.tables import is_known

UNSET: Final = "unset"
"""The value in `--set table.key=unset`, which removes a key; schemas show it for keys without a value."""


def changed(
    kind: type[BaseModel], values: dict[str, Any], given: str, error: type[UsageError] = UsageError, schema: str = ""
) -> str:
    """Set `a.b=c` in nested tables, creating tables as needed; `a.b=unset` removes the key or table.

    Args:
        kind: the model of the tables.
        values: the tables, changed in place.
        given: `table.key=value`, with the value in TOML syntax; any other value is a string.
        error: type of the error to raise.
        schema: the command that lists the keys, for the remedy.

    Returns:
        The name that was set, `table.key` without spaces.

    Raises:
        UsageError: as `error`; `given` is malformed, one of its tables is a value, or there is no such key or table
            to remove.
    """
    dotted, equals, text = given.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        raise error(f"--set {given} is not of the form table.key=value.", "Example: --set run.steps=2.")
    name = ".".join(keys)
    if text.strip() == UNSET:
        if not is_known(kind, name):
            raise error(
                f"--set {given}: there is no key or table `{name}`.",
                f"`{schema or 'schema'}` lists every key and its meaning.",
            )
        _remove(values, keys)
        return name
    table = values
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise error(f"--set {given}: `{key}` is a value, not a table.", "Name a key of a table.")
    table[keys[-1]] = _value(text.strip())
    return name


def _remove(values: dict[str, Any], keys: list[str]) -> None:
    """Remove a key or a table from nested tables, if it is there."""
    table: Any = values
    for part in keys[:-1]:
        table = table.get(part) if isinstance(table, dict) else None
    if isinstance(table, dict):
        table.pop(keys[-1], None)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
