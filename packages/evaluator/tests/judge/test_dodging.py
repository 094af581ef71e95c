"""Candidates that would turn their failure into nobody's: by claims, by signals, by keeping others waiting."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.judge.concurrency import Concurrency

FORWARD = "def forward(self, x, y):\n"
CLAIM = FORWARD + "        import time; time.sleep(1.0); raise MemoryError('mine')\n"
USE = FORWARD + "        import numpy, time; kept = numpy.ones(72 << 20); time.sleep(0.5); raise MemoryError('mine')\n"


def both(evaluator, problem, source, **options):
    with ThreadPoolExecutor(2) as two:
        asked = [two.submit(evaluator.evaluate, problem, f"{source}\n# {number}", **options) for number in range(2)]
        return [one.result() for one in asked]


def test_a_lack_of_memory_that_is_only_claimed_earns_no_second_try(evaluator, add_problem, add_candidate):
    for verdict in both(evaluator, add_problem, add_candidate.replace(FORWARD, CLAIM)):
        assert (verdict.status, verdict.error_category) == ("runtime_error", "out_of_memory")
        assert "retried" not in verdict.flags


def test_who_used_much_memory_in_company_is_tried_alone(evaluator, add_problem, add_candidate):
    verdicts = both(evaluator, add_problem, add_candidate.replace(FORWARD, USE))
    assert {verdict.status for verdict in verdicts} == {"runtime_error"}
    assert any("retried" in verdict.flags for verdict in verdicts)


KILLED = FORWARD + "        import os, time; time.sleep(1.5); os.kill(os.getpid(), 9)\n"


@pytest.fixture(scope="module")
def without_namespaces():
    """At this tier a worker's own SIGKILL ends it; it is no init that the kernel protects."""
    config = EvaluatorConfig(slots=2, ready_workers=1, strongest_isolation="none", minimum_isolation="none")
    with Evaluator(config) as running:
        yield running


@pytest.mark.slow
@pytest.mark.long  # starts an evaluator of its own, without namespaces
def test_who_kills_itself_is_blamed_after_one_more_try(without_namespaces, add_problem, add_candidate):
    without_namespaces.evaluate(add_problem, add_candidate)
    begin = time.monotonic()
    verdict = without_namespaces.evaluate(add_problem, add_candidate.replace(FORWARD, KILLED), timeout_s=10.0)
    assert (verdict.status, verdict.flags) == ("runtime_error", ("retried",))
    assert time.monotonic() - begin < 2 * 10.0


def test_the_caller_hears_when_the_work_begins(evaluator, add_problem, add_candidate):
    heard = []

    async def ask():
        return await evaluator.evaluate_async(add_problem, add_candidate, on_running=heard.append)

    assert asyncio.run(ask()).status == "correct"
    assert heard == [False, True]


@pytest.mark.slow
def test_the_caller_hears_when_a_second_try_stands_in_line(without_namespaces, add_problem, add_candidate):
    heard = []

    async def ask():
        source = add_candidate.replace(FORWARD, KILLED)
        return await without_namespaces.evaluate_async(add_problem, source, on_running=heard.append)

    assert asyncio.run(ask()).status == "runtime_error"
    assert heard == [False, True, False, True]


class Entered:
    """A thread that enters a context, and says when it is in."""

    def __init__(self, place):
        self.there, self.leave = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, args=(place,))
        self.thread.start()

    def _run(self, place):
        with place:
            self.there.set()
            self.leave.wait(30)

    def end(self):
        self.leave.set()
        self.thread.join(30)


def test_one_alone_holds_the_others_up_no_longer_than_it_may():
    concurrency = Concurrency()
    begin = time.monotonic()
    lone = Entered(concurrency.alone(0.3))
    assert lone.there.wait(10)
    other = Entered(concurrency.shared())
    assert other.there.wait(10)
    assert time.monotonic() - begin >= 0.3
    lone.end()
    other.end()


def test_one_that_wants_to_be_alone_waits_no_longer_than_it_may():
    concurrency = Concurrency()
    busy = Entered(concurrency.shared())
    assert busy.there.wait(10)
    lone = Entered(concurrency.alone(0.1))
    assert lone.there.wait(10)
    busy.end()
    lone.end()


def test_nobody_comes_between_while_one_is_alone():
    concurrency = Concurrency()
    lone = Entered(concurrency.alone(20))
    assert lone.there.wait(10)
    other = Entered(concurrency.shared())
    assert not other.there.wait(0.05)
    lone.end()
    assert other.there.wait(10)
    other.end()
