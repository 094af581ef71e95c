"""Transports by name: the entry points in `warpsmith.transports`."""

from typing import Final

from warpsmith.records.registry import Registry
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.weights.transports.base import TransportType, WeightTransport

TRANSPORTS: Final[Registry[TransportType]] = Registry(
    "warpsmith.transports", "weight transport", check=lambda part: "" if callable(part) else "is not callable"
)


def transport_name(config: SamplerConfig) -> str:
    """Return the transport that is configured, or the default of the sampler's device."""
    return config.transport or ("in_process" if config.device == "cpu" else "shared_file")


def make_transport(config: SamplerConfig) -> WeightTransport:
    """Return the sampler's transport.

    Raises:
        RegistryError: no package provides it, or it cannot be imported.
        UsageError: it does not suit the sampler's settings.
    """
    return TRANSPORTS.get(transport_name(config))(config)
