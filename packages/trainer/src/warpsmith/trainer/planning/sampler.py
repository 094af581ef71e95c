"""Memory of one vLLM sampler, and the number of tokens that its KV cache then holds."""

from dataclasses import dataclass

from warpsmith.rollout.config import SamplerConfig
from warpsmith.trainer.planning.parts import Part
from warpsmith.trainer.planning.shapes import ModelShape
from warpsmith.trainer.planning.sizes import GIB

_WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
_LOGIT_COPIES = 4
"""fp32 arrays of (sequences, vocabulary) in sampling with log-probabilities: logits, two of softmax, noise."""


@dataclass(frozen=True)
class Cache:
    """A KV cache.

    Attributes:
        bytes: size on one device; negative if the rest leaves nothing.
        tokens: its capacity.
        sequences: number of full-length sequences that it holds at once.
    """

    bytes: int
    tokens: int
    sequences: float


def token_bytes(shape: ModelShape, sampler: SamplerConfig) -> int:
    """Return the bytes of keys and values of one token on one device: 2 L K D b; K is at least 1 per device.

    Source: `FullAttentionSpec.page_size_bytes` of vLLM 0.32, and its `ModelConfig.get_num_kv_heads`.
    """
    heads = max(1, shape.kv_heads // sampler.tensor_parallel_size)
    return 2 * shape.layers * heads * shape.head_dim * _WIDTH[sampler.dtype]


def cuda_parts(shape: ModelShape, sampler: SamplerConfig, device_bytes: int) -> tuple[list[Part], Cache]:
    """Return the parts of one of a sampler's GPUs, and its cache.

    vLLM takes `gpu_memory_utilization` of the device's memory. What remains after weights (b P / T over T devices), the
    peak of a profiling pass over `max_batched_tokens`, CUDA and graphs becomes KV cache (vLLM 0.32,
    `GPUWorker.determine_available_memory`), unless `gpu_kv_cache_gib` sets its size.
    """
    budget = int(device_bytes * sampler.gpu_memory_utilization)
    spread = sampler.tensor_parallel_size
    parts = [
        Part("vLLM: weights", shape.parameters * _WIDTH[sampler.dtype] // spread),
        Part("vLLM: largest step", _largest_step(shape, sampler)),
        Part("vLLM: CUDA context and libraries", GIB * 6 // 10, assumed=True),
    ]
    if spread > 1:
        parts.append(Part("vLLM: NCCL", GIB, assumed=True))
    if not sampler.enforce_eager:
        parts.append(Part("vLLM: CUDA graphs", GIB, assumed=True))
    given = sampler.gpu_kv_cache_gib
    left = budget - sum(part.bytes for part in parts) if given is None else int(given * GIB)
    parts.append(Part("vLLM: KV cache", max(left, 0)))
    return parts, _cache(shape, sampler, left)


def cpu_parts(shape: ModelShape, sampler: SamplerConfig) -> tuple[list[Part], Cache]:
    """Return the parts of a sampler on a CPU, which uses `kv_cache_gib`, and its cache."""
    size = sampler.kv_cache_gib * GIB
    parts = [
        # vLLM repacks the weights for its kernels.
        Part("vLLM: weights", 2 * shape.parameters * _WIDTH[sampler.dtype]),
        Part("vLLM: largest step", _largest_step(shape, sampler)),
        Part("vLLM: KV cache", size),
        Part("vLLM: process", GIB, assumed=True),
    ]
    return parts, _cache(shape, sampler, size)


def _cache(shape: ModelShape, sampler: SamplerConfig, size: int) -> Cache:
    tokens = max(size, 0) // token_bytes(shape, sampler)
    return Cache(size, tokens, tokens / sampler.max_model_len)


def _largest_step(shape: ModelShape, sampler: SamplerConfig) -> int:
    """Return the activations of a pass over the maximum tokens, and the logits of the maximum sequences.

    A layer's activations do not outlive it: hidden state, residual and norm (3 C), queries, keys, values and output,
    and gate and up with their product (3 I); the last two kinds are split over the devices.
    """
    spread, b = sampler.tensor_parallel_size, _WIDTH[sampler.dtype]
    tokens = max(sampler.max_batched_tokens, sampler.max_model_len)
    attention = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim // spread
    layer = 3 * shape.hidden + attention + 3 * shape.intermediate // spread
    return tokens * layer * b + _LOGIT_COPIES * 4 * sampler.max_sequences * shape.vocabulary
