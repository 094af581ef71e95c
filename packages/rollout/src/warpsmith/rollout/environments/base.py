"""The interface of an environment.

An episode calls for each turn: `initial_prompt` or `feedback`, then (with the completion) `parse`, `evaluate`, `score`
and `is_done`. The episode itself handles sampling, retries, deadlines and records.

An environment whose turns are taken by agents is an `AgentEnvironment`: the episode then also calls `begin` at its
start, `agent` before each turn, and `returns_of` instead of `returns`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.completions import Chat
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.rewards.base import Scorer
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turns import Turn


@dataclass(frozen=True)
class EnvironmentContext:
    """The inputs of an environment.

    Args:
        config: the rollout's settings; `config.environment` is for the environment alone, its `settings` are the keys.
        evaluator: judges kernels; verdicts are cached by content.
        chat: the policy's chat format.
        scorer: the configured reward.
        language: kernel language that the evaluator judges, and that prompts ask for.
    """

    config: RolloutConfig
    evaluator: AsyncEvaluator
    chat: Chat
    scorer: Scorer
    language: str = "triton"


@runtime_checkable
class Environment(Protocol):
    """One environment, shared by all episodes of a collection: it keeps no state of an episode between two calls."""

    def initial_prompt(self, problem: ProblemRow) -> list[Message]:
        """Return the conversation that asks for the first turn.

        Raises:
            PromptTooLongError: it does not fit the token budget; the turn is then invalid.
        """

    def feedback(self, problem: ProblemRow, history: Sequence[Turn]) -> list[Message]:
        """Return the conversation that asks for the next turn, from all turns so far; errors as above."""

    def parse(self, completion: str) -> str | None:
        """Return the answer in a completion, for example the code of a kernel; None if there is none."""

    async def evaluate(self, problem: ProblemRow, answer: str | None) -> Verdict:
        """Return the verdict on an answer; status `invalid` if the evaluation was lost.

        Raises:
            BadProblemError: the problem itself cannot be evaluated.
            DeadlinePassedError: the verdict did not come in time.
        """

    def score(self, turn: Turn, history: Sequence[Turn]) -> Score:
        """Return the score of an evaluated turn, given those before it. A score without value ends the episode.

        Raises:
            RewardFailedError: the reward returned no score; the run ends.
        """

    def is_done(self, history: Sequence[Turn]) -> bool:
        """Return whether an episode with these scored turns, at least one, ends now."""

    def returns(self, scores: Sequence[float]) -> list[float]:
        """Return the return R_t of every turn from the scores of a whole episode, in order."""


@runtime_checkable
class AgentEnvironment(Environment, Protocol):
    """An environment in which agents take turns, for example one that writes kernels and one that makes them faster."""

    async def begin(self, problem: ProblemRow) -> "AgentEnvironment":
        """Return the environment of one episode, which may hold the episode's starting point.

        Raises:
            BadProblemError: the problem cannot be used; the episode's only turn is invalid.
            StartLostError, DeadlinePassedError: the starting point could not be evaluated; likewise.
        """

    def agent(self, history: Sequence[Turn]) -> str:
        """Return who takes the turn after these; an agent's turns follow each other."""

    def returns_of(self, turns: Sequence[Turn]) -> list[float]:
        """Return the return of every turn of a whole episode, in order."""


@runtime_checkable
class EnvironmentType(Protocol):
    """The type of entries in `warpsmith.environments`: a class, or another callable, that creates an environment.

    Attributes:
        description: one line for `warpsmith-rollout environments`.
    """

    @property
    def description(self) -> str:
        """See above."""

    def max_turns(self, config: RolloutConfig) -> int:
        """Return the maximum turns of an episode under these settings; episodes stop there in any case."""

    def __call__(self, context: EnvironmentContext) -> Environment:
        """Return an environment; UsageError if it does not support the settings."""
