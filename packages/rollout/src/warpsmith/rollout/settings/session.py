"""The settings of a command: its own options, changed by `--set`."""

from collections.abc import Sequence
from typing import Any, Final

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import SessionConfig
from warpsmith.rollout.settings import SettingsError, changed, checked

SCHEMA: Final = "warpsmith-rollout schema"
"""The command that lists the settings."""


def session_config(overrides: Sequence[str], **given: Any) -> SessionConfig:
    """Return the settings of a command's options, changed by what follows `--set`.

    Raises:
        UsageError: a setting is unknown or has a value that it cannot have.
    """
    for override in overrides:
        changed(SessionConfig, given, override, schema=SCHEMA)
    try:
        return checked(SessionConfig, given)
    except SettingsError as error:
        raise UsageError(
            f"These settings cannot be used: {error}", f"`{SCHEMA}` lists every key and its meaning."
        ) from None
