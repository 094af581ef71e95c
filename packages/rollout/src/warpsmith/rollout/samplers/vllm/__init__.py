"""vLLM as a sampler: on a CPU in this process, on a GPU in its own processes. Imports vLLM when one is started."""

from pathlib import Path

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.base import Sampler


def start(path: Path, config: SamplerConfig, *, weight_version: int = 0) -> Sampler:
    """Start vLLM on the configured device; the sampler `vllm`.

    Args:
        path: a Hugging Face directory.
        config: its settings.
        weight_version: version of the weights at `path`.

    Raises:
        SamplerError: vLLM rejects the model or the settings.
        DeadlinePassedError: it did not start in time.
    """
    if config.device == "cpu":
        from warpsmith.rollout.samplers.vllm.in_process import VllmSampler

        return VllmSampler(path, config, weight_version=weight_version)
    from warpsmith.rollout.samplers.vllm.asynchronous import AsyncVllmSampler

    return AsyncVllmSampler(path, config, weight_version=weight_version)
