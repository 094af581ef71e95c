"""The keys of a configuration as text: for `warpsmith-trainer schema`."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warpsmith.rollout.settings import model_in


def describe(kind: type[BaseModel], table: str = "") -> Iterator[str]:
    """Yield one line a key: its TOML form with the default, and what it means; tables under their headers."""
    tables: list[tuple[str, type[BaseModel]]] = []
    for name, field in kind.model_fields.items():
        model = model_in(field.annotation)
        if model is None:
            yield _line(name, field)
        else:
            tables.append((f"{table}.{name}" if table else name, model))
    for name, model in tables:
        yield ""
        yield f"[{name}]"
        yield from describe(model, name)


def _line(name: str, field: FieldInfo) -> str:
    # A default that hangs on other fields is shown as it is where none of them is given.
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
