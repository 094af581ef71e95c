"""Attempts as turns of a run, written as they end and read back when a bench is resumed.

A search is a trajectory and an attempt a turn, so that summaries, reports, exports and `metrics` read a bench like
rollouts. What the schema has no column for is a figure of the verdict: tokens, island, generation, parent.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.layout import records_dir
from warpsmith.records.reader import RunReader
from warpsmith.records.schema import turns_batch
from warpsmith.records.writer import RunWriter
from warpsmith.rollout.bench.answers import Answer
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.strategies.base import Plan
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.samplers.base import Sampling
from warpsmith.rollout.turn_recording import EpisodeLabels, TurnRecord, TurnRow, turn_row

ROLE: Final = "bench"
_NAMED: Final = 8


@dataclass(frozen=True)
class SearchName:
    """One problem and one sample.

    Attributes:
        problem: the problem.
        sample: number of the search among those of the problem, from 0.
    """

    problem: ProblemRow
    sample: int

    @property
    def group(self) -> str:
        """The group of the records, one a problem; two problems may have one name."""
        return f"{ROLE}/{self.problem.name}/{self.problem.to_problem().key[:_NAMED]}"

    @property
    def trajectory(self) -> str:
        return f"{self.group}/{self.sample}"

    def __str__(self) -> str:
        return f"{self.problem.name} sample {self.sample}"


@dataclass
class Made:
    """An attempt as far as it has got.

    Attributes:
        plan: how it was asked for.
        messages: its prompt.
        answer: what the endpoint answered; None if no answer came.
        kernel: the code in it; None if there is none.
        verdict: None if there is none yet.
        score: the score; its reason if the attempt is lost.
        new: whether something had to be asked or judged for it.
    """

    plan: Plan
    messages: list[Message] = field(default_factory=list)
    answer: Answer | None = None
    kernel: str | None = None
    verdict: Verdict | None = None
    score: Score = field(default_factory=lambda: Score(None, "the attempt did not end"))
    judge_s: float = 0.0
    new: bool = False
    seed: int | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


RecordedAttempt = Mapping[str, Any]
"""A recorded attempt: these columns of a row of `TURNS`."""

_COLUMNS: Final = (
    "trajectory", "turn", "messages", "completion", "finish_reason", "verdict", "invalid_reason", "generate_s",
)  # fmt: skip


def recorded_attempts(output: Path) -> dict[str, dict[int, RecordedAttempt]]:
    """Return what a run directory has, by trajectory and number; nothing if it has no records.

    Raises:
        SegmentError: the records are damaged.
    """
    found: dict[str, dict[int, RecordedAttempt]] = {}
    if not records_dir(output).is_dir():
        return found
    for batch in RunReader(output).batches("turns", columns=[*_COLUMNS], latest=True):
        for row in batch.to_pylist():
            found.setdefault(row["trajectory"], {})[row["turn"]] = row
    return found


def answer_of(row: Mapping[str, Any]) -> Answer | None:
    """Return the answer of a recorded attempt; None if none came."""
    figures = figures_of(row)
    if "completion_tokens" not in figures:
        return None
    return Answer(
        row["completion"],
        row["finish_reason"],
        int(figures["prompt_tokens"]),
        int(figures["completion_tokens"]),
        bool(figures.get("tokens_estimated", 0.0)),
        row["generate_s"] or 0.0,
    )


def figures_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the named figures of a recorded verdict."""
    verdict = row["verdict"] or {}
    return {one["name"]: one["value"] for one in verdict.get("figures") or ()}


@dataclass(frozen=True)
class Recorder:
    """Appends attempts to a run's records.

    Args:
        writer: the records.
        config: the settings.
        run: name of the run.
    """

    writer: RunWriter
    config: BenchConfig
    run: str

    def record(self, name: SearchName, made: Made, planned: int) -> None:
        """Append one attempt; it is recorded when this returns.

        Args:
            name: its search.
            made: the attempt.
            planned: attempts of the search so far, with those that are being made.
        """
        self.writer.append("turns", turns_batch([self._row(name, made, planned)]))

    def _row(self, name: SearchName, made: Made, planned: int) -> TurnRow:
        config, answer = self.config, made.answer
        labels = EpisodeLabels(
            self.run, config.strategy.type, ROLE, name.problem, name.group, name.sample, after_step=None
        )
        sampling = Sampling(
            temperature=config.sampling.temperature,
            max_tokens=config.sampling.max_tokens,
            top_p=config.sampling.top_p,
            seed=made.seed,
        )
        turn = TurnRecord(
            sampling,
            started_at=made.started_at,
            messages=made.messages,
            text=answer.text if answer else "",
            kernel=made.kernel,
            verdict=made.verdict,
            score=made.score,
            generate_s=answer.seconds if answer else None,
        )
        row = turn_row(labels, [turn], 0)
        if row["verdict"] is not None:
            row["verdict"]["figures"] += [{"name": key, "value": value} for key, value in _figures(made).items()]
        return row | {
            "turn": made.plan.index,
            "num_turns": planned,
            # An attempt is not credited with what later attempts make of it.
            "return": made.score.value,
            "finish_reason": answer.finish_reason if answer else None,
        }


def _figures(made: Made) -> dict[str, float]:
    plan, answer = made.plan, made.answer
    found = {"island": float(plan.island), "generation": float(plan.generation), "judge_s": made.judge_s}
    if plan.parents:
        found["parent"] = float(plan.parents[-1])
    if answer is not None:
        found |= {
            "prompt_tokens": float(answer.prompt_tokens),
            "completion_tokens": float(answer.completion_tokens),
            "tokens_estimated": float(answer.estimated),
        }
    return found


def seed_of(config: BenchConfig, name: SearchName, index: int) -> int | None:
    """Return the sampling seed of an attempt; None if none is sent."""
    if not config.sampling.seeded:
        return None
    digest = hashlib.sha256(f"{config.seed}/{name.trajectory}/{index}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
