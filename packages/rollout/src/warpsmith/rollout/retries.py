"""Retry policies: every retry of a rollout follows one of these.

The table in docs/rollout.md lists each place with its policy. Restarts of processes have a separate limit, their
owner's `max_restarts`: one restart serves all requests that saw the process die.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries_async
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError

T = TypeVar("T")

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
