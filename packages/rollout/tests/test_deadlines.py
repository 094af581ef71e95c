"""Two clocks for one wait: one for standing in line, one for the work."""

import asyncio

import pytest

from warpsmith.rollout.deadlines import QueueState, within_phases
from warpsmith.rollout.errors import DeadlinePassedError


def test_standing_in_line_does_not_count_as_work():
    async def scene():
        state, passed = QueueState(), asyncio.Event()

        async def work():
            for _ in range(3):
                state.set(False)
                await asyncio.sleep(0.5)
                state.set(True)
                await asyncio.sleep(0)
            passed.set()
            return "verdict"

        return await within_phases(60, 1.2, state, work(), "it")

    assert asyncio.run(scene()) == "verdict"


@pytest.mark.parametrize(
    ("running", "says"), [(True, "Waited 0.01 s for it"), (False, "0.02 s for a free slot for it")]
)
def test_each_clock_ends_the_wait_and_what_was_awaited(running, says):
    async def scene():
        state, never = QueueState(), asyncio.Event()
        state.set(running)
        work = asyncio.ensure_future(never.wait())
        with pytest.raises(DeadlinePassedError, match=says):
            await within_phases(0.02, 0.01, state, work, "it")
        await asyncio.wait({work})
        assert work.cancelled()

    asyncio.run(scene())


def test_phases_add_up():
    """Who changes to and fro gains no time: each change may come before either deadline."""

    async def scene():
        state = QueueState()

        async def restless():
            while True:
                state.set(not state.running)
                await asyncio.sleep(0.002)

        with pytest.raises(DeadlinePassedError):
            await within_phases(0.02, 0.02, state, restless(), "it")

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_errors_and_cancellation_pass_through():
    async def fails():
        raise KeyError("x")

    async def scene():
        with pytest.raises(KeyError):
            await within_phases(1, 1, QueueState(), fails(), "it")
        work = asyncio.ensure_future(asyncio.Event().wait())
        waiting = asyncio.ensure_future(within_phases(60, 60, QueueState(), work, "it"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting, work})
        assert work.cancelled()

    asyncio.run(scene())
