"""Engines in Ray actors: requests, updates through the object store, death and restart."""

import asyncio
import os

import psutil
import pytest

from warpsmith.policy.loading import load_policy
from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import EngineConfig
from warpsmith.rollout.engines import Engine, Sampling, WeightPayload
from warpsmith.rollout.engines.actor import RemoteEngine
from warpsmith.rollout.engines.cluster import ray_session
from warpsmith.rollout.engines.pool import EnginePool
from warpsmith.rollout.errors import BadPayloadError, DeadlinePassedError, EngineDiedError, EngineError

CONFIG = EngineConfig(dtype="float32", max_model_len=256, max_sequences=4)
PROMPT = list(range(5, 25))


def test_a_pool_of_none_is_refused():
    with pytest.raises(UsageError, match="no engines"):
        EnginePool([])


@pytest.fixture(scope="module")
def ray():
    with ray_session(num_cpus=2, object_store_bytes=128 << 20):
        import ray

        yield ray


async def check_that_errors_arrive_as_they_were_raised(engine, state):
    with pytest.raises(EngineError, match="no tokens"):
        await engine.generate([], Sampling())
    part = dict(list(state.items())[1:])
    with pytest.raises(BadPayloadError, match="lacks"):
        await engine.update_weights(WeightPayload.from_state_dict(1, part))
    assert engine.weight_version == 0


async def kill(engine, ray):
    """Kill an engine's process; `ray.kill` alone returns before it has ended, and it may still answer."""
    process = psutil.Process(await engine._actor.__ray_call__.remote(lambda _: os.getpid()))
    ray.kill(engine._actor)
    _, alive = await asyncio.to_thread(psutil.wait_procs, [process], 60)
    assert not alive


async def check_that_one_that_may_not_restart_is_an_error(engine, ray):
    pool = EnginePool([engine], max_restarts=0)
    await kill(engine, ray)
    with pytest.raises(EngineDiedError, match="died 1 times"):
        await pool.generate(PROMPT, Sampling(max_tokens=2))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_engines_share_the_work_take_one_payload_tell_errors_and_survive_deaths(ray, tiny_checkpoint):
    policy = load_policy(tiny_checkpoint, dtype="float32")
    doubled = {name: tensor * 1.1 for name, tensor in policy.model.state_dict().items()}

    async def go():
        members = [RemoteEngine(tiny_checkpoint, CONFIG, name=f"engine {i}") for i in range(2)]
        pool = EnginePool(members)
        assert isinstance(pool, Engine)
        await pool.ready()
        await check_that_errors_arrive_as_they_were_raised(members[0], policy.model.state_dict())
        completions = await asyncio.gather(*(pool.generate(PROMPT, Sampling(max_tokens=8, seed=s)) for s in range(6)))
        assert [len(c.ids) for c in completions] == [8] * 6
        await pool.update_weights(WeightPayload.from_state_dict(5, doubled))
        assert pool.weight_version == 5
        scores = [await member.score(PROMPT) for member in members]
        assert scores[0] == pytest.approx(scores[1])
        await kill(members[0], ray)
        with pytest.raises(EngineDiedError, match="engine 0"):
            await members[0].score(PROMPT)
        again, told = await asyncio.gather(
            asyncio.gather(*(pool.generate(PROMPT, Sampling(max_tokens=8, seed=s)) for s in range(4))),
            asyncio.gather(*(member.score(PROMPT) for member in pool.members)),
        )
        assert {v for c in again for v in c.weight_versions} == {5}
        assert told == [pytest.approx(scores[1])] * 2
        assert (members[0].restarts, members[1].restarts) == (1, 0)
        await check_that_one_that_may_not_restart_is_an_error(members[1], ray)
        await pool.close()

    asyncio.run(go())


@pytest.mark.slow
def test_an_engine_that_cannot_start_says_why_and_one_that_is_late_is_not_waited_for(ray, tiny_checkpoint, tmp_path):
    async def go():
        broken = RemoteEngine(tmp_path, CONFIG, name="engine 7")
        with pytest.raises(EngineError, match=r"engine 7|safetensors"):
            await broken.ready()
        late = RemoteEngine(tiny_checkpoint, CONFIG.model_copy(update={"start_timeout_s": 0.05}), name="engine 8")
        with pytest.raises(DeadlinePassedError, match="engine 8 to start"):
            await late.ready()
        ray.kill(late._actor)

    asyncio.run(go())
