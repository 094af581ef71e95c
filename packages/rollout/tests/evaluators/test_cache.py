"""The cache of verdicts by content."""

import asyncio
from dataclasses import replace

import pytest

from warpsmith.evaluator.verdict import Seconds, invalid
from warpsmith.rollout.evaluators.cache import CachedEvaluator


def run(coroutine):
    return asyncio.run(coroutine)


def test_the_same_kernel_is_judged_once_and_a_hit_takes_no_time(problem, scripted_judge, verdicts):
    judge = CachedEvaluator(inner := scripted_judge(lambda _: verdicts["wrong"]))

    async def twice():
        return [await judge.evaluate_async(problem.to_problem(), "kernel", trials=1) for _ in range(2)]

    first, second = run(twice())
    assert (len(inner.asked), judge.misses, judge.hits) == (1, 1, 1)
    assert (first.cached, second.cached) == (False, True)
    assert second.seconds.evaluate == 0.0
    assert second.status == first.status


def test_seconds_are_those_of_new_verdicts_since_the_last_question(problem, scripted_judge, verdicts):
    timed = replace(verdicts["correct"], seconds=Seconds(evaluate=2.0, lease=0.5, timing=0.25))
    kept = replace(timed, cached=True, seconds=Seconds(evaluate=2.0, age=60.0))
    answers = [timed, timed, kept]
    judge = CachedEvaluator(scripted_judge(lambda _: answers.pop(0)))

    async def ask(*kernels):
        for kernel in kernels:
            await judge.evaluate_async(problem.to_problem(), kernel)
        return judge.take_seconds()

    found = run(ask("one", "one", "two"))
    assert (found["evaluate"], found["lease"], found["timing"]) == (4.0, 1.0, 0.5)
    assert run(ask("one", "three")) == {}, "a cached verdict took no time, also one of a server's cache"


def test_simultaneous_questions_share_one_evaluation(problem, scripted_judge, verdicts):
    judge = CachedEvaluator(inner := scripted_judge(lambda _: verdicts["correct"]))

    async def many():
        return await asyncio.gather(*(judge.evaluate_async(problem.to_problem(), "kernel") for _ in range(8)))

    assert {v.status for v in run(many())} == {"correct"}
    assert len(inner.asked) == 1
    assert judge.hits == 7


def test_other_kernels_problems_and_trials_are_judged_apart(problem, scripted_judge, verdicts):
    judge = CachedEvaluator(inner := scripted_judge(lambda _: verdicts["correct"]))

    async def all_different():
        await judge.evaluate_async(problem.to_problem(), "one", trials=1)
        await judge.evaluate_async(problem.to_problem(), "two", trials=1)
        await judge.evaluate_async(problem.to_problem(), "one", trials=5)

    run(all_different())
    assert len(inner.asked) == 3


def test_invalid_verdicts_and_errors_are_not_kept(problem, scripted_judge, verdicts):
    answers = [invalid("lost"), RuntimeError("gone"), verdicts["correct"]]
    judge = CachedEvaluator(scripted_judge(lambda _: answers.pop(0)))

    async def three():
        assert (await judge.evaluate_async(problem.to_problem(), "k")).status == "invalid"
        with pytest.raises(RuntimeError, match="gone"):
            await judge.evaluate_async(problem.to_problem(), "k")
        return await judge.evaluate_async(problem.to_problem(), "k")

    assert run(three()).status == "correct"
    assert judge.hits == 0


def test_who_gives_up_does_not_take_the_verdict_from_others(problem, verdicts):
    class Slow:
        def __init__(self):
            self.go = asyncio.Event()

        async def evaluate_async(self, problem, candidate, *, on_running=None, **options):
            await self.go.wait()
            return verdicts["correct"]

    async def scene():
        slow = Slow()
        judge = CachedEvaluator(slow)
        first = asyncio.ensure_future(judge.evaluate_async(problem.to_problem(), "k"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(judge.evaluate_async(problem.to_problem(), "k"))
        await asyncio.sleep(0)
        first.cancel()
        slow.go.set()
        return await second

    assert run(scene()).correct


class Scripted:
    """Answers with each of `outcomes` in turn; a callable is awaited. What was cancelled ends once it `may_end`."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked, self.cancelling, self.cancelled = 0, 0, 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def evaluate_async(self, problem, candidate, *, on_running=None, **options):
        self.asked += 1
        outcome = self.outcomes.pop(0)
        try:
            await asyncio.sleep(0.01)
            return await outcome() if callable(outcome) else outcome
        except asyncio.CancelledError:
            self.cancelling += 1
            await self.may_end.wait()
            self.cancelled += 1
            raise


def lost():
    return asyncio.sleep(3600)


async def cancelled():
    raise asyncio.CancelledError


def test_an_evaluation_that_everybody_gave_up_is_cancelled_and_a_retry_begins_another(problem, verdicts):
    async def scene():
        judge = CachedEvaluator(inner := Scripted(lost, verdicts["correct"]))
        inner.may_end.clear()
        asked = [asyncio.ensure_future(judge.evaluate_async(problem.to_problem(), "k")) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in asked[:2]:
            task.cancel()
        await asyncio.sleep(0.05)
        assert inner.cancelling == 0, "one still waits for it"
        asked[2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked[2]
        again = await asyncio.wait_for(judge.evaluate_async(problem.to_problem(), "k"), 5)
        assert inner.cancelled == 0, "the retry did not wait for the end of the lost one"
        inner.may_end.set()
        async with asyncio.timeout(10):
            while not inner.cancelled:
                await asyncio.sleep(0)
        return inner, again, await judge.evaluate_async(problem.to_problem(), "k")

    inner, again, kept = run(scene())
    assert (inner.asked, inner.cancelled) == (2, 1)
    assert (again.status, again.cached, kept.cached) == ("correct", False, True)


@pytest.mark.parametrize("first", [invalid("lost"), cancelled], ids=["invalid", "cancelled by the judge"])
def test_those_who_joined_an_evaluation_that_came_to_nothing_share_the_next_one(problem, verdicts, first):
    async def scene(*outcomes):
        judge = CachedEvaluator(inner := Scripted(*outcomes))
        asked = (judge.evaluate_async(problem.to_problem(), "k") for _ in range(16))
        return inner, [verdict.status for verdict in await asyncio.gather(*asked)]

    inner, found = run(scene(first, verdicts["correct"]))
    assert (inner.asked, found) == (2, ["invalid"] + ["correct"] * 15)
    inner, found = run(scene(first, invalid("lost again")))
    assert (inner.asked, found) == (2, ["invalid"] * 16)


def test_the_least_recently_used_goes_first(problem, scripted_judge, verdicts):
    judge = CachedEvaluator(inner := scripted_judge(lambda _: verdicts["correct"]), capacity=2)

    async def scene():
        for kernel in ("a", "b", "a", "c", "a", "b"):
            await judge.evaluate_async(problem.to_problem(), kernel)

    run(scene())
    assert [asked[1] for asked in inner.asked] == ["a", "b", "c", "b"]


def test_who_joins_an_evaluation_hears_how_it_stands(problem, verdicts):
    class Queue:
        def __init__(self):
            self.go = asyncio.Event()

        async def evaluate_async(self, problem, candidate, *, on_running=None, **options):
            self.tell = on_running
            await self.go.wait()
            return verdicts["correct"]

    async def scene():
        judge = CachedEvaluator(queue := Queue())
        heard = [[], [], []]

        async def ask(number):
            asked = asyncio.ensure_future(
                judge.evaluate_async(problem.to_problem(), "k", on_running=heard[number].append)
            )
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return asked

        asked = [await ask(0), await ask(1)]
        queue.tell(True)
        asked.append(await ask(2))
        queue.tell(False)
        queue.go.set()
        await asyncio.gather(*asked)
        return heard

    assert run(scene()) == [[True, False], [True, False], [True, False]]
