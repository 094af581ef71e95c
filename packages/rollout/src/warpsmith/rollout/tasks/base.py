"""What a task is: the rules of an episode that do not depend on who samples or who judges."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.rollout.returns import discounted


@dataclass(frozen=True)
class Task:
    """The rules of an episode.

    Args:
        name: the `task_type`.
        description: one line for `warpsmith-rollout tasks`.
        max_turns: turns after which an episode ends.
        gamma: discount of the returns; without effect where there is one turn.
        success_score: score at which an episode ends early.
        max_consecutive_failures: turns in a row that score 0 after which an episode ends.
    """

    name: str
    description: str
    max_turns: int
    gamma: float
    success_score: float
    max_consecutive_failures: int

    def is_over(self, scores: Sequence[float], *, solved_untimed: bool) -> bool:
        """Tell whether an episode with these scores ends now.

        Args:
            scores: scores of the turns so far, oldest first.
            solved_untimed: the last turn was correct and nothing is timed, so that no turn could do better.
        """
        if solved_untimed or len(scores) >= self.max_turns:
            return True
        failures = scores[-self.max_consecutive_failures :]
        return bool(scores) and (
            scores[-1] >= self.success_score or (len(failures) == self.max_consecutive_failures and not any(failures))
        )

    def returns(self, scores: Sequence[float]) -> list[float]:
        """Return R_t of every turn."""
        return discounted(scores, self.gamma)
