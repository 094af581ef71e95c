"""`kernelbench_generate`, `kernelbench_optimize`, `kernelbench_two_role`: a generator, an optimizer, or both in turn.

The generator writes a correct kernel. The optimizer is given a correct kernel, its start, and makes it faster: its
score is the speedup over that start, or where nothing is timed how many times fewer bytes it moves. With both, the
generator's first correct kernel is the optimizer's start.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError
from warpsmith.rollout import retries
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.environments.base import EnvironmentContext
from warpsmith.rollout.environments.config import GainKeys, GenerateConfig, OptimizeConfig, TwoRoleConfig
from warpsmith.rollout.environments.kernelbench import EpisodeRules, KernelBench
from warpsmith.rollout.errors import PromptTooLongError, StartLostError
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.returns import discounted_by_agent
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turns import GENERATOR, OPTIMIZER, Agent, Turn


@dataclass(frozen=True)
class Plan:
    """The turns of an episode; at least one agent has some.

    Args:
        generator: when the generator's turns end, besides at the first correct kernel; None if it has none: the
            problem's own solution is then the optimizer's start.
        optimizer: when the optimizer's turns end; None if it has none.
        gains: how the optimizer is scored.
        gamma: discount between turns of one agent.
        handover_gamma: discount from the optimizer's first turn to the generator's last.
    """

    generator: EpisodeRules | None
    optimizer: EpisodeRules | None
    gains: GainKeys
    gamma: float
    handover_gamma: float = 0.0

    @property
    def max_turns(self) -> int:
        """The most turns of an episode."""
        return sum(rules.max_turns for rules in (self.generator, self.optimizer) if rules is not None)


def gain_of(verdict: Verdict, start: Verdict, gains: GainKeys) -> Score:
    """Return the score of an optimizer's kernel, from the verdicts on it and on the correct kernel it started from.

    log2 of its speedup over the start, from -loss_cap to gain_cap; `wrong_score` unless it is correct. Where nothing is
    timed, log2 of the start's bytes over its own, within the same bounds; 0 if either does not know its bytes.
    """
    if not verdict.correct:
        return Score(gains.wrong_score)
    if verdict.speedup and start.speedup:
        # Each speedup is over a reference timed with its kernel: a device that is slower today changes nothing.
        over_start = verdict.speedup / start.speedup
        return Score(_bounded(over_start, gains), speedup_over_start=over_start)
    if verdict.bytes_moved and start.bytes_moved:
        ratio = start.bytes_moved / verdict.bytes_moved
        return Score(_bounded(ratio, gains), start_bytes_moved=start.bytes_moved)
    return Score(0.0)


def _bounded(ratio: float, gains: GainKeys) -> float:
    return min(max(math.log2(ratio), -gains.loss_cap), gains.gain_cap)


class KernelBenchAgents(KernelBench):
    """KernelBench with agents; an `AgentEnvironment`.

    Args:
        context: settings, evaluator, chat format, and the reward of the generator.
        plan: turns of each agent.
        problem: the problem of the episode; None before `begin`.
        given: the start that the problem comes with, with the verdict on it; None if the generator makes one.
    """

    def __init__(
        self, context: EnvironmentContext, plan: Plan, problem: ProblemRow | None = None, given: Attempt | None = None
    ) -> None:
        rules = plan.generator or plan.optimizer
        if rules is None:
            raise AssertionError("a plan has turns of one agent at least")
        super().__init__(context, rules)
        self.plan, self._problem, self._given = plan, problem, given

    async def begin(self, problem: ProblemRow) -> Self:
        """Return the environment of an episode, with the verdict on the start; see `AgentEnvironment.begin`."""
        given = None if self.plan.generator is not None else await self._evaluated_start(problem)
        return type(self)(self._context, self.plan, problem, given)

    async def _evaluated_start(self, problem: ProblemRow) -> Attempt:
        kernel = problem.start
        if kernel is None:
            raise BadProblemError(
                f"Problem {problem.name} comes with no kernel for the optimizer to start from.",
                "Add `<name>.solution.py` or the column `solution`, or use kernelbench_two_role, where the generator "
                "writes the start.",
            )
        policy = retries.for_evaluations(self._context.config.retries)
        verdict = await retries.with_retries(lambda: self.evaluate(problem, kernel), policy, retries.is_verdict)
        if not retries.is_verdict(verdict):
            raise StartLostError(
                f"The start of {problem.name}: {verdict.error_message or 'the evaluator gave no cause'}"
            )
        if not verdict.correct:
            raise BadProblemError(
                f"The kernel that problem {problem.name} comes with is not correct ({verdict.status}): "
                f"{verdict.error_message or 'no message'}",
                "An optimizer needs a correct start: replace it or drop the problem.",
            )
        return Attempt(kernel, verdict)

    def agent(self, history: Sequence[Turn]) -> Agent:
        """Return who takes the next turn: the optimizer as soon as there is a start."""
        return GENERATOR if self.plan.generator is not None and self._start(history) is None else OPTIMIZER

    def _start(self, history: Sequence[Turn]) -> Attempt | None:
        """Return the kernel that the optimizer starts from: the given one, or the generator's first correct one."""
        if self._given is not None or self.plan.optimizer is None:
            return self._given
        made = (turn for turn in history if turn.agent == GENERATOR and turn.verdict.correct)
        return next((Attempt(turn.kernel, turn.verdict) for turn in made), None)

    def initial_prompt(self, problem: ProblemRow) -> list[Message]:
        """Return the prompt of the first turn; see `Environment.initial_prompt`."""
        return self.feedback(problem, [])

    def feedback(self, problem: ProblemRow, history: Sequence[Turn]) -> list[Message]:
        """Return the task of the next agent with its own attempts, and for the optimizer with its start."""
        agent = self.agent(history)
        own = [Attempt(turn.kernel, turn.verdict) for turn in history if turn.agent == agent]
        return self._prompt(problem, own, agent, self._start(history) if agent == OPTIMIZER else None)

    def score(self, turn: Turn, history: Sequence[Turn]) -> Score:
        """Return the reward of a generator's turn, or what an optimizer's turn gains; see `Environment.score`."""
        own = [earlier for earlier in history if earlier.agent == turn.agent]
        start = self._start(history)
        found = super().score(turn, own) if turn.agent == GENERATOR else self._lost(turn)
        if found is not None:
            return found
        if start is None:
            raise AssertionError("an optimizer's turn has a start")
        return gain_of(turn.verdict, start.verdict, self.plan.gains)

    def is_done(self, history: Sequence[Turn]) -> bool:
        """Return whether the last agent's turns end the episode."""
        last = history[-1]
        scores = [turn.score or 0.0 for turn in history if turn.agent == last.agent]
        if last.agent == GENERATOR and last.verdict.correct:
            return self.plan.optimizer is None or not self._has_room(history)
        rules = self.plan.generator if last.agent == GENERATOR else self.plan.optimizer
        unmeasured = last.verdict.correct and last.verdict.speedup is None and last.verdict.bytes_moved is None
        return rules is None or rules.is_over(scores, solved_untimed=unmeasured)

    def _has_room(self, history: Sequence[Turn]) -> bool:
        """Return whether the optimizer's first prompt fits: a long kernel must not cost the generator its turns."""
        if self._problem is None:
            return True
        try:
            self.feedback(self._problem, history)
        except PromptTooLongError:
            return False
        return True

    def returns_of(self, turns: Sequence[Turn]) -> list[float]:
        """Return R_t of every turn, over the turns of its own agent unless `handover_gamma` couples them."""
        scores, agents = [turn.score or 0.0 for turn in turns], [turn.agent for turn in turns]
        return discounted_by_agent(scores, agents, self.plan.gamma, self.plan.handover_gamma)


@dataclass(frozen=True)
class AgentPreset:
    """A registered name of `KernelBenchAgents`.

    Args:
        description: one line for `warpsmith-rollout environments`.
        make_plan: returns the plan of an episode under the settings of a rollout.
    """

    description: str
    make_plan: Callable[[RolloutConfig], Plan]

    def max_turns(self, config: RolloutConfig) -> int:
        """Return the maximum number of turns of an episode."""
        return self.make_plan(config).max_turns

    def __call__(self, context: EnvironmentContext) -> KernelBenchAgents:
        """Return the environment."""
        return KernelBenchAgents(context, self.make_plan(context.config))


def _rules(config: RolloutConfig, turns: int, failures: int, success: float = math.inf) -> EpisodeRules:
    return EpisodeRules(turns, config.gamma, success, failures)


def _generate(config: RolloutConfig) -> Plan:
    own = config.environment
    if not isinstance(own, GenerateConfig):
        raise _other_settings(config, "kernelbench_generate")
    return Plan(_rules(config, own.max_turns, own.max_consecutive_failures), None, GainKeys(), config.gamma)


def _optimize(config: RolloutConfig) -> Plan:
    own = config.environment
    if not isinstance(own, OptimizeConfig):
        raise _other_settings(config, "kernelbench_optimize")
    rules = _rules(config, own.max_turns, own.max_consecutive_failures, own.success_gain)
    return Plan(None, rules, own, config.gamma)


def _two_role(config: RolloutConfig) -> Plan:
    own = config.environment
    if not isinstance(own, TwoRoleConfig):
        raise _other_settings(config, "kernelbench_two_role")
    return Plan(
        _rules(config, own.generator_turns, own.generator_failures),
        _rules(config, own.optimizer_turns, own.optimizer_failures, own.success_gain),
        own,
        config.gamma,
        own.handover_gamma,
    )


def _other_settings(config: RolloutConfig, expected: str) -> UsageError:
    return UsageError(
        f"The settings are those of the environment `{config.environment.type}`; `{expected}` was expected.",
        "Make the environment by `registry.make_environment`.",
    )


GENERATE: Final = AgentPreset("the generator alone: several turns, until its first correct kernel", _generate)
OPTIMIZE: Final = AgentPreset("the optimizer alone: makes the problem's own kernel faster", _optimize)
TWO_ROLE: Final = AgentPreset(
    "generator, then optimizer: writes a correct kernel, then makes that one faster", _two_role
)
