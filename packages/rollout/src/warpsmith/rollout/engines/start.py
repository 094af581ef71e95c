"""Starting the engine that a configuration names, in this process."""

from pathlib import Path

from warpsmith.rollout.config import EngineConfig
from warpsmith.rollout.engines.base import Engine


def start_engine(path: str | Path, config: EngineConfig, *, weight_version: int = 0) -> Engine:
    """Return a running engine: in process on a CPU, vLLM's asynchronous engine on a GPU.

    Raises:
        EngineError: vLLM refuses the model or the settings.
    """
    if config.device == "cpu":
        from warpsmith.rollout.engines.vllm_engine import VllmEngine

        return VllmEngine(path, config, weight_version=weight_version)
    from warpsmith.rollout.engines.async_engine import AsyncVllmEngine

    return AsyncVllmEngine(path, config, weight_version=weight_version)
