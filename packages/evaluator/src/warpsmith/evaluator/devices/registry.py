"""Kinds of devices by name: the entry points in `warpsmith.devices`. Importable without torch."""

from typing import Annotated, Any, Final

from warpsmith.evaluator.devices.kinds import DeviceKind
from warpsmith.records.choices import Choices
from warpsmith.records.registry import Registry


def _check(part: Any) -> str:
    return "" if isinstance(part, DeviceKind) else "is not a warpsmith.evaluator.devices.kinds.DeviceKind"


DEVICES: Final[Registry[DeviceKind]] = Registry("warpsmith.devices", "device", _check)


def device_kind(name: str) -> DeviceKind:
    """Return a kind of device by its name in a configuration.

    Raises:
        RegistryError: no package provides it, or it cannot be imported.
    """
    return DEVICES.get(name)


DeviceName = Annotated[str, Choices(DEVICES)]
