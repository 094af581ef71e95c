"""Prints the log-probabilities of given tokens by vLLM, which opens each of `IDS MODEL[:ADAPTER] ...`; a line each."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.weights.transports.registry import make_transport


def score(ids: list[int], model: str, *adapter: str) -> list[float]:
    config = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=8, lora_rank=8 if adapter else 0)
    settings.set_environment(config)
    from vllm.engine.arg_utils import EngineArgs
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.llm_engine import LLMEngine

    engine = LLMEngine.from_engine_args(
        EngineArgs(**settings.engine_arguments(Path(model), config, make_transport(config)))
    )
    lora = LoRARequest("exported", 1, adapter[0]) if adapter else None
    engine.add_request("0", {"prompt_token_ids": ids}, settings.scoring_params(), lora_request=lora)
    scored = [output.prompt_logprobs for output in _steps(engine) if output.prompt_logprobs]
    return [0.0 if entry is None else entry[token].logprob for token, entry in zip(ids, scored[-1], strict=True)]


def main(ids: list[int], *opened: str) -> None:
    """One process for all: half of what an engine's start takes is to import vLLM."""
    for named in opened:
        found = score(ids, *named.split(":"))
        gc.collect()
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        cleanup_dist_env_and_memory()
        print(json.dumps(found))


def _steps(engine: Any) -> Iterator[Any]:
    while engine.has_unfinished_requests():
        yield from engine.step()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
