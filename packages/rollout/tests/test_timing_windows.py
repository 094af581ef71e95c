"""Timing on a GPU that also samples: windows in which sampling stands still, with a real judge process."""

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest
from ray import cloudpickle

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.client import evaluator as client
from warpsmith.rollout import timing_windows
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.errors import SamplerError
from warpsmith.rollout.samplers import Sampling
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.timing_windows import TimingWindows

JUDGE = Path(__file__).parent / "support" / "timing_judge.py"
PROBLEM = Problem.from_source("class Model: pass\ndef get_inputs(): return []\n", "none")
SLOTS = 3
DEADLINE_S = 60


class StillSampler:
    """What is paused, as a note of when it stood still; `busy` stands for completions in progress."""

    def __init__(self, busy=True, refusal=None):
        self.in_flight, self.refusal, self.still = int(busy), refusal, False
        self.pauses = []

    @asynccontextmanager
    async def paused(self):
        if self.refusal is not None:
            raise self.refusal
        began, self.still = time.monotonic(), True
        try:
            yield
        finally:
            self.still = False
            self.pauses.append((began, time.monotonic()))


@contextmanager
def judging(sampler, monkeypatch, seen=None):
    """Yield an evaluator whose judge is `timing_judge.py`, and its windows."""
    monkeypatch.setattr(client, "JUDGE_ARGUMENTS", (str(JUDGE),))
    windows = TimingWindows(sampler, pause_timeout_s=DEADLINE_S, on_window=(seen if seen is not None else []).append)
    with Evaluator(EvaluatorConfig(slots=SLOTS), windows=windows) as evaluator:
        yield evaluator, windows


async def verdict(evaluator, **orders):
    return await within(DEADLINE_S, evaluator.evaluate_async(PROBLEM, json.dumps(orders)), "a verdict")


def inside(interval, intervals):
    return any(begin <= interval[0] and interval[1] <= end for begin, end in intervals)


def test_timings_are_gathered_and_each_is_within_a_pause(monkeypatch):
    sampler, seen = StillSampler(), []

    async def go(evaluator, windows):
        async with windows.served():
            # Different trials, so that some timings come while a window is open and some between two.
            return await asyncio.gather(*(verdict(evaluator, trials_s=0.05 * (i % 4)) for i in range(12)))

    with judging(sampler, monkeypatch, seen) as (evaluator, windows):
        found = asyncio.run(go(evaluator, windows))
    assert [one.speedup for one in found] == [2.0] * 12
    timed = [interval for window in seen for interval in window.timed]
    assert len(timed) == 12
    assert all(inside(interval, sampler.pauses) for interval in timed)
    assert all(window.opened <= begin <= end <= window.ended for window in seen for begin, end in window.timed)
    assert len(seen) < 12
    assert not sampler.still


def test_with_nothing_to_sample_a_timing_waits_for_no_others(monkeypatch):
    monkeypatch.setattr(timing_windows, "GATHER_S", DEADLINE_S)

    async def go(evaluator, windows):
        async with windows.served():
            return await verdict(evaluator)

    with judging(StillSampler(busy=False), monkeypatch) as (evaluator, windows):
        assert asyncio.run(go(evaluator, windows)).correct


def test_nothing_is_timed_between_two_collections(monkeypatch):
    sampler = StillSampler()

    async def go(evaluator, windows):
        async with windows.served():
            left_over = asyncio.ensure_future(verdict(evaluator, trials_s=2.0))
            await verdict(evaluator)
        pauses = len(sampler.pauses)
        await asyncio.sleep(3.0)
        assert not left_over.done()
        assert len(sampler.pauses) == pauses
        async with windows.served():
            return await left_over

    with judging(sampler, monkeypatch) as (evaluator, windows):
        assert asyncio.run(go(evaluator, windows)).correct


def test_a_sampler_that_cannot_be_paused_makes_its_verdicts_invalid(monkeypatch):
    async def go(evaluator, windows):
        async with windows.served():
            return await verdict(evaluator)

    with judging(StillSampler(refusal=SamplerError("It goes on.")), monkeypatch) as (evaluator, windows):
        found = asyncio.run(go(evaluator, windows))
    assert found.status == "invalid"
    assert "could not be paused: It goes on." in found.error_message


def test_a_timing_that_outlasts_its_window_is_discarded_and_sampling_goes_on(monkeypatch):
    monkeypatch.setattr(timing_windows, "WINDOW_S", 0.5)
    monkeypatch.setattr(timing_windows, "LATE_S", 0.2)
    sampler = StillSampler()

    async def go(evaluator, windows):
        async with windows.served():
            late, in_time = await verdict(evaluator, timed_s=1.5), await verdict(evaluator)
        return late, in_time

    with judging(sampler, monkeypatch) as (evaluator, windows):
        late, in_time = asyncio.run(go(evaluator, windows))
    assert late.status == "invalid"
    assert "window had ended" in late.error_message
    assert in_time.correct
    assert sampler.pauses[0][1] - sampler.pauses[0][0] < 1.5


@pytest.mark.parametrize("how", ["dies", "is stopped"])
def test_a_judge_that_is_lost_in_a_window_ends_it(monkeypatch, how):
    monkeypatch.setattr(timing_windows, "WINDOW_S", 1.0)
    monkeypatch.setattr(timing_windows, "LATE_S", 0.2)
    sampler = StillSampler()

    async def go(evaluator, windows):
        async with windows.served():
            lost = asyncio.ensure_future(verdict(evaluator, dies=how == "dies", timed_s=0.8))
            if how == "is stopped":
                while not sampler.still:
                    await asyncio.sleep(0.01)
                os.kill(evaluator._judge.process.pid, signal.SIGSTOP)
                await asyncio.sleep(2.0)
                assert not sampler.still
                os.kill(evaluator._judge.process.pid, signal.SIGCONT)
            found = await lost
            assert not sampler.still
            return found, await verdict(evaluator)

    with judging(sampler, monkeypatch) as (evaluator, windows):
        found, after = asyncio.run(go(evaluator, windows))
    assert found.status == "invalid"
    assert after.correct


# With a real engine --------------------------------------------------------------------------------------------------

CONFIG = SamplerConfig(dtype="float32", max_model_len=256, max_sequences=8)
PROMPT = list(range(5, 25))


def note_steps(actor):
    """Note, inside a sampler's actor, when its engine makes a step."""
    from vllm.v1.engine.llm_engine import LLMEngine

    step, actor.steps = LLMEngine.step, []

    def noted(engine):
        began = time.monotonic()
        try:
            return step(engine)
        finally:
            actor.steps.append((began, time.monotonic()))

    LLMEngine.step = noted


async def steps_of(sampler):
    return await sampler.actor.__ray_call__.remote(lambda actor: actor.steps)


def overlaps(one, other):
    return one[0] < other[1] and other[0] < one[1]


async def check_that_nothing_is_sampled_while_something_is_timed(pool, evaluator, seen):
    samplings = [Sampling(max_tokens=200, seed=seed) for seed in range(24)]
    samples = [asyncio.ensure_future(pool.generate(PROMPT, sampling)) for sampling in samplings]
    found = await asyncio.gather(*(verdict(evaluator, trials_s=0.1, timed_s=0.05) for _ in range(12)))
    assert all(one.correct for one in found)
    completions = await asyncio.gather(*samples)
    steps = await steps_of(pool.samplers[0])
    timed = [interval for window in seen for interval in window.timed]
    assert len(timed) == 12
    assert len(seen) < 12
    assert not [(step, one) for step in steps for one in timed if overlaps(step, one)]
    # Sampling went on between the windows, or the test would show nothing.
    assert [step for step in steps if seen[0].resumed < step[0] < seen[-1].began]
    # A pause changes no token.
    again = await asyncio.gather(*(pool.generate(PROMPT, sampling) for sampling in samplings))
    assert [one.ids for one in completions] == [one.ids for one in again]


async def check_that_an_engine_that_dies_in_a_window_restarts_after_it(pool, evaluator, seen):
    windows, sampler = len(seen), pool.samplers[0]
    process = psutil.Process(await sampler.actor.__ray_call__.remote(lambda _: os.getpid()))
    samples = [asyncio.ensure_future(pool.generate(PROMPT, Sampling(max_tokens=230)))]
    timed = asyncio.ensure_future(verdict(evaluator, timed_s=2.0))
    while not all(restarting.locked() for restarting in pool._restarting):
        await asyncio.sleep(0.01)
    # The first one may have ended before the window; this one waits in it and meets the death.
    samples.append(asyncio.ensure_future(pool.generate(PROMPT, Sampling(max_tokens=230))))
    await asyncio.sleep(0.5)
    process.kill()
    assert (await timed).correct
    assert sampler.restarts == 0
    assert all(one.ids for one in await asyncio.gather(*samples))
    assert sampler.restarts == 1
    assert len(seen) == windows + 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_engine_stands_still_while_candidates_are_timed(tiny_checkpoint, monkeypatch):
    seen = []

    async def go(pool, evaluator, windows):
        await pool.ready()
        await pool.samplers[0].actor.__ray_call__.remote(note_steps)
        async with windows.served():
            await check_that_nothing_is_sampled_while_something_is_timed(pool, evaluator, seen)
            await check_that_an_engine_that_dies_in_a_window_restarts_after_it(pool, evaluator, seen)
        await pool.close()

    # An actor cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with ray_session(num_cpus=2, object_store_bytes=128 << 20):
        pool = SamplerPool([RemoteSampler(tiny_checkpoint, CONFIG)])
        with judging(pool, monkeypatch, seen) as (evaluator, windows):
            asyncio.run(go(pool, evaluator, windows))
