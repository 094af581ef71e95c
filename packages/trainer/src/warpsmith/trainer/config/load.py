"""Reads a TOML file and overrides into a checked configuration."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from warpsmith.records.text import read_text
from warpsmith.rollout.settings import SettingsError, changed, checked
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError

C = TypeVar("C", bound=BaseModel)

SCHEMA: Final = "warpsmith-trainer schema"


def load_grpo(path: str | Path, overrides: Sequence[str] = ()) -> TrainerConfig:
    """Read the file of a GRPO run.

    Args:
        path: a TOML file.
        overrides: `table.key=value`, the value in TOML syntax; a bare word is taken as a string, and `unset` removes
            the key or the table.

    Raises:
        ConfigError: the file or an override cannot be used; the message names the key.
    """
    return _load(TrainerConfig, path, overrides)


def load_sft(path: str | Path, overrides: Sequence[str] = ()) -> SftConfig:
    """Read the file of an SFT run; arguments and errors as for `load_grpo`."""
    return _load(SftConfig, path, overrides)


def load_any(path: str | Path, overrides: Sequence[str] = ()) -> TrainerConfig | SftConfig:
    """Read the file of an SFT run, which has a table `[data]`, or else of a GRPO run; errors as for `load_grpo`."""
    return load_sft(path, overrides) if "data" in read_toml(path) else load_grpo(path, overrides)


def _load(kind: type[C], path: str | Path, overrides: Sequence[str]) -> C:
    values = read_toml(path)
    try:
        return with_overrides(kind, values, overrides)
    except SettingsError as error:
        command = f"{SCHEMA} sft" if kind is SftConfig else SCHEMA
        raise ConfigError(f"{path} cannot be used: {error}", f"`{command}` lists every key and its meaning.") from None


def with_overrides(kind: type[C], values: dict[str, Any], overrides: Sequence[str]) -> C:
    """Return a checked configuration of these tables and of overrides, which are put into them.

    Raises:
        ConfigError: an override has no known form, or removes a key that no file has.
        SettingsError: tables and overrides together cannot be used.
    """
    for given in overrides:
        changed(kind, values, given, ConfigError, SCHEMA)
    return checked(kind, values)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the file's tables.

    Raises:
        ConfigError: there is no such file, or it is not TOML.
    """
    text = read_text(path, ConfigError, "configuration file", "Name a TOML file; configs/ holds examples.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", "Correct that line.") from None
