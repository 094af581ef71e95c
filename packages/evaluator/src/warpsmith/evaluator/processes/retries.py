"""Retry policies: what the evaluator tries again, after which failures, and how often.

| where | after | retries |
| --- | --- | --- |
| `processes.pool.Machine.take`: a ready worker | a worker or its zygote cannot start, or died at its start | 2 |
| `judge.attempts`: one evaluation | a zygote died and its workers with it | 1 for each zygote |
| | a worker that was ready was killed, as by a machine without memory | 1 for each ready worker |
| | any other failure that is about neither problem, candidate nor device | 1 |
| `judge.attempts`: alone on the device | a failure that others may have caused (`SuspectError`), or a full device | 1 |
| `judge.judge.Judge.audit`: facts of a problem, alone | a full device | 1 |
| `judge.compiling.service`: one compilation | the worker was lost, or could not have what it needs | 1 |
| | the compiler crashed | 1 |
| `client.evaluator`: a request to the judge | the judge died; it is started anew | 1 |

Each kind of failure has retries of its own, so that one kind does not use up another's.

Elsewhere, with a policy of its own since it waits and chooses between servers: `client.remote.Client` (what a server
lost or could not take, until a deadline). No retries are: draws of inputs until they have a form that is asked for,
coarser shapes where a language cannot form a block (`judge.stages.correctness_trials`), repeated probes of a device
(`devices.cuda_health`), and processes that are started anew for whoever comes next (`server.devices`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """Further attempts after one kind of failure.

    Args:
        count: how many.
        after: tells whether an error is of that kind.
    """

    count: int
    after: Callable[[Exception], bool]


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed attempt is followed by another one.

    Args:
        kinds: of failures; an error counts for the first kind that it is of and that has attempts left.
        never: tells which errors no other attempt avoids, of whatever kind they are.
    """

    kinds: Sequence[Retries]
    never: Callable[[Exception], bool] = lambda error: False

    def begin(self) -> "Attempts":
        """Return the count of attempts of one thing that is tried."""
        return Attempts(self)


class Attempts:
    """Counts the attempts of one thing that is tried."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._left = [kind.count for kind in policy.kinds]

    def allow_another(self, error: Exception) -> bool:
        """Whether another attempt follows this failure; it is counted then."""
        if self._policy.never(error):
            return False
        for place, kind in enumerate(self._policy.kinds):
            if self._left[place] and kind.after(error):
                self._left[place] -= 1
                return True
        return False


def of(*kinds: type[Exception]) -> Callable[[Exception], bool]:
    """Return what tells errors of these types."""
    return lambda error: isinstance(error, kinds)


def with_retries(attempt: Callable[[], T], policy: RetryPolicy) -> T:
    """Return what an attempt returns; the error of the last one where none does."""
    attempts = policy.begin()
    while True:
        try:
            return attempt()
        except Exception as error:
            if not attempts.allow_another(error):
                raise


async def with_retries_async(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """As `with_retries`, for asyncio."""
    attempts = policy.begin()
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not attempts.allow_another(error):
                raise


ONCE: Final = 1
"""Retries after most failures: what fails twice in a row fails for good."""
