"""What a search may spend: tokens and evaluations, whichever runs out first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from warpsmith.rollout.bench.config import BudgetConfig
from warpsmith.rollout.bench.strategies.base import Attempt

Spent = Literal["tokens", "evaluations"]


@dataclass(frozen=True)
class Budget:
    """The budget of one search.

    Args:
        config: the limits.
        answer_tokens: maximum tokens of an answer.
    """

    config: BudgetConfig
    answer_tokens: int

    def affordable(self, attempts: Sequence[Attempt], prompts: Sequence[int]) -> tuple[int, Spent | None]:
        """Return how many of the next attempts may begin, and which limit stops the others.

        An attempt begins only if its prompt and a whole answer fit in what is left, along with those that begin with
        it; and only if it may be judged. So neither limit is exceeded, except by an error in the prompt's estimate.

        Args:
            attempts: those made so far.
            prompts: estimated tokens of the prompts of the next ones.
        """
        tokens_left = _left(self.config.tokens, sum(attempt.tokens for attempt in attempts))
        evaluations_left = _left(self.config.evaluations, sum(attempt.evaluated for attempt in attempts))
        for number, prompt in enumerate(prompts):
            if evaluations_left is not None and number >= evaluations_left:
                return number, "evaluations"
            if tokens_left is not None:
                tokens_left -= prompt + self.answer_tokens
                if tokens_left < 0:
                    return number, "tokens"
        return len(prompts), None


def _left(limit: int | None, spent: int) -> int | None:
    return None if limit is None else limit - spent
