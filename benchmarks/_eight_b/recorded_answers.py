"""The environment `recorded_answers`: the policy samples, and known answers are judged in place of its text.

A policy with random weights writes no kernel, so its evaluator would have nothing to do. Here each completion draws an
answer from what is known about the problem: right and fast, right and slow, wrong, not compiling, or no code at all. So
evaluator, feedback, rewards and training have the load of a policy that has learned something. Every episode takes all
turns.
"""

import math
import random
import zlib
from collections.abc import Sequence
from typing import Final

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.environments.base import EnvironmentContext
from warpsmith.rollout.environments.kernelbench import EpisodeRules, KernelBench
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.turns import Turn
from warpsmith.trainer.data.kernel_bugs import with_bug

_TURNS: Final = 3
_SHARES: Final = {"fast": 0.25, "slow": 0.2, "wrong": 0.25, "uncompiled": 0.15, "no code": 0.15}


def answer_for(problem: ProblemRow, mark: str) -> str | None:
    """Return the answer that a completion stands for; None for one without code.

    Args:
        problem: a generated problem, whose solutions are known.
        mark: what `RecordedAnswers.parse` made of the completion. It is in the answer as a comment, so that none is
            judged or compiled from a cache.
    """
    if problem.solution is None:
        raise ValueError(f"{problem.name} has no known solution; use generated problems.")
    drawn = random.Random(f"{problem.name} {mark}")
    kind = drawn.choices(list(_SHARES), list(_SHARES.values()))[0]
    made = {
        "fast": problem.solution,
        "slow": problem.naive or problem.solution,
        "wrong": with_bug(problem.text, problem.solution, drawn),
        "uncompiled": problem.solution.replace("tl.store(", "tl.stored("),
    }
    return f"# {mark}\n{made[kind]}" if kind in made else None


class RecordedAnswers(KernelBench):
    """`KernelBench` with known answers; see the module."""

    def parse(self, completion: str) -> str:
        """Return the name of the answer that a completion stands for."""
        return f"recorded answer {zlib.crc32(completion.encode()):08x}"

    async def evaluate(self, problem: ProblemRow, answer: str | None) -> Verdict:
        """Evaluate the answer of that name."""
        return await super().evaluate(problem, None if answer is None else answer_for(problem, answer))

    def feedback(self, problem: ProblemRow, history: Sequence[Turn]) -> list[Message]:
        """Show the answers of those names."""
        shown = [(turn.kernel and answer_for(problem, turn.kernel), turn.verdict) for turn in history]
        return self._prompt(problem, [Attempt(kernel, verdict) for kernel, verdict in shown])

    def is_done(self, history: Sequence[Turn]) -> bool:
        """Return whether all turns were taken."""
        return len(history) >= _TURNS


class _Recorded:
    description = "known answers judged in place of the policy's text, for benchmarks"

    def max_turns(self, config: RolloutConfig) -> int:
        return _TURNS

    def __call__(self, context: EnvironmentContext) -> RecordedAnswers:
        never = EpisodeRules(_TURNS, context.config.gamma, math.inf, _TURNS + 1)
        return RecordedAnswers(context, never)


RECORDED: Final = _Recorded()
