"""From a TOML file and overrides to a checked configuration, with errors that name the key and its neighbour."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from warpsmith.records.text import read_text
from warpsmith.rollout.settings import explained, override
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.config.unread import SET
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


def load_any(path: str | Path, overrides: Sequence[str] = ()) -> TrainerConfig | SftConfig:
    """Read the file of an SFT run, which has a table `[data]`, or else of a GRPO run; errors as for `load_grpo`."""
    return load_sft(path, overrides) if "data" in read_toml(path) else load_grpo(path, overrides)


def _load(kind: type[C], path: str | Path, overrides: Sequence[str]) -> C:
    values = read_toml(path)
    try:
        return with_overrides(kind, values, overrides)
    except ValidationError as error:
        raise ConfigError(
            f"{path} cannot be used: {explained(kind, error)}",
            "`warpsmith-trainer schema` lists every key and its meaning.",
        ) from None


def with_overrides(kind: type[C], values: dict[str, Any], overrides: Sequence[str]) -> C:
    """Return a checked configuration of these tables and of overrides, which are put into them.

    Raises:
        ConfigError: an override is of no known form.
        ValidationError: tables and overrides together cannot be used.
    """
    by_set = frozenset(override(values, given, ConfigError) for given in overrides)
    return kind.model_validate(values, context={SET: by_set})


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the file's tables.

    Raises:
        ConfigError: there is no such file, or it is no TOML.
    """
    text = read_text(path, ConfigError, "configuration file", "Name a TOML file; configs/ holds examples.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", "Correct that line.") from None
