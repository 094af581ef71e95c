"""Retry policies: every retry of a rollout follows one of these.

The table in docs/rollout.md lists each place with its policy. Restarts of processes have a separate limit, their
owner's `max_restarts`: one restart serves all requests that saw the process die.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries_async
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.bench.errors import RetryableError
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError

T = TypeVar("T")
Attempting: TypeAlias = Callable[[], Awaitable[T]]

SAMPLER_RESTARTS: Final = 3
"""Restarts of one sampler's actor before its death is final."""


class RejectedResultError(Exception):
    """An attempt returned a result that is not accepted, such as an `invalid` verdict."""

    def __init__(self, result: object) -> None:
        super().__init__(f"The result was not accepted: {result}")
        self.result = result


def for_completions(retries: int) -> RetryPolicy:
    """Return the policy for one completion; a dead sampler is not retried."""
    return RetryPolicy([Retries(retries, of(SamplerError, DeadlinePassedError))], never=of(SamplerDiedError))


def for_evaluations(retries: int) -> RetryPolicy:
    """Return the policy for one evaluation of an episode.

    A problem that cannot be evaluated is retried too: reading it runs its code, which can fail on a full machine.
    """
    return RetryPolicy([Retries(retries, of(BadProblemError, DeadlinePassedError, RejectedResultError))])


def for_actors(retries: int) -> RetryPolicy:
    """Return the policy for one request to the evaluators in Ray.

    It retries no errors: a lost actor becomes an `invalid` verdict. Each attempt prefers another actor.
    """
    return RetryPolicy([Retries(retries, of(RejectedResultError))])


def for_endpoints(retries: int) -> RetryPolicy:
    """Return the policy for one request to a model's endpoint; `with_backoff` waits before each retry."""
    return RetryPolicy([Retries(retries, of(RetryableError))])


FOR_JOINED_EVALUATIONS: Final = RetryPolicy([Retries(ONCE, of(RejectedResultError))])
"""For requests that joined another request's evaluation of the same kernel, which can fail at that one's deadline."""


def is_verdict(verdict: Verdict) -> bool:
    """Return whether an evaluation has a result: `invalid` means that it was lost."""
    return verdict.status != "invalid"


async def with_retries(
    attempt: Callable[[], Awaitable[T]], policy: RetryPolicy, accept: Callable[[T], bool] = lambda result: True
) -> T:
    """Return the first accepted result; if none is accepted, the result or error of the last attempt.

    Args:
        attempt: called once per attempt.
        policy: after which failures to retry, and how often; a result that is not accepted is a RejectedResultError.
        accept: returns whether a result needs no other attempt.
    """
    last: list[T] = []

    async def accepted() -> T:
        last[:] = [result := await attempt()]
        if not accept(result):
            raise RejectedResultError(result)
        return result

    try:
        return await with_retries_async(accepted, policy)
    except RejectedResultError:
        return last[0]


@dataclass(frozen=True)
class Backoff:
    """Waits that double, with jitter, so that requests that failed together are not repeated together.

    Args:
        first_s: the first wait.
        longest_s: the longest.
        rng: draws the jitter, half of the wait at most.
    """

    first_s: float
    longest_s: float
    rng: random.Random

    def seconds(self, failures: int, error: Exception) -> float:
        """Return the wait after so many failures, at least what the error asks for."""
        wished = error.retry_after_s if isinstance(error, RetryableError) else None
        doubled = min(self.first_s * 2.0 ** min(failures - 1, 32), self.longest_s)
        return (wished or 0.0) + doubled * (0.5 + 0.5 * self.rng.random())


async def with_backoff(
    attempt: Attempting[T], policy: RetryPolicy, backoff: Backoff, *, note: Callable[[str], None] = lambda line: None
) -> T:
    """Return the first result, or raise the error of the last attempt.

    Args:
        attempt: called once per attempt.
        policy: after which failures to retry, and how often.
        backoff: how long to wait before a retry.
        note: called with a line for the user before each wait.
    """
    attempts, failures = policy.begin(), 0
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not attempts.allow_another(error):
                raise
            failures += 1
            seconds = backoff.seconds(failures, error)
            note(f"retry {failures} in {seconds:.1f} s: {error}")
        await asyncio.sleep(seconds)
