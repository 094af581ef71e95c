"""A real vLLM sampler that takes adapters: what it samples with, when, and what it refuses."""

import asyncio

import pytest
import torch
from adapted_models import IDS, LONG, LORA, adapted, reference

from warpsmith.policy.loading import load_policy
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers import Adapter, Sampling, WeightPayload
from warpsmith.rollout.samplers.vllm import settings
from warpsmith.rollout.samplers.vllm.in_process import VllmSampler
from warpsmith.rollout.samplers.weights.transports.registry import make_transport

CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=8, lora_rank=4)


def payload(version, factors, rank=LORA.rank):
    return WeightPayload.from_state_dict(version, factors, Adapter.of(factors, rank, LORA.alpha))


@pytest.fixture(scope="module")
def sampler(tiny_checkpoint):
    sampler = VllmSampler(tiny_checkpoint, CONFIG)
    yield sampler
    asyncio.run(sampler.close())


@pytest.mark.slow
def test_an_adapter_takes_the_place_of_the_one_before_and_no_prefix_survives(sampler, tiny_checkpoint):
    base = reference(load_policy(tiny_checkpoint).model, LONG)
    assert asyncio.run(sampler.score(LONG)) == pytest.approx(base, abs=1e-4)
    for version, seed in ((7, 1), (8, 2)):
        model, factors = adapted(tiny_checkpoint, seed)
        asyncio.run(sampler.update_weights(payload(version, factors)))
        assert sampler.weight_version == version
        # Sampled before anything is scored: from the cache of the weights before it would be another log-probability.
        first = asyncio.run(sampler.generate(LONG, Sampling(max_tokens=2, seed=0)))
        expected = reference(model, LONG + first.ids)
        assert first.logprobs == pytest.approx(expected[len(LONG) :], abs=1e-4)
        assert asyncio.run(sampler.score(LONG)) == pytest.approx(expected[: len(LONG)], abs=1e-4)
        assert max(abs(a - b) for a, b in zip(base, expected, strict=False)) > 1e-2
        assert set(first.weight_versions) == {version}


@pytest.mark.slow
def test_completions_run_on_across_an_adapter_update(sampler, tiny_checkpoint):
    before = sampler.weight_version
    model, factors = adapted(tiny_checkpoint, 3)

    async def go():
        running = asyncio.ensure_future(sampler.generate(IDS, Sampling(max_tokens=180, seed=1)))
        await sampler.generate(IDS, Sampling(max_tokens=20))
        await sampler.update_weights(payload(30, factors))
        return await running

    completion = asyncio.run(go())
    assert set(completion.weight_versions) == {before, 30}
    first_new = completion.weight_versions.index(30)
    expected = reference(model, IDS + completion.ids)[len(IDS) :]
    assert completion.logprobs[first_new:] == pytest.approx(expected[first_new:], abs=1e-4)


@pytest.mark.slow
def test_what_is_no_whole_adapter_of_this_model_changes_nothing(sampler, tiny_checkpoint):
    model, factors = adapted(tiny_checkpoint, 4)
    version, before = sampler.weight_version, asyncio.run(sampler.score(IDS))
    name = next(iter(factors))
    foreign = {key.replace("layers.1", "layers.9"): value for key, value in factors.items()}
    half = {key: value for key, value in factors.items() if key != name}
    reshaped = {**factors, name: torch.zeros(4, 3)}
    whole = WeightPayload.from_state_dict(99, model.state_dict())
    wrong = [(payload(99, half), "lacks"), (payload(99, reshaped), "shape"), (payload(99, foreign), "no such linear")]
    for broken, part in [*wrong, (payload(99, factors, rank=16), "ranks up to 4"), (whole, "started for adapters")]:
        with pytest.raises(BadPayloadError, match=part):
            asyncio.run(sampler.update_weights(broken))
    assert sampler.weight_version == version
    assert asyncio.run(sampler.score(IDS)) == pytest.approx(before)


def test_a_sampler_of_whole_weights_takes_no_adapter():
    one = {"base_model.model.a.q_proj.lora_A.weight": torch.zeros(4, 3)}
    with pytest.raises(BadPayloadError, match=r"rank 4; the sampler takes whole weights.*lora_rank = 4"):
        settings.check_kind(payload(1, one), SamplerConfig())


@pytest.mark.parametrize(("rank", "largest"), [(1, 8), (8, 8), (9, 16), (300, 320), (512, 512)])
def test_vllm_is_given_a_rank_that_it_knows(tmp_path, rank, largest):
    config = SamplerConfig(lora_rank=rank)
    arguments = settings.engine_arguments(tmp_path, config, make_transport(config))
    assert (arguments["enable_lora"], arguments["max_lora_rank"]) == (True, largest)
    assert "enable_lora" not in settings.engine_arguments(tmp_path, SamplerConfig(), make_transport(config))
