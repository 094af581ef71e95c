"""The keys of a configuration as text, for `warpsmith-trainer schema`."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warpsmith.trainer.section import sections_in, type_of


def describe(kind: type[BaseModel], table: str = "") -> Iterator[str]:
    """Yield one line a key: its TOML form with the default, and what it means; tables under their headers.

    A table whose keys depend on its `type` comes once for each.
    """
    tables: list[tuple[str, list[type[BaseModel]]]] = []
    for name, field in kind.model_fields.items():
        models = [] if get_origin(field.annotation) is tuple else sections_in(field.annotation)
        if models:
            tables.append((f"{table}.{name}" if table else name, models))
        else:
            yield _line(name, field)
    for name, models in tables:
        for model in models:
            of_type = f'type = "{type_of(model)}"' if len(models) > 1 else ""
            yield ""
            yield f"[{name}]".ljust(44) + f" # {of_type}" if of_type else f"[{name}]"
            # The header says it.
            yield from (line for line in describe(model, name) if not (of_type and line.startswith("type = ")))


def _line(name: str, field: FieldInfo) -> str:
    # A default that depends on other fields is shown as it is where none of them is given.
    default = field.get_default(call_default_factory=True, validated_data={})
    value = "required" if field.is_required() else as_toml(default)
    return f"{name} = {value}".ljust(44) + f" # {field.description or ''}".rstrip(" #")


def as_toml(value: object) -> str:
    """Return a value as it would stand in a file; None, which TOML lacks, as `unset`."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    return "{}" if value == {} else str(value)
