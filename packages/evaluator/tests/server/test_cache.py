"""Verdicts kept by the server: what decides a verdict is in the key, and what the moment decided is not kept."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.client.evaluator import DeviceFacts
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.server.cache import VerdictCache, VerdictInputs, driver_version, settings_of
from warpsmith.evaluator.server.service import Job, Service
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid

CONFIG = EvaluatorConfig(slots=1)
ASKED = VerdictInputs("problem", "candidate", 5, None, 30.0, "none", ("eager",))
CPU = DeviceFacts("cpu", 90)
RIGHT = Verdict("correct", True, True, runtime_ms=1.5, seconds=Seconds(compile=1.0, wait=2.0, evaluate=3.0))


def cache_with(verdict=RIGHT, capacity=10, config=CONFIG):
    cache = VerdictCache(capacity, config)
    cache.put(ASKED, CPU, verdict)
    return cache


def test_a_kept_verdict_is_marked_with_its_age_and_took_no_time():
    found = cache_with().get(ASKED, [DeviceFacts("other", 90), CPU])
    assert (found.cached, found.runtime_ms) == (True, 1.5)
    assert 0 < found.seconds.age < 60
    assert replace(found.seconds, age=0.0) == Seconds()


@pytest.mark.parametrize(
    "change",
    [{"problem": "p"}, {"candidate": "c"}, {"trials": 4}, {"seed": 1}, {"timeout_s": 20.0}, {"operators": "any"}],
    ids=lambda change: next(iter(change)),
)
def test_another_request_is_another_verdict(change):
    assert cache_with().get(replace(ASKED, **change), [CPU]) is None


@pytest.mark.parametrize("device", [DeviceFacts("cpu", 80), DeviceFacts("NVIDIA H200", 90)])
def test_another_device_is_another_verdict(device):
    assert cache_with().get(ASKED, [device]) is None


SIZES = {"slots", "judges", "ready_workers", "reference_sessions", "start_timeout_s", "gpu", "nice", "trials"}
"""What decides no verdict; the trials are the request's."""
OTHER = {
    "minimum_isolation": "none",
    "strongest_isolation": "landlock",
    "cgroups": "off",
    "device": "cuda",
    "operators": "any",
    "recording": "on_device",
    "precision": "tf32",
    "language": "another",
    "baseline": ("compile",),
    "target": "gfx942",
}


@pytest.mark.parametrize("name", sorted(EvaluatorConfig.model_fields.keys() - SIZES))
def test_every_setting_counts_but_for_sizes(name):
    value = CONFIG.model_dump()[name]
    other = OTHER.get(name, not value if isinstance(value, bool) else value)
    other = other + 1 if other == value else other
    assert settings_of(CONFIG.model_copy(update={name: other})) != settings_of(CONFIG)


def test_the_number_of_slots_does_not_count():
    assert settings_of(CONFIG.model_copy(update={"slots": 7, "gpu": 3})) == settings_of(CONFIG)


@pytest.mark.parametrize(
    "verdict",
    [
        invalid("lost"),
        Verdict("timeout", False, False, error_category="timeout"),
        Verdict("compile_error", False, False, error_category="timeout"),
        Verdict("runtime_error", True, False, error_category="out_of_memory"),
        replace(RIGHT, flags=("retried",)),
        replace(RIGHT, flags=("clocks_disagree",)),
    ],
)
def test_what_the_moment_decided_is_not_kept(verdict):
    assert cache_with(verdict).get(ASKED, [CPU]) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())), st.integers(0, 3))
def test_the_one_unused_for_longest_goes_first(steps, capacity):
    cache, expected = VerdictCache(capacity, CONFIG), []
    for number, is_put in steps:
        asked = replace(ASKED, seed=number)
        if is_put:
            cache.put(asked, CPU, RIGHT)
            expected = [*(other for other in expected if other != number), number]
            expected = expected[len(expected) - capacity :] if len(expected) > capacity else expected
        else:
            assert (cache.get(asked, [CPU]) is not None) == (number in expected)
            if number in expected:
                expected.remove(number)
                expected.append(number)
        assert len(cache) == len(expected)


def test_the_driver_is_read_where_there_is_one(tmp_path):
    version_file = tmp_path / "version"
    version_file.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 20 2025\nGCC version: gcc 12\n"
    )
    assert driver_version(version_file) == "580.65.06"
    assert driver_version(tmp_path / "none") == ""


async def answered(service, ask):
    kept = service.cached(ask)
    return kept or await service.judge(ask, *service.admit())


def test_the_server_answers_from_it_only_who_asks_for_it(evaluator, add_problem, add_candidate):
    async def go():
        service = Service([evaluator], ServerSettings(), "landlock")

        async def judged(**options):
            return await answered(service, Job("add", add_problem.source, add_candidate, trials=1, **options))

        assert [(await judged()).seconds.age for _ in range(2)] == [0.0, 0.0]
        kept = await judged(cache=True)
        assert (kept.correct, kept.cached, kept.seconds.age > 0) == (True, True, True)
        assert (await judged(cache=True, seed=1)).seconds.age == 0.0
        assert (await judged(cache=True, preferred_device=0)).seconds.age > 0
        assert (service.admission.admitted, len(service.cache)) == (0, 2)

    asyncio.run(go())


def test_the_server_may_answer_from_it_by_default(evaluator, add_problem, add_candidate):
    async def go():
        service = Service([evaluator], ServerSettings(cache=True), "landlock")
        ages = []
        for cache in (None, None, False):
            ask = Job("add", add_problem.source, add_candidate, trials=1, cache=cache)
            ages.append((await answered(service, ask)).seconds.age)
        assert (ages[0], ages[1] > 0, ages[2]) == (0.0, True, 0.0)

    asyncio.run(go())
