"""From a TOML file and overrides to a checked configuration, with errors that name the key and its neighbour."""

import difflib
import tomllib
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError

C = TypeVar("C", bound=BaseModel)


def load_grpo(path: str | Path, overrides: Sequence[str] = ()) -> TrainerConfig:
    """Read the file of a GRPO run.

    Args:
        path: a TOML file.
        overrides: `table.key=value`, the value in TOML syntax; a bare word is taken as a string.

    Raises:
        ConfigError: the file or an override cannot be used; the message names the key.
    """
    return _load(TrainerConfig, path, overrides)


def load_sft(path: str | Path, overrides: Sequence[str] = ()) -> SftConfig:
    """Read the file of an SFT run; arguments and errors as for `load_grpo`."""
    return _load(SftConfig, path, overrides)


def _load(kind: type[C], path: str | Path, overrides: Sequence[str]) -> C:
    values = read_toml(path)
    for override in overrides:
        _apply(values, override)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _explained(kind, error, str(path)) from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the file's tables.

    Raises:
        ConfigError: there is no such file, or it is no TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"There is no configuration file {path}.", "configs/ holds examples.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", "Name a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", "Correct that line.") from None


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one `a.b=c` in the tables, making tables on the way."""
    dotted, equals, text = override.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {override} is not of the form table.key=value.", "Example: --set run.steps=2.")
    table = values
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: `{key}` is a value, not a table.", "Name a key of a table.")
    table[keys[-1]] = _value(text.strip())


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explained(kind: type[BaseModel], error: ValidationError, where: str) -> ConfigError:
    """Say what is wrong with each key, and which known key is nearest to an unknown one."""
    causes = [_cause(kind, detail["type"], detail["loc"], detail["msg"]) for detail in error.errors()]
    return ConfigError(
        f"{where} cannot be used: {_sentence('; '.join(causes))}",
        "`warpsmith-trainer schema` lists every key and its meaning.",
    )


def _sentence(text: str) -> str:
    return text if text.endswith(("?", ".")) else f"{text}."


def _cause(kind: type[BaseModel], error_type: str, location: Iterable[int | str], message: str) -> str:
    *tables, key = [str(part) for part in location] or ["the file"]
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
        field = kind.model_fields.get(table)
        model = model_in(field.annotation) if field else None
        if model is None:
            return {}
        kind = model
    return kind.model_fields


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is, or is in a union with None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((model for part in get_args(annotation) if (model := model_in(part))), None)
    return None
