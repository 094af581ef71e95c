"""Samplers by name: the entry points in `warpsmith.samplers`."""

from pathlib import Path
from typing import Final

from warpsmith.records.registry import Registry
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.base import Sampler, SamplerType
from warpsmith.rollout.samplers.weights.transports.registry import TRANSPORTS, transport_name

SAMPLERS: Final[Registry[SamplerType]] = Registry(
    "warpsmith.samplers", "sampler", check=lambda part: "" if callable(part) else "is not callable"
)


def start_sampler(path: str | Path, config: SamplerConfig, *, weight_version: int = 0) -> Sampler:
    """Start the configured sampler in this process.

    Args:
        path: a Hugging Face directory.
        config: its settings.
        weight_version: version of the weights at `path`.

    Raises:
        RegistryError: no package provides a sampler of this type, or it cannot be imported.
        SamplerError: it refuses the model or the settings.
    """
    return SAMPLERS.get(config.type)(Path(path), config, weight_version=weight_version)


def check_sampler(config: SamplerConfig) -> None:
    """Look up sampler and transport by name, so that a run with a wrong name starts nothing. Imports neither.

    Raises:
        RegistryError: no package, or more than one, provides one of them.
    """
    SAMPLERS.check_name(config.type)
    TRANSPORTS.check_name(transport_name(config))
