"""What vLLM's engine is started with."""

from pathlib import Path

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.weights.transports.registry import make_transport


def arguments(**keys):
    config = SamplerConfig(device="cuda", **keys)
    return settings.engine_arguments(Path("model"), config, make_transport(config))


def test_a_gpus_cache_has_the_size_that_is_given_or_what_is_left():
    assert arguments(gpu_kv_cache_gib=1.5)["kv_cache_memory_bytes"] == 3 << 29
    assert "kv_cache_memory_bytes" not in arguments()


def test_a_model_that_is_not_compiled_still_has_graphs_unless_it_is_eager():
    from vllm.config import CompilationConfig, CompilationMode, CUDAGraphMode

    found = CompilationConfig(**arguments(compile_model=False)["compilation_config"])
    assert (found.mode, found.cudagraph_mode) == (CompilationMode.NONE, CUDAGraphMode.FULL_DECODE_ONLY)
    assert "compilation_config" not in arguments()
    assert "compilation_config" not in arguments(compile_model=False, enforce_eager=True)


def test_vllm_knows_every_argument():
    from vllm.engine.arg_utils import AsyncEngineArgs

    AsyncEngineArgs(**arguments(gpu_kv_cache_gib=1, lora_rank=8, compile_model=False))
