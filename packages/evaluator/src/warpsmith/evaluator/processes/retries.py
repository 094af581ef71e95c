"""Retry policies: what is retried, after which failures, and how often. Rollouts use the same classes.

| where | after | retries |
| --- | --- | --- |
| `processes.pool.Machine.take`: a ready worker | a worker or its zygote cannot start, or died at its start | 2 |
| `judge.attempts`: one evaluation | a zygote died and its workers with it | 1 for each zygote |
| | a ready worker was killed, for example because the machine ran out of memory | 1 for each ready worker |
| | any other failure that is about neither problem, candidate nor device | 1 |
| `judge.attempts`: alone on the device | a failure that others may have caused (`SuspectError`), or a full device | 1 |
| `judge.judge.Judge.audit`: facts of a problem, alone | a full device | 1 |
| `judge.compiling.service`: one compilation | the worker was lost, or lacked what it needs | 1 |
| | the compiler crashed | 1 |
| `client.evaluator`: a request to the judge | the judge died; it is restarted | 1 |

Each kind of failure has its own retries, so that one kind does not use up another's.

`client.remote.Client` has its own retries, since it waits and chooses between servers until a deadline. Not counted as
retries: draws of inputs until they have a given form, coarser shapes if a language cannot form a block
(`judge.stages.correctness_trials`), repeated probes of a device (`devices.cuda_health`), and processes that are
restarted for later requests (`server.devices`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """Further attempts after one kind of failure.

    Args:
        count: their number.
        after: returns whether an error is of that kind.
    """

    count: int
    after: Callable[[Exception], bool]


@dataclass(frozen=True)
class RetryPolicy:
    """After which failures an attempt is repeated, and how often.

    Args:
        kinds: kinds of failures; an error counts for the first kind that matches and has attempts left.
        never: returns whether an error is never retried, whatever its kind.
    """

    kinds: Sequence[Retries]
    never: Callable[[Exception], bool] = lambda error: False

    def begin(self) -> "Attempts":
        """Return the counters for one operation."""
        return Attempts(self)


class Attempts:
    """Counts the attempts of one operation."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._left = [kind.count for kind in policy.kinds]

    def allow_another(self, error: Exception) -> bool:
        """Return whether to retry after this failure; if so, count the retry."""
        if self._policy.never(error):
            return False
        for place, kind in enumerate(self._policy.kinds):
            if self._left[place] and kind.after(error):
                self._left[place] -= 1
                return True
        return False


def of(*kinds: type[Exception]) -> Callable[[Exception], bool]:
    """Return a function that says whether an error is of these types."""
    return lambda error: isinstance(error, kinds)


def with_retries(attempt: Callable[[], T], policy: RetryPolicy) -> T:
    """Return the result of the first attempt that succeeds, or raise the error of the last one."""
    attempts = policy.begin()
    while True:
        try:
            return attempt()
        except Exception as error:
            if not attempts.allow_another(error):
                raise


async def with_retries_async(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """See `with_retries`; for asyncio."""
    attempts = policy.begin()
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not attempts.allow_another(error):
                raise


ONCE: Final = 1
"""Retries after most failures: two failures in a row are final."""
