"""Samplers by name: the entry points in `warpsmith.samplers`."""

from pathlib import Path

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.registries import SAMPLERS
from warpsmith.rollout.samplers.base import Sampler


def start_sampler(path: str | Path, config: SamplerConfig, *, weight_version: int = 0) -> Sampler:
    """Start the configured sampler in this process.

    Args:
        path: a Hugging Face directory.
        config: its settings.
        weight_version: version of the weights at `path`.

    Raises:
        RegistryError: the sampler cannot be imported.
        SamplerError: it rejects the model or the settings.
    """
    return SAMPLERS.get(config.type)(Path(path), config, weight_version=weight_version)
