"""What both vLLM samplers share: environment, engine arguments, sampling parameters, checks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.records.wording import installing
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, DeadlinePassedError, RolloutError, SamplerDiedError, SamplerError
from warpsmith.rollout.samplers.base import Sampling
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.rollout.samplers.weights.stream.names import BACKEND, WORKER_EXTENSION
from warpsmith.rollout.samplers.weights.transports.base import WeightTransport

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest

_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
"""Set only where the user has set nothing."""


def set_environment(config: SamplerConfig) -> None:
    """Set the environment variables that vLLM reads; call before vllm is imported.

    On a CPU torch no longer compiles in this process, unless TORCH_COMPILE_DISABLE is set.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    os.environ.update(_cpu_environment(config) if config.device == "cpu" else _cuda_environment())


def _cpu_environment(config: SamplerConfig) -> dict[str, str]:
    variables = {
        # The engine core is in our process: no second interpreter, and weights are passed as tensors.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": str(config.kv_cache_gib),
        # An eager engine would compile only one function, which ranks log-probabilities: seconds without a gain.
        "TORCH_COMPILE_DISABLE": os.environ.get("TORCH_COMPILE_DISABLE", "1"),
    }
    return variables if config.cpu_bind is None else {**variables, "VLLM_CPU_OMP_THREADS_BIND": config.cpu_bind}


def _cuda_environment() -> dict[str, str]:
    # A forked engine hangs if its parent has used torch's OpenMP threads.
    return {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def engine_arguments(path: Path, config: SamplerConfig, transport: WeightTransport) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's engine arguments."""
    shared: dict[str, Any] = {
        "model": str(path),
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_sequences,
        "max_num_batched_tokens": max(config.max_batched_tokens, config.max_model_len),
        # The distribution that tokens were really sampled from, after temperature and truncation.
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "seed": config.seed,
    }
    device = _CPU_ARGUMENTS if config.device == "cpu" else _cuda_arguments(config)
    return {**shared, **device, **_lora_arguments(config), **_extension(config, transport)}


def takes_streams(config: SamplerConfig, transport: WeightTransport) -> bool:
    """Whether a sampler's workers can read weights from the trainer's memory: whole ones, by our own extension."""
    return transport.worker_extension is None and not config.lora_rank


def _extension(config: SamplerConfig, transport: WeightTransport) -> dict[str, Any]:
    if transport.worker_extension is not None:
        return {"worker_extension_cls": transport.worker_extension}
    if not takes_streams(config, transport):
        return {}
    return {"worker_extension_cls": WORKER_EXTENSION, "weight_transfer_config": {"backend": BACKEND}}


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values of `max_lora_rank` that vLLM accepts, except 1."""


def _lora_arguments(config: SamplerConfig) -> dict[str, Any]:
    if not config.lora_rank:
        return {}
    largest = next(rank for rank in _LORA_RANKS if rank >= config.lora_rank)
    count = max(1, len(config.lora_agents))
    return {"enable_lora": True, "max_loras": count, "max_cpu_loras": count, "max_lora_rank": largest}


Requests = dict[str | None, "LoRARequest"]
"""vLLM's requests for the adapters of a sampler, by agent; None for one that serves all."""


def adapter_requests(directory: Path, agents: Sequence[str], *, load: bool = False) -> Requests:
    """Return vLLM's requests for a sampler's adapters.

    All versions of an adapter have the same number, so that running requests continue with the new one.

    Args:
        directory: where the adapters are read from; those of agents from a folder for each.
        agents: the agents that have an adapter each; empty for one adapter.
        load: read them again, replacing the previous ones.
    """
    from vllm.lora.request import LoRARequest

    if not agents:
        return {None: LoRARequest("policy", 1, str(directory), load_inplace=load)}
    return {
        agent: LoRARequest(agent, number, str(directory / agent), load_inplace=load)
        for number, agent in enumerate(agents, start=1)
    }


def adapter_for(agent: str | None, requests: Requests) -> "LoRARequest | None":
    """Return the adapter that a request of an agent uses; None before any was sent, and with whole weights.

    Raises:
        SamplerError: the sampler has an adapter for each agent, and none for this one.
    """
    if not requests:
        return None
    if None in requests:
        return requests[None]
    if agent not in requests:
        names = ", ".join(str(name) for name in requests)
        raise SamplerError(
            f"The sampler has adapters for {names}; a request is from {agent or 'no agent'}.",
            "Use an environment with these agents, or name its agents in policy.adapters.",
        )
    return requests[agent]


def check_adapter_loaded(loaded: bool) -> None:
    """Raise if vLLM did not load an adapter.

    Raises:
        SamplerError: it did not.
    """
    if not loaded:
        raise SamplerError("vLLM did not load the adapter.")


def check_kind(payload: WeightPayload, config: SamplerConfig) -> None:
    """Reject an adapter if the sampler takes complete weights, and complete weights if it takes adapters.

    Raises:
        BadPayloadError: nothing was loaded.
    """
    if payload.adapter is None and config.lora_rank:
        raise BadPayloadError(
            f"Weight version {payload.version} is whole weights; the sampler was started for adapters.",
            "Send the adapter, or start the sampler with lora_rank = 0.",
        )
    if payload.adapter is not None and payload.adapter.agents != config.lora_agents:
        sent, taken = (", ".join(names) or "all" for names in (payload.adapter.agents, config.lora_agents))
        raise BadPayloadError(
            f"Weight version {payload.version} has adapters for {sent}; the sampler was started for those of {taken}.",
            "Send an adapter for each of the sampler's agents, in their order.",
        )
    if payload.adapter is not None and payload.adapter.rank > config.lora_rank:
        raise BadPayloadError(
            f"Weight version {payload.version} is an adapter of rank {payload.adapter.rank}; the sampler takes "
            f"{f'ranks up to {config.lora_rank}' if config.lora_rank else 'whole weights'}.",
            f"Start the sampler with lora_rank = {payload.adapter.rank}, or send whole weights.",
        )


_CPU_ARGUMENTS: Mapping[str, Any] = {
    "distributed_executor_backend": "uni",
    "enforce_eager": True,
    # Chunked prefill with seeded requests kills the CPU engine.
    "enable_chunked_prefill": False,
    # A step in flight would sample with the old weights after an update.
    "async_scheduling": False,
}


_UNCOMPILED: Mapping[str, Any] = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
"""vLLM's compilation without a compiler. Graphs of mixed steps are cut at attention, which takes one."""


def _cuda_arguments(config: SamplerConfig) -> dict[str, Any]:
    size = config.gpu_kv_cache_gib
    return {
        **({} if size is None else {"kv_cache_memory_bytes": int(size * 2**30)}),
        **({} if config.compile_model or config.enforce_eager else {"compilation_config": dict(_UNCOMPILED)}),
        "enforce_eager": config.enforce_eager,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "tensor_parallel_size": config.tensor_parallel_size,
        # Ray gave our actor all GPUs of the sampler. If vLLM counted fewer than it needs, it would request them from
        # Ray again and wait forever.
        "distributed_executor_backend": "mp" if config.tensor_parallel_size > 1 else "uni",
    }


def sampling_params(sampling: Sampling) -> "SamplingParams":
    """Return vLLM's parameters; each output then has only what is new, with the sampled token's log-prob."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        top_k=0 if sampling.top_k is None else sampling.top_k,
        min_p=0.0 if sampling.min_p is None else sampling.min_p,
        seed=sampling.seed,
        stop_token_ids=list(sampling.stop_token_ids),
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def scoring_params() -> "SamplingParams":
    """Return the parameters that request the log-probs of a prompt."""
    from vllm import SamplingParams

    return SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)


def refusals() -> tuple[type[Exception], ...]:
    """Return the errors with which vLLM rejects one request without failing completely."""
    from vllm.exceptions import VLLMValidationError

    return (VLLMValidationError, ValueError, TypeError)


def check_request(prompt_ids: Sequence[int], config: SamplerConfig) -> None:
    """Reject a prompt that leaves no room for an answer.

    Raises:
        SamplerError: it is empty or too long.
    """
    if not prompt_ids:
        raise SamplerError("The prompt has no tokens.", "Pass at least one token.")
    if len(prompt_ids) >= config.max_model_len:
        raise SamplerError(
            f"The prompt has {len(prompt_ids)} tokens; the sampler takes {config.max_model_len} with the completion.",
            "Lower prompt_tokens or raise sampler.max_model_len.",
        )


def check_cache_dropped(dropped: bool) -> None:
    """Reject a prefix cache that outlived its weights: later prompts would read keys and values of the old ones.

    Raises:
        SamplerError: vLLM kept it.
    """
    if not dropped:
        raise SamplerError("vLLM kept the cached prefixes of the old weights.")


def half_loaded_error(version: int, cause: object) -> SamplerDiedError:
    """Return the error of a sampler that may hold a mixture of weights."""
    what = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else str(cause)
    return SamplerDiedError(
        f"Loading weight version {version} stopped half way ({what}), so the sampler cannot be used any more.",
        "Start a new one; see vLLM's log.",
    )


def late_error(version: int, what: str, seconds: float) -> DeadlinePassedError:
    """Return the error of a phase of an update that took too long."""
    return DeadlinePassedError(
        f"Waited {seconds:g} s for {what} of weight version {version}; the sampler cannot be used any more.",
        "Raise sampler.update_timeout_s, or find what blocks vLLM's step.",
    )


def start_error(path: Path, error: Exception) -> RolloutError:
    """Return the error for a sampler that does not start: its own, or one that quotes vLLM's."""
    if isinstance(error, RolloutError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name == "vllm":
        return SamplerError(
            "vLLM is not installed, and the sampler `vllm` needs it.",
            f"{installing('rollout', 'cpu')} For NVIDIA GPUs use [cuda].",
        )
    return SamplerError(
        f"vLLM cannot start on {path}: {type(error).__name__}: {error}.", "Check the model and the sampler's settings."
    )
