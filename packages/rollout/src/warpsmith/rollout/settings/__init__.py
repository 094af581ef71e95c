"""Configuration as users write it: checked with messages that say what was meant, changed by `--set`, and described."""

from warpsmith.rollout.settings.describe import describe, json_schema
from warpsmith.rollout.settings.explain import SettingsError, checked
from warpsmith.rollout.settings.override import changed
from warpsmith.rollout.settings.tables import is_known

__all__ = ["SettingsError", "changed", "checked", "describe", "is_known", "json_schema"]
