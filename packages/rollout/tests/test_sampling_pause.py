"""A pause between turns: no completion is in flight meanwhile, and evaluations continue."""

import asyncio

import pytest

from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.samplers.base import Completion
from warpsmith.rollout.sampling_pause import SamplingPause


def test_a_pause_waits_for_what_is_in_flight_and_holds_the_others() -> None:
    async def go() -> list[str]:
        pause, events, leave = SamplingPause(), [], asyncio.Event()

        async def first() -> None:
            async with pause.sampling():
                events.append("first in")
                await leave.wait()
                events.append("first out")

        async def second() -> None:
            async with pause.sampling():
                events.append("second in")

        inside = asyncio.create_task(first())
        await asyncio.sleep(0)
        closing = asyncio.create_task(pause.pause())
        await asyncio.sleep(0)
        late = asyncio.create_task(second())
        await asyncio.sleep(0)
        assert not closing.done()
        leave.set()
        await closing
        events.append("closed")
        await asyncio.sleep(0)
        pause.resume()
        await asyncio.gather(inside, late)
        return events

    assert asyncio.run(go()) == ["first in", "first out", "closed", "second in"]


def test_what_fails_or_is_cancelled_is_in_flight_no_more() -> None:
    async def go() -> None:
        pause = SamplingPause()

        async def stays() -> None:
            async with pause.sampling():
                await asyncio.Event().wait()

        with pytest.raises(ValueError, match="lost"):
            async with pause.sampling():
                raise ValueError("lost")
        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait_for(pause.pause(), 5)

    asyncio.run(go())


def test_a_pause_may_begin_again_before_those_that_wait_have_woken() -> None:
    async def go() -> None:
        pause = SamplingPause()
        await pause.pause()
        events: list[str] = []

        async def waits() -> None:
            async with pause.sampling():
                events.append("in")

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        pause.resume()
        await pause.pause()
        await asyncio.sleep(0)
        assert not events
        pause.resume()
        await task

    asyncio.run(go())


class CountingSampler:
    """Takes a token's time for each token, with the version that the sampler has at that token."""

    def __init__(self) -> None:
        self.weight_version, self.running = 0, 0

    async def generate(self, prompt_ids, sampling):
        self.running += 1
        versions = []
        for _ in range(4):
            versions.append(self.weight_version)
            await asyncio.sleep(0)
        self.running -= 1
        ids = [ord(c) for c in "x"] * 3 + [0]
        return Completion(ids, [-0.5] * 4, versions, "stop")


def test_every_turn_is_of_one_version_and_an_episode_may_be_of_several(chat, problem, scripted_judge, verdicts) -> None:
    async def go():
        pause, sampler = SamplingPause(), CountingSampler()
        config = RolloutConfig(
            prompt_style="compact", prompt_tokens=2000, sampler={"max_model_len": 4096},
            environment={"max_turns": 4, "max_consecutive_failures": 4},
        )  # fmt: skip
        judge = scripted_judge(lambda kernel: verdicts["wrong"])
        collector = Collector(sampler, judge, chat, config, run="r", pause=pause)
        collecting = asyncio.create_task(collector.collect([problem], 8, label="step-1", seed=0))
        while not collecting.done():
            await pause.pause()
            assert not sampler.running
            sampler.weight_version += 1
            pause.resume()
            for _ in range(3):
                await asyncio.sleep(0)
        return await collecting

    table = asyncio.run(go())
    of_turn = [set(versions) for versions in table["weight_versions"].to_pylist()]
    assert len(of_turn) == 32
    assert all(len(versions) == 1 for versions in of_turn)
    of_trajectory: dict[str, set[int]] = {}
    for name, versions in zip(table["trajectory"].to_pylist(), of_turn, strict=True):
        of_trajectory.setdefault(name, set()).update(versions)
    assert max(map(len, of_trajectory.values())) > 1
