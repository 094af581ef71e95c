"""A real vLLM sampler with an adapter for each agent: who is served by which, and what it refuses.

In a file of its own: an engine that ends takes vLLM's process groups from another one in its process.
"""

import asyncio

import pytest
from adapted_models import IDS, LONG, LORA, adapted, reference

from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, SamplerError
from warpsmith.rollout.samplers import Adapter, Sampling, WeightPayload
from warpsmith.rollout.samplers.vllm.in_process import VllmSampler

AGENTS = ("generator", "optimizer")
CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=8, lora_rank=4, lora_agents=AGENTS)


@pytest.mark.slow
def test_each_request_is_served_by_the_adapter_of_its_agent(tiny_checkpoint):
    """Both at once, in one engine, with prompts in common; and a new version of both in one update."""
    sampler = VllmSampler(tiny_checkpoint, CONFIG)

    async def sampled(models):
        askings = [(agent, Sampling(max_tokens=12, seed=seed, agent=agent)) for agent in AGENTS for seed in (0, 1)]
        found = await asyncio.gather(*(sampler.generate(LONG, asking) for _, asking in askings))
        for (agent, _), completion in zip(askings, found, strict=True):
            expected = reference(models[agent], LONG + completion.ids)
            assert completion.logprobs == pytest.approx(expected[len(LONG) :], abs=1e-4)
            assert await sampler.score(LONG, agent) == pytest.approx(expected[: len(LONG)], abs=1e-4)

    async def go():
        for version, seeds in ((1, (1, 2)), (2, (3, 1))):
            made = {agent: adapted(tiny_checkpoint, seed) for agent, seed in zip(AGENTS, seeds, strict=True)}
            factors = {f"{agent}/{name}": value for agent, (_, own) in made.items() for name, value in own.items()}
            sent = WeightPayload.from_state_dict(version, factors, Adapter.of(factors, 4, LORA.alpha, AGENTS))
            await sampler.update_weights(sent)
            await sampled({agent: model for agent, (model, _) in made.items()})
        for unknown in ("critic", None):
            with pytest.raises(SamplerError, match=r"adapters for generator, optimizer; a request is from (critic|no)"):
                await sampler.generate(IDS, Sampling(max_tokens=2, agent=unknown))
        half = {name: value for name, value in factors.items() if name.startswith("generator")}
        with pytest.raises(BadPayloadError, match="lacks optimizer/"):
            await sampler.update_weights(
                WeightPayload.from_state_dict(3, half, Adapter.of(factors, 4, LORA.alpha, AGENTS))
            )
        with pytest.raises(BadPayloadError, match=r"adapters for generator; .*those of generator, optimizer"):
            await sampler.update_weights(
                WeightPayload.from_state_dict(3, half, Adapter.of(half, 4, LORA.alpha, AGENTS[:1]))
            )
        assert sampler.weight_version == 2
        await sampler.close()

    asyncio.run(go())
