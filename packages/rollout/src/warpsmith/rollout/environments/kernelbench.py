"""`kernelbench` and `kernelbench_multiturn`: a kernel for a PyTorch module, in one turn or several."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from warpsmith.evaluator.extract import extract_kernel
from warpsmith.evaluator.feedback import no_code
from warpsmith.evaluator.instructions import kernels_of
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.deadlines import QueueState, within_phases
from warpsmith.rollout.environments.base import EnvironmentContext
from warpsmith.rollout.environments.config import MultiTurnConfig
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import Message, build_prompt
from warpsmith.rollout.returns import discounted
from warpsmith.rollout.rewards.base import invalid_score
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turns import Agent, Turn

UNVARIED: Final = "problem: nothing in it can differ between trials, and leave_out_unvaried is set"


@dataclass(frozen=True)
class EpisodeRules:
    """When an episode ends, and the returns of its turns.

    Args:
        max_turns: turns after which it ends.
        gamma: discount of the returns; no effect with one turn.
        success_score: score at which it ends early.
        max_consecutive_failures: consecutive turns with a score of 0 or less after which it ends.
    """

    max_turns: int
    gamma: float
    success_score: float
    max_consecutive_failures: int

    def is_over(self, scores: Sequence[float], *, solved_untimed: bool) -> bool:
        """Return whether an episode with these scores ends now.

        Args:
            scores: scores of the turns so far, oldest first.
            solved_untimed: the last turn was correct and nothing is timed, so no turn could do better.
        """
        if solved_untimed or len(scores) >= self.max_turns:
            return True
        failures = scores[-self.max_consecutive_failures :]
        return bool(scores) and (
            scores[-1] >= self.success_score or (len(failures) == self.max_consecutive_failures and max(failures) <= 0)
        )

    def returns(self, scores: Sequence[float]) -> list[float]:
        """Return R_t of every turn."""
        return discounted(scores, self.gamma)


class KernelBench:
    """Asks for a kernel, has it evaluated, and shows the verdict to the next turn.

    Args:
        context: settings, evaluator, chat format and reward.
        rules: when an episode ends.

    Raises:
        UnaskedLanguageError: no prompt asks for kernels in the evaluator's language.
    """

    def __init__(self, context: EnvironmentContext, rules: EpisodeRules) -> None:
        kernels_of(context.language)
        self.rules = rules
        self._context = context

    def initial_prompt(self, problem: ProblemRow) -> list[Message]:
        """Return the task and the problem; see `Environment.initial_prompt`."""
        return self._prompt(problem, [])

    def feedback(self, problem: ProblemRow, history: Sequence[Turn]) -> list[Message]:
        """Return the same with earlier kernels and their verdicts; see `Environment.feedback`."""
        return self._prompt(problem, [Attempt(turn.kernel, turn.verdict) for turn in history])

    def _prompt(
        self,
        problem: ProblemRow,
        attempts: Sequence[Attempt],
        agent: Agent | None = None,
        start: Attempt | None = None,
    ) -> list[Message]:
        config, chat = self._context.config, self._context.chat
        return build_prompt(
            problem,
            attempts,
            style=config.prompt_style,
            operators=config.operators_for(problem),
            count_tokens=lambda messages: len(chat.prompt_ids(messages)),
            budget=config.prompt_budget,
            history=config.history,
            inert=chat.inert,
            agent=agent,
            start=start,
            figures=config.feedback,
            language=self._context.language,
        )

    def parse(self, completion: str) -> str | None:
        """Return the kernel in a completion."""
        return extract_kernel(completion, opened_thoughts=self._context.chat.opens_thoughts)

    async def evaluate(self, problem: ProblemRow, answer: str | None) -> Verdict:
        """Evaluate a kernel; an answer without code needs no evaluator. See `Environment.evaluate`."""
        if answer is None:
            return no_code()
        config, state = self._context.config, QueueState()
        request = self._context.evaluator.evaluate_async(
            problem.to_problem(), answer, operators=config.operators_for(problem), on_running=state.set
        )
        what = f"the verdict on a kernel for {problem.name}"
        return await within_phases(config.evaluate_wait_s, config.evaluate_timeout_s, state, request, what)

    def score(self, turn: Turn, history: Sequence[Turn]) -> Score:
        """Return the reward of a turn; see `Environment.score`."""
        return self._lost(turn) or self._context.scorer(turn, history)

    def _lost(self, turn: Turn) -> Score | None:
        """Return the score of a turn that has no value, whatever its reward is."""
        if self._context.config.leave_out_unvaried and "unvaried" in turn.verdict.flags:
            return Score(None, UNVARIED)
        return invalid_score(turn.verdict)

    def is_done(self, history: Sequence[Turn]) -> bool:
        """Return whether an episode with these turns ends now."""
        last = history[-1].verdict
        solved_untimed = last.correct and last.speedup is None
        return self.rules.is_over([turn.score or 0.0 for turn in history], solved_untimed=solved_untimed)

    def returns(self, scores: Sequence[float]) -> list[float]:
        """Return the discounted returns."""
        return self.rules.returns(scores)


@dataclass(frozen=True)
class Preset:
    """A registered name of `KernelBench` with its number of turns.

    Args:
        description: one line for `warpsmith-rollout environments`.
        make_rules: returns the rules of an episode under the settings of a rollout.
    """

    description: str
    make_rules: Callable[[RolloutConfig], EpisodeRules]

    def max_turns(self, config: RolloutConfig) -> int:
        """Return the maximum number of turns of an episode."""
        return self.make_rules(config).max_turns

    def __call__(self, context: EnvironmentContext) -> KernelBench:
        """Return the environment."""
        return KernelBench(context, self.make_rules(context.config))


def _single_turn(config: RolloutConfig) -> EpisodeRules:
    # The end conditions of several turns are never reached.
    return EpisodeRules(max_turns=1, gamma=0.0, success_score=math.inf, max_consecutive_failures=1)


def _multi_turn(config: RolloutConfig) -> EpisodeRules:
    own = config.environment
    if not isinstance(own, MultiTurnConfig):
        raise UsageError(
            f"The settings are those of the environment `{own.type}`; `kernelbench_multiturn` was expected.",
            "Make the environment by `registry.make_environment`.",
        )
    return EpisodeRules(own.max_turns, config.gamma, own.success_score, own.max_consecutive_failures)


SINGLE_TURN: Final = Preset("one turn; the score of the verdict is the return", _single_turn)
MULTI_TURN: Final = Preset("several turns, each with the verdict on the previous one; discounted returns", _multi_turn)
