"""A real vLLM sampler with a tiny model: its tokens, log-probs, versions, refusals, and updates while it samples."""

import asyncio
import copy

import pytest
import torch

from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, SamplerDiedError, SamplerError
from warpsmith.rollout.samplers import Sampler, Sampling, WeightPayload
from warpsmith.rollout.samplers.vllm.in_process import VllmSampler

pytestmark = pytest.mark.slow

CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=8)
PROMPT = list(range(5, 25))


@pytest.fixture(scope="module")
def policy(tiny_checkpoint):
    return load_policy(tiny_checkpoint, dtype="float32")


@pytest.fixture(scope="module")
def sampler(tiny_checkpoint):
    sampler = VllmSampler(tiny_checkpoint, CONFIG)
    yield sampler
    asyncio.run(sampler.close())


@pytest.fixture
def restored(sampler, policy):
    """The sampler; afterwards it has the policy's weights again."""
    yield sampler
    asyncio.run(
        sampler.update_weights(WeightPayload.from_state_dict(sampler.weight_version + 1, policy.model.state_dict()))
    )


def reference_logprobs(model, ids):
    with torch.no_grad():
        logprobs, _ = token_logprobs(model, torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))
    return logprobs[0].tolist()


def generate_all(sampler, samplings, prompt=PROMPT):
    async def go():
        return await asyncio.gather(*(sampler.generate(prompt, s) for s in samplings))

    return asyncio.run(go())


def test_it_is_a_sampler(sampler):
    assert isinstance(sampler, Sampler)


def test_logprobs_are_those_of_the_model(sampler, policy):
    for completion in generate_all(sampler, [Sampling(max_tokens=30, seed=s) for s in range(4)]):
        expected = reference_logprobs(policy.model, PROMPT + completion.ids)[len(PROMPT) :]
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)
        assert len(completion.ids) == len(completion.weight_versions)


def test_logprobs_are_after_temperature(sampler, policy):
    (completion,) = generate_all(sampler, [Sampling(max_tokens=20, seed=1, temperature=0.5)])
    ids = torch.tensor([PROMPT + completion.ids])
    with torch.no_grad():
        logprobs, _ = token_logprobs(policy.model, ids, torch.ones_like(ids), temperature=0.5)
    assert completion.logprobs == pytest.approx(logprobs[0, len(PROMPT) :].tolist(), abs=1e-4)


def test_seeds_repeat_whatever_is_sampled_beside(sampler):
    together = generate_all(sampler, [Sampling(max_tokens=24, seed=s) for s in range(8)])
    (alone,) = generate_all(sampler, [Sampling(max_tokens=24, seed=3)])
    assert alone.ids == together[3].ids
    assert len({tuple(c.ids) for c in together}) == 8


def test_a_stop_token_ends_a_completion_and_is_its_last_id(sampler):
    (free,) = generate_all(sampler, [Sampling(max_tokens=20, seed=0)])
    stop = free.ids[7]
    (stopped,) = generate_all(sampler, [Sampling(max_tokens=20, seed=0, stop_token_ids=(stop,))])
    assert stopped.finish_reason == "stop"
    assert stopped.ids == free.ids[: free.ids.index(stop) + 1]
    assert len(stopped.logprobs) == len(stopped.ids)
    assert free.finish_reason == "length"


def test_scores_are_the_models_logprobs(sampler, policy):
    ids = list(range(3, 60))
    assert asyncio.run(sampler.score(ids)) == pytest.approx(reference_logprobs(policy.model, ids), abs=1e-4)


def changed(policy, factor):
    return {name: tensor * factor for name, tensor in policy.model.state_dict().items()}


def test_an_update_takes_effect_and_the_prefix_cache_is_dropped(restored, policy):
    ids = list(range(3, 60))
    before = asyncio.run(restored.score(ids))
    generate_all(restored, [Sampling(max_tokens=2)], ids)
    asyncio.run(restored.update_weights(WeightPayload.from_state_dict(9, changed(policy, 1.1))))
    assert restored.weight_version == 9
    (first,) = generate_all(restored, [Sampling(max_tokens=2, seed=0)], ids)
    after = asyncio.run(restored.score(ids + first.ids))
    assert max(abs(a - b) for a, b in zip(before, after, strict=False)) > 1e-2
    # From the cache of the old weights the sampled log-probs would not be those of the new ones.
    assert first.logprobs == pytest.approx(after[len(ids) :], abs=1e-4)


def test_every_layer_has_the_new_weights_the_tied_output_layer_too(restored, policy):
    generator = torch.Generator().manual_seed(0)
    state = policy.model.state_dict()
    new = {name: t + 0.05 * torch.randn(t.shape, generator=generator) for name, t in state.items()}
    new["lm_head.weight"] = new["model.embed_tokens.weight"]
    model = copy.deepcopy(policy.model)
    model.load_state_dict(new)
    ids = list(range(3, 60))
    asyncio.run(restored.update_weights(WeightPayload.from_state_dict(restored.weight_version + 1, new)))
    assert asyncio.run(restored.score(ids)) == pytest.approx(reference_logprobs(model, ids), abs=1e-4)


def test_completions_run_on_across_an_update_and_each_token_knows_its_version(restored, policy):
    payload = WeightPayload.from_state_dict(30, changed(policy, 1.2))
    before = restored.weight_version

    async def go():
        running = [asyncio.ensure_future(restored.generate(PROMPT, Sampling(max_tokens=200, seed=s))) for s in range(4)]
        await restored.generate(PROMPT, Sampling(max_tokens=20))
        await restored.update_weights(payload)
        return await asyncio.gather(*running)

    for completion in asyncio.run(go()):
        versions = completion.weight_versions
        assert versions == sorted(versions)
        assert set(versions) == {before, 30}
        scores = asyncio.run(restored.score(PROMPT + completion.ids))[len(PROMPT) :]
        first_new = versions.index(30)
        assert completion.logprobs[first_new:] == pytest.approx(scores[first_new:], abs=1e-4)
        assert completion.logprobs[:first_new] != pytest.approx(scores[:first_new], abs=1e-4)


def test_partial_and_foreign_payloads_change_nothing(sampler, policy):
    ids, version = list(range(3, 40)), sampler.weight_version
    before = asyncio.run(sampler.score(ids))
    weights = changed(policy, 2.0)
    missing = {name: tensor for name, tensor in weights.items() if "layers.1.self_attn.q_proj" not in name}
    reshaped = {**weights, "model.norm.weight": torch.zeros(3)}
    for broken, part in ((missing, "lacks"), (reshaped, "shape"), ({**weights, "extra": torch.zeros(1)}, "unknown")):
        with pytest.raises(BadPayloadError, match=part):
            asyncio.run(sampler.update_weights(WeightPayload.from_state_dict(99, broken)))
    assert sampler.weight_version == version
    assert asyncio.run(sampler.score(ids)) == pytest.approx(before)


@pytest.mark.parametrize(
    ("prompt", "part"), [([], "no tokens"), (list(range(256)), "256 tokens"), ([10**6], "rejects")]
)
def test_requests_that_cannot_be_served_are_refused_and_others_go_on(sampler, prompt, part):
    with pytest.raises(SamplerError, match=part):
        generate_all(sampler, [Sampling(max_tokens=4)], prompt)
    assert len(generate_all(sampler, [Sampling(max_tokens=4)])[0].ids) == 4


def test_a_cancelled_request_frees_its_place(sampler):
    async def go():
        task = asyncio.ensure_future(sampler.generate(PROMPT, Sampling(max_tokens=230)))
        await sampler.generate(PROMPT, Sampling(max_tokens=3))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Answered by the sampler's thread after it has looked at cancellations.
        await sampler.generate(PROMPT, Sampling(max_tokens=3))

    asyncio.run(go())
    assert sampler.in_flight == 0


def test_closing_fails_what_is_in_flight_and_what_comes_after(tiny_checkpoint):
    async def go():
        sampler = VllmSampler(tiny_checkpoint, CONFIG)
        task = asyncio.ensure_future(sampler.generate(PROMPT, Sampling(max_tokens=230)))
        await sampler.generate(PROMPT, Sampling(max_tokens=2))
        await sampler.close()
        with pytest.raises(SamplerDiedError, match="closed"):
            await task
        with pytest.raises(SamplerDiedError, match="closed"):
            await sampler.generate(PROMPT, Sampling())

    asyncio.run(go())


def test_a_model_that_vllm_cannot_load_is_a_typed_error(tiny_checkpoint, tmp_path):
    with pytest.raises(BadPayloadError, match="safetensors"):
        VllmSampler(tmp_path, CONFIG)
    for file in tiny_checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SamplerError, match="cannot start"):
        VllmSampler(tmp_path, CONFIG)
