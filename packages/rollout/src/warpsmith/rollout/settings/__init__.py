"""Settings as users write them: checked, with suggestions in errors; changed by `--set`; described."""

from warpsmith.rollout.settings.describe import describe, json_schema
from warpsmith.rollout.settings.explain import SettingsError, checked
from warpsmith.rollout.settings.override import changed
from warpsmith.rollout.settings.tables import is_known

__all__ = ["SettingsError", "changed", "checked", "describe", "is_known", "json_schema"]
