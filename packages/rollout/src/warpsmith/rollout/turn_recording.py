"""Rows of the `turns` table from the turns of an episode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.samplers.base import Completion, Sampling
from warpsmith.rollout.turns import Turn

START_BYTES: Final = "start_bytes_moved"
"""Name of the figure of an optimizer's turn with the bytes that its start moves."""
TurnRow = dict[str, Any]
"""One row of `warpsmith.records.schema.TURNS`, by column."""


@dataclass(frozen=True)
class EpisodeLabels:
    """What all rows of an episode have in common.

    Args:
        run: the run's name.
        task: the environment's name.
        role: the purpose of the turns: `train` or `held_out`.
        problem: the problem.
        group: the group's name.
        sample: index of the episode in its group.
        after_step: training steps finished so far; None outside of a training run.
        rollout_step: the training step whose batch the turns belong to; None in evaluations.
        stage: the stage of the curriculum, from 1; None without stages, and in evaluations.
    """

    run: str
    task: str
    role: str
    problem: ProblemRow
    group: str
    sample: int
    after_step: int | None
    rollout_step: int | None = None
    stage: int | None = None

    @property
    def trajectory(self) -> str:
        """The trajectory's name in the records."""
        return f"{self.group}/{self.sample}"


@dataclass
class TurnRecord:
    """A turn as far as it has got.

    Args:
        sampling: how it is sampled.
        agent: who takes it; None in an environment without agents.
    """

    sampling: Sampling
    agent: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    messages: list[Message] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    completion: Completion | None = None
    text: str = ""
    kernel: str | None = None
    verdict: Verdict | None = None
    score: Score = field(default_factory=lambda: Score(None, "the turn did not run"))
    generate_s: float | None = None

    def as_turn(self, labels: EpisodeLabels, index: int, verdict: Verdict) -> Turn:
        """Return the turn as environments and rewards see it."""
        completion = self.completion
        return Turn(
            index=index,
            problem=labels.problem.name,
            source=labels.problem.source,
            level=labels.problem.level,
            completion=self.text,
            kernel=self.kernel,
            completion_tokens=len(completion.ids) if completion else 0,
            truncated=completion is not None and completion.finish_reason == "length",
            verdict=verdict,
            score=self.score.value,
            trajectory=labels.trajectory,
            agent=self.agent,
        )


def turn_row(labels: EpisodeLabels, turns: Sequence[TurnRecord], index: int) -> TurnRow:
    """Return the row of one turn, from all turns so far; its `return` is not known yet."""
    problem = labels.problem
    return {
        "run": labels.run,
        "task": labels.task,
        "role": labels.role,
        "problem": problem.name,
        "source": problem.source,
        "level": problem.level,
        "group": labels.group,
        "trajectory": labels.trajectory,
        "sample": labels.sample,
        "turn": index,
        "num_turns": len(turns),
        "after_step": labels.after_step,
        "rollout_step": labels.rollout_step,
        "stage": labels.stage,
        "agent": turns[index].agent,
        **_content(turns[index]),
        **_outcome(turns[index]),
    }


def _content(turn: TurnRecord) -> TurnRow:
    completion = turn.completion
    sampling = turn.sampling
    return {
        "messages": turn.messages,
        "completion": turn.text,
        "kernel": turn.kernel,
        "prompt_ids": turn.prompt_ids,
        "completion_ids": completion.ids if completion else [],
        "logprobs": completion.logprobs if completion else [],
        "weight_versions": completion.weight_versions if completion else [],
        "finish_reason": completion.finish_reason if completion else None,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        },
    }


def _outcome(turn: TurnRecord) -> TurnRow:
    seconds = turn.verdict.seconds if turn.verdict else None
    return {
        "verdict": _verdict_row(turn.verdict, turn.score) if turn.verdict else None,
        "reward": turn.score.value,
        "return": None,
        "speedup_over_start": turn.score.speedup_over_start,
        "valid": turn.score.valid,
        "invalid_reason": turn.score.invalid_reason,
        "started_at": turn.started_at,
        "generate_s": turn.generate_s,
        "compile_s": seconds.compile if seconds else None,
        "wait_s": seconds.wait if seconds else None,
        "evaluate_s": seconds.evaluate if seconds else None,
    }


def _verdict_row(verdict: Verdict, score: Score) -> TurnRow:
    """Return the verdict's row; its figures include `start_bytes_moved`, which its own bytes are compared with."""
    row = verdict.to_row()
    if score.start_bytes_moved is None:
        return row
    start = {"name": START_BYTES, "value": float(score.start_bytes_moved)}
    return row | {"figures": [*row["figures"], start]}


def bytes_over_start(row: Mapping[str, Any]) -> float | None:
    """Return how many times as many bytes as a turn's kernel its start moves; None if either is unknown.

    Args:
        row: a row of TURNS.
    """
    verdict = row.get("verdict")
    if verdict is None or not verdict.get("correct"):
        return None
    figures = {one["name"]: one["value"] for one in verdict.get("figures") or ()}
    start, own = figures.get(START_BYTES), figures.get("bytes_moved")
    return start / own if start and own else None
