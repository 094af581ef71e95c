"""`single`, `refine` and `best_of_n`."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.rollout.bench.strategies.base import Attempt, Plan


def single() -> "Independent":
    """Return the strategy of one attempt."""
    return Independent(1)


@dataclass(frozen=True)
class Independent:
    """`single` and `best_of_n`: one round of attempts that know nothing of each other.

    Args:
        attempts: how many.
    """

    attempts: int

    def plan(self, key: str, attempts: Sequence[Attempt]) -> list[Plan]:
        """See `Strategy.plan`."""
        return [Plan(index) for index in range(len(attempts), self.attempts)]


@dataclass(frozen=True)
class Refine:
    """Attempts one after another; each prompt shows those before it with their verdicts.

    It ends early at a correct attempt where nothing is timed.

    Args:
        attempts: the most of a search.
    """

    attempts: int

    def plan(self, key: str, attempts: Sequence[Attempt]) -> list[Plan]:
        """See `Strategy.plan`."""
        made = len(attempts)
        if made >= self.attempts or (attempts and attempts[-1].solved_untimed):
            return []
        return [Plan(made, tuple(range(made)), generation=made)]
