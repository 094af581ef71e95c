"""The gate between turns: no completion is in flight while it is closed, and judging goes on."""

import asyncio

import pytest

from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.gate import TurnGate
from warpsmith.rollout.samplers.base import Completion


def test_closing_waits_for_those_inside_and_holds_the_others() -> None:
    async def go() -> list[str]:
        gate, told, leave = TurnGate(), [], asyncio.Event()

        async def first() -> None:
            async with gate.passage():
                told.append("first in")
                await leave.wait()
                told.append("first out")

        async def second() -> None:
            async with gate.passage():
                told.append("second in")

        inside = asyncio.create_task(first())
        await asyncio.sleep(0)
        closing = asyncio.create_task(gate.close())
        await asyncio.sleep(0)
        late = asyncio.create_task(second())
        await asyncio.sleep(0)
        assert not closing.done()
        leave.set()
        await closing
        told.append("closed")
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(inside, late)
        return told

    assert asyncio.run(go()) == ["first in", "first out", "closed", "second in"]


def test_one_who_fails_or_is_cancelled_inside_is_inside_no_more() -> None:
    async def go() -> None:
        gate = TurnGate()

        async def stays() -> None:
            async with gate.passage():
                await asyncio.Event().wait()

        with pytest.raises(ValueError, match="lost"):
            async with gate.passage():
                raise ValueError("lost")
        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait_for(gate.close(), 5)

    asyncio.run(go())


def test_the_gate_may_close_again_before_those_that_wait_have_woken() -> None:
    async def go() -> None:
        gate = TurnGate()
        await gate.close()
        told: list[str] = []

        async def waits() -> None:
            async with gate.passage():
                told.append("in")

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        gate.open()
        await gate.close()
        await asyncio.sleep(0)
        assert not told
        gate.open()
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
        gate, sampler = TurnGate(), CountingSampler()
        config = RolloutConfig(
            prompt_style="compact", prompt_tokens=2000, engine={"max_model_len": 4096}, max_turns=4,
            max_consecutive_failures=4,
        )  # fmt: skip
        judge = scripted_judge(lambda kernel: verdicts["wrong"])
        collector = Collector(sampler, judge, chat, config, run="r", gate=gate)
        collecting = asyncio.create_task(collector.collect([problem], 8, label="step-1", seed=0))
        while not collecting.done():
            await gate.close()
            assert not sampler.running
            sampler.weight_version += 1
            gate.open()
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
