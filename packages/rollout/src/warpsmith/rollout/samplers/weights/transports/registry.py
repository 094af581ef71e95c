"""Transports by name: the entry points in `warpsmith.transports`."""

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.registries import TRANSPORTS
from warpsmith.rollout.samplers.weights.transports.base import WeightTransport


def make_transport(config: SamplerConfig) -> WeightTransport:
    """Return the configured transport, or the default of the sampler's device.

    Raises:
        RegistryError: it cannot be imported.
        UsageError: it does not support the sampler's settings.
    """
    default = "in_process" if config.device == "cpu" else "shared_file"
    return TRANSPORTS.get(config.transport or default)(config)
