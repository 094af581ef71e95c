"""The settings of a command: its own options, changed by `--set`."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import SessionConfig
from warpsmith.rollout.settings import SettingsError, changed, checked

Settings = TypeVar("Settings", bound=BaseModel)

SCHEMA: Final = "warpsmith-rollout schema"
"""The command that lists the settings."""


def session_config(overrides: Sequence[str], **given: Any) -> SessionConfig:
    """Return the settings of a session's options, changed by what follows `--set`; see `checked_settings`."""
    return checked_settings(SessionConfig, overrides, given, schema=SCHEMA)


def checked_settings(kind: type[Settings], overrides: Sequence[str], given: dict[str, Any], *, schema: str) -> Settings:
    """Return the settings of a command's options, changed by what follows `--set`.

    Args:
        kind: the settings that the command takes.
        overrides: what follows each `--set`.
        given: the options, by key; changed in place.
        schema: the command that lists the settings.

    Raises:
        UsageError: a setting is unknown or has a value that it cannot have.
    """
    for override in overrides:
        changed(kind, given, override, schema=schema)
    try:
        return checked(kind, given)
    except SettingsError as error:
        raise UsageError(
            f"These settings cannot be used: {error}", f"`{schema}` lists every key and its meaning."
        ) from None
