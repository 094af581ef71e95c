"""The batch of a step: groups without spread are made up for, within bounds, and a resumed run takes what there is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from warpsmith.records.schema import TURNS
from warpsmith.records.writer import RunWriter
from warpsmith.rollout.datasets import ProblemRow, generated
from warpsmith.trainer.advantage.estimators.final import FinalScore
from warpsmith.trainer.advantage.estimators.trajectory import TrajectoryReturn
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, TrainerConfig
from warpsmith.trainer.data.order import taken
from warpsmith.trainer.errors import CollectionError
from warpsmith.trainer.rollouts.batch_source import TRAINING_COLUMNS, BatchSource, groups_with_spread, trained_part
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches
from warpsmith.trainer.runs.grpo import GrpoRun
from warpsmith.trainer.weights.checkpoint import Progress

Table = Callable[[list[dict[str, Any]]], pa.Table]
PROBLEMS = 10


class Rounds:
    """Makes the turns of each round: a problem of an even number has spread, others have none; keeps what was asked."""

    def __init__(self, table_of: Table, *, lost_from: int = 99, flat: bool = False) -> None:
        self.problems = generated(seed=0, count=PROBLEMS, levels=(1,))
        self.number = {problem.name: number for number, problem in enumerate(self.problems)}
        self.asked: list[tuple[str, list[int]]] = []
        self._table_of, self._lost_from, self._flat = table_of, lost_from, flat

    def collect(self, problems: Sequence[ProblemRow], samples: int, *, label: str, **_: Any) -> pa.Table:
        self.asked.append((label, [self.number[problem.name] for problem in problems]))
        if len(self.asked) > self._lost_from:
            raise CollectionError("None of the turns could be sampled.", "Go on.")
        return self._table_of(
            [row for place, problem in enumerate(problems) for row in self._group(label, place, problem, samples)]
        )

    def _group(self, label: str, place: int, problem: ProblemRow, samples: int) -> list[dict[str, Any]]:
        group = f"{label}/{place}"
        spread = not self._flat and self.number[problem.name] % 2 == 0
        scores = [0.1 if spread and sample else 0.3 for sample in range(samples)]
        return [
            {
                "group": group, "trajectory": f"{group}/{sample}", "sample": sample, "problem": problem.name,
                "reward": score, "return": score, "after_step": 0,
            }
            for sample, score in enumerate(scores)
        ]  # fmt: skip


def config(**algorithm: Any) -> TrainerConfig:
    chosen = {"prompts_per_step": 3, "samples_per_prompt": 2, "dynamic_sampling": True} | algorithm
    return TrainerConfig(
        run=GrpoRunSection(dir=Path("unused")), policy={"path": "unused"}, algorithm=AlgorithmSection(**chosen)
    )


def source(rounds: Rounds, said: list[str], recorded: RecordedBatches | None = None, **algorithm: Any) -> BatchSource:
    return BatchSource(config(**algorithm), rounds.problems, rounds.collect, recorded=recorded, say=said.append)


def test_groups_without_spread_are_made_up_for(turns_table: Table) -> None:
    rounds, said = Rounds(turns_table), []
    found = source(rounds, said, dynamic_sampling={"refill_rounds": 20}).collect(1, Progress(cursor=2))
    order = taken(2, found.problems, PROBLEMS, 0)
    # Every problem is handed out once, in the run's order, and each round asks for as many as are missing.
    assert [number for _, numbers in rounds.asked for number in numbers] == order
    assert [label for label, _ in rounds.asked] == ["step-1", *(f"step-1/refill-{n}" for n in range(1, found.rounds))]
    even = 0
    for _, numbers in rounds.asked:
        assert len(numbers) == 3 - even
        even += sum(number % 2 == 0 for number in numbers)
    assert even == 3
    table = found.table()
    assert table.num_rows == 2 * found.problems
    part = trained_part(table, TurnReturn(), 3)
    assert len(groups_with_spread(part, TurnReturn())) == 3
    assert part.num_rows == 6
    assert not said


def test_without_it_the_batch_is_what_was_sampled(turns_table: Table) -> None:
    rounds = Rounds(turns_table)
    found = source(rounds, [], dynamic_sampling=False).collect(1, Progress())
    assert (found.problems, found.rounds, len(rounds.asked)) == (3, 1, 1)


@pytest.mark.parametrize(("size", "parts"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (None, [3])])
def test_a_step_gathers_rollouts_until_it_has_its_problems(
    turns_table: Table, size: int | None, parts: list[int]
) -> None:
    rounds = Rounds(turns_table)
    found = source(rounds, [], dynamic_sampling=False, prompts_per_rollout=size).collect(1, Progress(cursor=2))
    assert [len(numbers) for _, numbers in rounds.asked] == parts
    assert [number for _, numbers in rounds.asked for number in numbers] == taken(2, 3, PROBLEMS, 0)
    assert [label for label, _ in rounds.asked] == ["step-1", "step-1/rollout-2", "step-1/rollout-3"][: len(parts)]
    assert (found.problems, found.rounds, found.table().num_rows) == (3, 1, 6)
    assert len(found.table()["group"].unique()) == 3


def test_a_killed_run_loses_one_rollout_at_most(turns_table: Table, tmp_path: Path) -> None:
    before = Rounds(turns_table)
    whole = source(before, [], dynamic_sampling=False, prompts_per_rollout=1).collect(1, Progress())
    again = Rounds(turns_table)
    with RunWriter(tmp_path) as writer:
        for label, numbers in before.asked[:2]:
            writer.append("turns", again.collect([again.problems[n] for n in numbers], 2, label=label).cast(TURNS))
    after = Rounds(turns_table)
    recorded = RecordedBatches(tmp_path, 0)
    resumed = source(after, [], recorded, dynamic_sampling=False, prompts_per_rollout=1).collect(1, Progress())
    assert after.asked == before.asked[2:]
    assert resumed.table()["trajectory"] == whole.table()["trajectory"]


def test_a_rollout_is_no_larger_than_its_step() -> None:
    with pytest.raises(ValueError, match=r"prompts_per_rollout \(4\) is more than prompts_per_step \(3\)"):
        config(prompts_per_rollout=4)


@pytest.mark.parametrize("bound", [0, 2])
def test_the_rounds_are_bounded_and_a_batch_without_spread_is_kept(turns_table: Table, bound: int) -> None:
    rounds = Rounds(turns_table, flat=True)
    found = source(rounds, [], dynamic_sampling={"refill_rounds": bound}).collect(1, Progress())
    assert (found.problems, found.rounds) == (3 + 3 * bound, 1 + bound)
    part = trained_part(found.table(), TurnReturn(), 3)
    assert part["group"].unique().to_pylist() == ["step-1/0", "step-1/1", "step-1/2"]


def test_a_lost_round_ends_the_search_and_is_reported(turns_table: Table) -> None:
    rounds, said = Rounds(turns_table, flat=True, lost_from=2), []
    found = source(rounds, said).collect(1, Progress())
    # What was handed out stays handed out: a resumed run has the same order.
    assert (found.problems, found.rounds) == (9, 2)
    assert "replaces no more groups: None of the turns" in said[0]


def test_a_lost_first_round_ends_the_run(turns_table: Table) -> None:
    with pytest.raises(CollectionError):
        source(Rounds(turns_table, lost_from=0), []).collect(1, Progress())


def test_a_resumed_run_trains_the_rounds_that_were_recorded(turns_table: Table, tmp_path: Path) -> None:
    before = Rounds(turns_table)
    whole = source(before, [], dynamic_sampling={"refill_rounds": 20}).collect(1, Progress(cursor=3))
    assert whole.rounds > 1
    again = Rounds(turns_table)
    with RunWriter(tmp_path) as writer:
        for label, numbers in before.asked[:-1]:
            kept = again.collect([again.problems[n] for n in numbers], 2, label=label)
            writer.append("turns", kept.cast(TURNS))
    after, said = Rounds(turns_table), []
    resumed = source(after, said, RecordedBatches(tmp_path, 0), dynamic_sampling={"refill_rounds": 20}).collect(
        1, Progress(cursor=3)
    )
    assert after.asked == before.asked[-1:]
    assert len(said) == len(before.asked) - 1
    assert resumed.problems == whole.problems
    # The time that it took is that of the last round alone, and says nothing about the others' speed.
    assert (whole.recorded, resumed.recorded) == (False, True)
    columns = ["group", "trajectory", "reward"]
    assert (
        resumed.table()
        .select(columns)
        .sort_by("trajectory")
        .equals(whole.table().select(columns).sort_by("trajectory"))
    )


def test_spread_is_what_the_estimator_judges_by(turns_table: Table) -> None:
    """Two trajectories that differ in the first turn and end alike."""
    rows = [
        {
            "trajectory": f"g0/{i}",
            "turn": turn,
            "num_turns": 2,
            "reward": score,
            "return": score + 0.4 * 0.3 * (1 - turn),
        }
        for i, first in enumerate((0.0, 0.1))
        for turn, score in enumerate((first, 0.3))
    ]
    table = turns_table(rows).select(TRAINING_COLUMNS)
    assert groups_with_spread(table, TurnReturn()) == ["g0"]
    assert groups_with_spread(table, TrajectoryReturn()) == ["g0"]
    assert groups_with_spread(table, FinalScore()) == []


@pytest.mark.parametrize(("name", "known"), [("grpo", True), ("ppo", False)])
def test_only_where_samples_are_compared_is_their_spread_reported(turns_table: Table, name: str, known: bool) -> None:
    run = SimpleNamespace(config=config(type=name, dynamic_sampling=False))
    figures = GrpoRun.figures_of(run, turns_table([{}]).select(TRAINING_COLUMNS))  # type: ignore[arg-type]
    assert figures["sampled_groups"] == 1
    assert figures.get("no_spread_rate") == (1.0 if known else None)
