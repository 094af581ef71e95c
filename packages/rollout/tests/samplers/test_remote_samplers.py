"""Samplers in Ray actors: requests, updates through the object store, death and restart."""

import asyncio
import os

import psutil
import pytest

from warpsmith.policy.loading import load_policy
from warpsmith.records.errors import UsageError
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, DeadlinePassedError, SamplerDiedError, SamplerError
from warpsmith.rollout.samplers import Sampler, Sampling, WeightPayload
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler

CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=4)
PROMPT = list(range(5, 25))


def test_a_pool_of_none_is_refused():
    with pytest.raises(UsageError, match="without samplers"):
        SamplerPool([])


@pytest.fixture(scope="module")
def ray():
    with ray_session(num_cpus=2, object_store_bytes=128 << 20):
        import ray

        yield ray


async def check_that_errors_arrive_as_they_were_raised(sampler, state):
    with pytest.raises(SamplerError, match="no tokens"):
        await sampler.generate([], Sampling())
    part = dict(list(state.items())[1:])
    with pytest.raises(BadPayloadError, match="lacks"):
        await sampler.update_weights(WeightPayload.from_state_dict(1, part))
    assert sampler.weight_version == 0


async def kill(sampler, ray):
    """Kill a sampler's process; `ray.kill` alone returns before it has ended, and it may still answer."""
    process = psutil.Process(await sampler.actor.__ray_call__.remote(lambda _: os.getpid()))
    ray.kill(sampler.actor)
    _, alive = await asyncio.to_thread(psutil.wait_procs, [process], 60)
    assert not alive


async def check_that_one_that_may_not_restart_is_an_error(sampler, ray):
    pool = SamplerPool([sampler], max_restarts=0)
    await kill(sampler, ray)
    with pytest.raises(SamplerDiedError, match="died 1 times"):
        await pool.generate(PROMPT, Sampling(max_tokens=2))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_samplers_share_the_work_take_one_payload_tell_errors_and_survive_deaths(ray, tiny_checkpoint):
    policy = load_policy(tiny_checkpoint, dtype="float32")
    doubled = {name: tensor * 1.1 for name, tensor in policy.model.state_dict().items()}

    async def go():
        members = [RemoteSampler(tiny_checkpoint, CONFIG, name=f"sampler {i}") for i in range(2)]
        pool = SamplerPool(members)
        assert isinstance(pool, Sampler)
        await pool.ready()
        await check_that_errors_arrive_as_they_were_raised(members[0], policy.model.state_dict())
        completions = await asyncio.gather(*(pool.generate(PROMPT, Sampling(max_tokens=8, seed=s)) for s in range(6)))
        assert [len(c.ids) for c in completions] == [8] * 6
        await pool.update_weights(WeightPayload.from_state_dict(5, doubled))
        assert pool.weight_version == 5
        scores = [await member.score(PROMPT) for member in members]
        assert scores[0] == pytest.approx(scores[1])
        await kill(members[0], ray)
        with pytest.raises(SamplerDiedError, match="sampler 0"):
            await members[0].score(PROMPT)
        again, rescored = await asyncio.gather(
            asyncio.gather(*(pool.generate(PROMPT, Sampling(max_tokens=8, seed=s)) for s in range(4))),
            asyncio.gather(*(member.score(PROMPT) for member in pool.members)),
        )
        assert {v for c in again for v in c.weight_versions} == {5}
        assert rescored == [pytest.approx(scores[1])] * 2
        assert (members[0].restarts, members[1].restarts) == (1, 0)
        await check_that_one_that_may_not_restart_is_an_error(members[1], ray)
        await pool.close()

    asyncio.run(go())


@pytest.mark.slow
def test_a_sampler_that_cannot_start_says_why_and_one_that_is_late_is_not_waited_for(ray, tiny_checkpoint, tmp_path):
    async def go():
        broken = RemoteSampler(tmp_path, CONFIG, name="sampler 7")
        with pytest.raises(SamplerError, match=r"sampler 7|safetensors"):
            await broken.ready()
        late = RemoteSampler(tiny_checkpoint, CONFIG.model_copy(update={"start_timeout_s": 0.05}), name="sampler 8")
        with pytest.raises(DeadlinePassedError, match="sampler 8 to start"):
            await late.ready()
        ray.kill(late.actor)

    asyncio.run(go())
