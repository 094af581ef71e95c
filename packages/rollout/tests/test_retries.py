"""Retries: how many attempts, after which errors and results, and what comes of the last one."""

import asyncio

import pytest

from warpsmith.evaluator.errors import BadProblemError, JudgeUnavailableError
from warpsmith.rollout import retries
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError, WeightsUnknownError
from warpsmith.rollout.retries import with_retries


def run(outcomes, policy, accept=lambda result: True):
    """Return what comes of these outcomes of attempts, and how many attempts there were."""
    made = []

    async def attempt():
        made.append(outcomes[len(made)])
        if isinstance(made[-1], Exception):
            raise made[-1]
        return made[-1]

    try:
        return asyncio.run(with_retries(attempt, policy, accept)), len(made)
    except Exception as error:
        return error, len(made)


LATE, BUSY, GONE = DeadlinePassedError("late"), SamplerError("busy"), SamplerDiedError("gone")


@pytest.mark.parametrize(
    ("outcomes", "times", "result", "attempts"),
    [
        ([1, 2], 3, 1, 1),
        ([BUSY, LATE, 1, 2], 3, 1, 3),
        ([BUSY, LATE, BUSY], 2, BUSY, 3),
        ([BUSY, 1], 0, BUSY, 1),
        ([BUSY, GONE, 1], 3, GONE, 2),
        ([ValueError("ours"), 1], 3, ValueError, 1),
    ],
)
def test_a_completion_is_retried_after_errors_that_pass(outcomes, times, result, attempts):
    found, made = run(outcomes, retries.for_completions(times))
    assert made == attempts
    assert isinstance(found, result) if isinstance(result, type) else found is result


def test_a_result_that_is_not_accepted_is_retried_and_the_last_one_stands():
    assert run([1, 2, 3, 4], retries.for_actors(3), accept=lambda n: n == 3) == (3, 3)
    assert run([1, 2, 3], retries.for_actors(1), accept=lambda n: n == 3) == (2, 2)


def test_errors_and_results_that_are_not_accepted_share_one_count():
    policy = retries.for_evaluations(2)
    assert run([LATE, 1, LATE, 3], policy, accept=lambda n: n == 3) == (LATE, 3)
    assert run([LATE, LATE, 1, 3], policy, accept=lambda n: n == 3) == (1, 3)


@pytest.mark.parametrize(
    ("policy", "error", "allowed"),
    [
        (retries.for_completions(1), WeightsUnknownError("x"), True),
        (retries.for_completions(1), SamplerDiedError("x"), False),
        (retries.for_evaluations(1), BadProblemError("x", ""), True),
        (retries.for_evaluations(1), DeadlinePassedError("x"), True),
        (retries.for_evaluations(1), JudgeUnavailableError("x", ""), False),
        (retries.for_evaluations(1), SamplerError("x"), False),
        (retries.for_actors(1), JudgeUnavailableError("x", ""), False),
    ],
)
def test_which_errors_another_attempt_may_avoid(policy, error, allowed):
    assert policy.begin().allow_another(error) is allowed
