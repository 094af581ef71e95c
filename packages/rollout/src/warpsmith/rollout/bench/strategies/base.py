"""What a strategy sees and says: attempts that were made, and plans of those to make next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.bench.strategies.mutations import Mutation
from warpsmith.rollout.turns import Turn


@dataclass(frozen=True)
class Plan:
    """An attempt to make.

    Attributes:
        index: its number in the search, from 0.
        parents: numbers of the attempts that its prompt shows, the most important one last.
        mutation: how the last parent is to be changed; None asks as a further turn does.
        island: the population that it belongs to.
        generation: how many generations were before it.
    """

    index: int
    parents: tuple[int, ...] = ()
    mutation: Mutation | None = None
    island: int = 0
    generation: int = 0


@dataclass(frozen=True)
class Attempt:
    """An attempt that has a verdict.

    Attributes:
        plan: how it was asked for.
        turn: its answer, kernel, verdict and score.
        prompt_tokens, completion_tokens: as the endpoint counts them, or estimated.
        estimated: whether the endpoint did not say how many tokens they are.
        generate_s, judge_s: seconds of the request with its retries, and of the evaluation.
    """

    plan: Plan
    turn: Turn
    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    generate_s: float = 0.0
    judge_s: float = 0.0

    @property
    def index(self) -> int:
        return self.plan.index

    @property
    def verdict(self) -> Verdict:
        return self.turn.verdict

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def evaluated(self) -> bool:
        """Whether it took an evaluation: an answer without code takes none."""
        return self.turn.kernel is not None

    @property
    def solved_untimed(self) -> bool:
        """Whether it is correct and nothing is timed, so that no other attempt can be better."""
        return self.verdict.correct and self.verdict.speedup is None


class Strategy(Protocol):
    """Plans the attempts of a search, round by round.

    It keeps no state: a resumed search plans the same rounds again from the attempts that were recorded.
    """

    def plan(self, key: str, attempts: Sequence[Attempt]) -> list[Plan]:
        """Return the next round, whose attempts are made concurrently; empty when the search is over.

        Where the budget allows only the first ones of a round, the next call returns the others again.

        Args:
            key: names the search, with the bench's seed: the seed of whatever is drawn.
            attempts: all attempts so far, in the order of their numbers; the next one is `len(attempts)`.
        """


class StrategyType(Protocol):
    """The type of entries in `warpsmith.strategies`: a class, or another callable, that creates a strategy."""

    def __call__(self, **settings: Any) -> Strategy:
        """Return the strategy for the keys of `[strategy]` except `type`; ValueError if one is wrong."""
