"""The keys of a kind of file, as text and as a JSON schema: default, choices or bounds, unit and meaning."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warpsmith.records.choices import Choices
from warpsmith.rollout.settings.tables import OTHER, models_in, types_of

_UNITS: Final = {"_s": "s", "_gib": "GiB", "_bytes": "bytes", "_tokens": "tokens", "_minutes": "minutes"}
"""Units by suffix of a key; other keys set theirs by `json_schema_extra = {"unit": ...}`."""

_WORDS: Final[dict[Any, str]] = {bool: "true | false", int: "integer", float: "number", str: "text", Path: "path"}
_SIGNS: Final[dict[type, tuple[str, str]]] = {
    Ge: (">=", "ge"), Gt: (">", "gt"), Le: ("<=", "le"), Lt: ("<", "lt"), MinLen: ("with at least", "min_length"),
}  # fmt: skip
_COLUMN: Final = 43
_WIDTH: Final = 160


def describe(kind: type[BaseModel], table: str = "") -> Iterator[str]:
    """Yield the keys of a kind of file as TOML with defaults, and after `#` choices, bounds, unit and meaning.

    Tables follow with header and meaning; one whose keys depend on its `type` is repeated for each type.
    """
    tables: list[tuple[str, FieldInfo]] = []
    for name, field in kind.model_fields.items():
        if models_in(field.annotation):
            tables.append((f"{table}.{name}" if table else name, field))
        else:
            yield _line(name, field)
    for name, field in tables:
        yield from _table(name, field)


def _table(name: str, field: FieldInfo) -> Iterator[str]:
    if get_origin(field.annotation) is tuple:
        yield from ("", f"[[{name}]]", *_comment(field.description or ""))
        return
    models, header = models_in(field.annotation), f"[{name}]"
    default = field.get_default(call_default_factory=True, validated_data={})
    first = getattr(default, "type", None)
    for model in models:
        yield ""
        of_type = _types_line(model, models, first) if len(models) > 1 else ""
        note = of_type or ("absent unless given" if default is None and not field.is_required() else "")
        yield f"{header}  # {note}" if note else header
        purpose = field.description if len(models) > 1 and model is models[0] else ""
        yield from _comment(" ".join(part for part in (purpose, _meaning(model)) if part))
        # The header already says the type.
        yield from (line for line in describe(model, name) if not (of_type and line.startswith("type = ")))


def _types_line(model: type[BaseModel], models: list[type[BaseModel]], default: str | None) -> str:
    own = types_of(model)
    if own == (OTHER,):
        taken = {name for other in models for name in types_of(other)}
        names = [name for name in _names(model.model_fields["type"]) if name not in taken]
        return f"type = {OTHER}: {', '.join(names) or 'none is installed'}"
    return f'type = "{own[0]}"{", the default" if default == own[0] else ""}'


def _meaning(model: type[BaseModel]) -> str:
    """Return the first paragraph of a model's docstring, without the name of its table."""
    text = " ".join((model.__doc__ or "").strip().partition("\n\n")[0].split())
    return text.partition("`: ")[2] if text.startswith("`[") and "`: " in text else text


def _comment(text: str) -> list[str]:
    text = text[:1].upper() + text[1:]
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2)]


def _line(name: str, field: FieldInfo) -> str:
    # A default that depends on other fields is shown as if none of them were set.
    default = field.get_default(call_default_factory=True, validated_data={})
    value = "required" if field.is_required() else as_toml(default)
    allowed = ", ".join(part for part in (admitted(field), unit_of(name, field)) if part)
    return f"{name} = {value}".ljust(_COLUMN) + f"  # {allowed}. {field.description or ''}".rstrip()


def admitted(field: FieldInfo) -> str:
    """Return the values that a key takes: its choices, or type and bounds."""
    if names := _names(field):
        return " | ".join(f'"{name}"' for name in names)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    more = " | false" if extra.get("switch") else ""
    return f"{_words(field.annotation)}{_bounds([field.annotation, *field.metadata])}{more}"


def _names(field: FieldInfo) -> tuple[str, ...]:
    """Return the registered names that a key takes; empty for other keys."""
    marks = [*field.metadata, *_metadata(field.annotation)]
    return next((mark.names for mark in marks if isinstance(mark, Choices)), ())


def _metadata(annotation: Any) -> list[Any]:
    own = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    return [*own, *(mark for part in get_args(annotation) for mark in _metadata(part))]


def _words(annotation: Any) -> str:
    annotation = _bare(annotation)
    if get_origin(annotation) is Literal:
        return " | ".join(as_toml(value) for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {_WORDS.get(_bare(get_args(annotation)[0]), 'value')}s"
    if get_origin(annotation) is dict or annotation is dict:
        return "table"
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if parts:
        return " | ".join(dict.fromkeys(map(_words, parts)))
    return _WORDS.get(annotation, "any value")


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _bounds(marks: list[Any]) -> str:
    found = [
        f" {sign} {_number(getattr(mark, attribute))}"
        for mark in marks
        for kind, (sign, attribute) in _SIGNS.items()
        if isinstance(mark, kind)
    ]
    return " and".join(found)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def unit_of(name: str, field: FieldInfo) -> str:
    """Return the unit of a key, set explicitly or by its suffix; empty if it has none."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "unit" in extra:
        return str(extra["unit"])
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def as_toml(value: object) -> str:
    """Return a value in TOML syntax; None, which TOML does not have, as `unset`."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    return "{}" if value == {} else str(value)


def json_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a kind of file, with units, for editors."""
    found = kind.model_json_schema()
    shapes = [found, *found.get("$defs", {}).values()]
    for shape in shapes:
        for name, key in shape.get("properties", {}).items():
            _put(key, "unit", next((unit for end, unit in _UNITS.items() if name.endswith(end)), ""))
    return found


def _put(key: dict[str, Any], name: str, value: str) -> None:
    if value:
        key.setdefault(name, value)
