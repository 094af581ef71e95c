"""Retry policies: every retry of a rollout follows one of these.

The table in docs/rollout.md lists each place with its policy. Restarts of processes have a separate limit, their
owner's `max_restarts`: one restart serves all requests that saw the process die.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.errors import DeadlinePassedError, SamplerDiedError, SamplerError

T = TypeVar("T")

SAMPLER_RESTARTS: Final = 3
"""Restarts of one sampler's actor before its death is final."""


@dataclass(frozen=True)
class RetryPolicy:
    """Which failed attempts are retried.

    Args:
        retries: attempts after the first.
        on: errors that another attempt may avoid; all others are raised at once.
        never: subclasses of those errors that another attempt never avoids.
    """

    retries: int
    on: tuple[type[Exception], ...] = ()
    never: tuple[type[Exception], ...] = ()

    def allows(self, error: Exception) -> bool:
        """Return whether another attempt may avoid this error."""
        return isinstance(error, self.on) and not isinstance(error, self.never)


def for_completions(retries: int) -> RetryPolicy:
    """Return the policy for one completion; a dead sampler is not retried."""
    return RetryPolicy(retries, on=(SamplerError, DeadlinePassedError), never=(SamplerDiedError,))


def for_evaluations(retries: int) -> RetryPolicy:
    """Return the policy for one evaluation of an episode.

    A problem that cannot be evaluated is retried too: reading it runs its code, which can fail on a full machine.
    """
    return RetryPolicy(retries, on=(BadProblemError, DeadlinePassedError))


def for_actors(retries: int) -> RetryPolicy:
    """Return the policy for one request to the evaluators in Ray.

    It lists no errors: a lost actor becomes an `invalid` verdict. Each attempt prefers another actor.
    """
    return RetryPolicy(retries)


FOR_JOINED_EVALUATIONS: Final = RetryPolicy(1)
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
        policy: how often to retry, and after which errors.
        accept: returns whether a result needs no other attempt.
    """
    for _ in range(policy.retries):
        try:
            result = await attempt()
        except Exception as error:
            if not policy.allows(error):
                raise
        else:
            if accept(result):
                return result
    return await attempt()
