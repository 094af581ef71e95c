"""The prompt of an attempt: rollout's prompts and feedback, and for a mutation what to change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpsmith.rollout.bench.answers import estimated_prompt
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.strategies.base import Attempt, Plan
from warpsmith.rollout.bench.strategies.mutations import Mutation
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.history import Attempt as ShownBefore
from warpsmith.rollout.prompts import Message, build_prompt

SHORTER: Final = 0.7
"""Share of the token budget to keep when the endpoint counts more tokens than were estimated."""


@dataclass(frozen=True)
class Prompter:
    """Makes prompts of at most `config.prompt_budget` tokens, as far as they can be estimated.

    Args:
        config: style, history, feedback, budget and kernel language.
    """

    config: BenchConfig

    def prompt(
        self, problem: ProblemRow, plan: Plan, attempts: Mapping[int, Attempt], *, share: float = 1.0
    ) -> list[Message]:
        """Return the messages of a planned attempt.

        Args:
            problem: the problem.
            plan: the attempt.
            attempts: those before it, by number.
            share: share of the token budget to use.

        Raises:
            PromptTooLongError: the problem alone does not fit.
        """
        config, mutation = self.config, plan.mutation
        room = 0 if mutation is None else estimated_prompt([{"role": "user", "content": mutation.text}])
        messages = build_prompt(
            problem,
            _shown(plan.parents, attempts),
            style=config.prompt_style,
            operators=config.operators_for(problem),
            count_tokens=estimated_prompt,
            budget=int(config.prompt_budget * share) - room,
            history=config.history,
            inert=inert,
            figures=config.feedback,
            language=config.evaluator.language,
        )
        return messages if mutation is None else _with_mutation(messages, mutation, config.prompt_style)


def inert(text: str) -> str:
    """Return a model's text with possible control tokens broken up; the endpoint's own tokens are not known."""
    return text.replace("<|", "< |").replace("|>", "| >")


def _shown(parents: Sequence[int], attempts: Mapping[int, Attempt]) -> list[ShownBefore]:
    return [ShownBefore(attempts[index].turn.kernel, attempts[index].verdict) for index in parents]


def _with_mutation(messages: list[Message], mutation: Mutation, style: str) -> list[Message]:
    *before, last = messages
    text = mutation.text.strip()
    if style == "compact":
        text = "\n".join(f"# {line}" for line in text.splitlines())
    return [*before, last | {"content": f"{last['content']}\n\n{text}"}]
