"""summarize: figures of a run's trajectories, by turn and overall."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.parts import Part, check_grouping, parts_of
from warpsmith.records.progress import TurnProgress, progress_of
from warpsmith.records.reader import RunReader

FAST_P: Final = (0.0, 1.0, 1.5, 2.0)
_COLUMNS: Final = (
    "run",
    "role",
    "problem",
    "trajectory",
    "turn",
    "reward",
    "return",
    "valid",
    "verdict",
    "after_step",
)


@dataclass(frozen=True)
class TurnFigures:
    """Figures of one turn over the trajectories that had a valid turn there.

    Attributes:
        turn_number: from 1.
        trajectories: how many there are.
        reward_mean: mean turn score.
        compiled_rate, correct_rate: share of `trajectories`, in [0, 1].
        speedup_mean: mean speedup of the correct and timed ones; None if there are none.
    """

    turn_number: int
    trajectories: int
    reward_mean: float
    compiled_rate: float
    correct_rate: float
    speedup_mean: float | None


@dataclass(frozen=True)
class TrajectoryFigures:
    """One trajectory, with its valid turns in order.

    Attributes:
        aggregated_return: the return of the first turn, R_0; None if it was not recorded.
        improvement: last score minus first score.
    """

    run: str
    trajectory: str
    problem: str
    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    speedups: tuple[float | None, ...]
    aggregated_return: float | None
    improvement: float


@dataclass(frozen=True)
class RunSummary:
    """Figures over the trajectories of a run. Invalid turns are counted and otherwise ignored.

    Attributes:
        trajectories: those with at least one valid turn.
        turns: valid turns.
        invalid_turns: turns whose evaluation or generation failed through no fault of the policy.
        turns_mean: valid turns per trajectory.
        aggregated_return_mean: mean of the trajectories' aggregated return R_0, where it was recorded.
        final_correct_rate: share of trajectories whose last turn is correct.
        improvement_rate: share of the trajectories with two turns or more whose last score is above the first.
        speedup_mean: mean speedup of the last turns that are correct and timed.
        fast_p: for each p, the share of trajectories whose last turn is correct with a speedup above p
            (KernelBench's fast_p; untimed ones count as failures; empty if none is timed).
        by_turn: figures of each turn.
        progress: what each turn adds to the share of solved trajectories and to the reward.
        top: the trajectories with the highest aggregated return, best first.

    A rate or mean over nothing is None.
    """

    trajectories: int
    turns: int
    invalid_turns: int
    turns_mean: float | None
    aggregated_return_mean: float | None
    final_correct_rate: float | None
    improvement_rate: float | None
    speedup_mean: float | None
    fast_p: dict[str, float]
    by_turn: tuple[TurnFigures, ...]
    progress: tuple[TurnProgress, ...]
    top: tuple[TrajectoryFigures, ...]

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain lists, dicts and numbers, for JSON."""
        return dataclasses.asdict(self)


def parts(reader: RunReader, *, role: str | None = None, by: str | None = None) -> list[Part]:
    """Return the parts of the run; arguments and errors as for `parts_of`."""
    check_grouping(by)
    columns = dict.fromkeys(["role", "after_step", *([by] if by else [])])
    return parts_of(reader.table("turns", columns=list(columns), latest=True), role=role, by=by)


def summarize(reader: RunReader, *, role: str | None = None, after_step: int | None = None, top: int = 5) -> RunSummary:
    """Summarize the run's trajectories; for each key the row recorded last counts.

    Args:
        role: only the turns of this role ("train", "held_out", ...); all by default.
        after_step: only the turns sampled after this many training steps; all by default.
        top: how many of the best trajectories to list.
    """
    turns = _flat(reader)
    if role is not None:
        turns = turns.filter(pc.field("role") == role)
    if after_step is not None:
        turns = turns.filter(pc.field("after_step") == after_step)
    return summarize_turns(turns, top=top)


def summarize_parts(
    reader: RunReader, *, role: str | None = None, by: str | None = None, top: int = 5
) -> dict[str, RunSummary]:
    """Summarize each part of the run, by its label. Arguments and errors as for `summarize` and `parts_of`."""
    check_grouping(by)
    turns = _flat(reader, *([by] if by else []))
    return {part.label: summarize_turns(part.of(turns), top=top) for part in parts_of(turns, role=role, by=by)}


def summarize_turns(turns: pa.Table, *, top: int = 0) -> RunSummary:
    """As `summarize`, of a table of turns.

    Args:
        turns: columns of the schema's `turns`, and `compiled`, `correct` and `speedup` of the verdict; ordered by
            trajectory and turn.
        top: how many of the best trajectories to list.
    """
    valid = turns.filter(pc.field("valid"))
    trajectories = _trajectories(valid)
    return RunSummary(
        trajectories=trajectories.num_rows,
        turns=valid.num_rows,
        invalid_turns=turns.num_rows - valid.num_rows,
        turns_mean=_mean(trajectories.column("turn_count")),
        aggregated_return_mean=_mean(trajectories.column("aggregated_return")),
        final_correct_rate=_mean(trajectories.column("correct_last")),
        improvement_rate=_improvement_rate(trajectories),
        speedup_mean=_mean(trajectories.column("speedup_last").filter(trajectories.column("correct_last"))),
        fast_p=_fast_p(trajectories),
        by_turn=_by_turn(valid),
        progress=progress_of(valid),
        top=_top(trajectories, top),
    )


def _flat(reader: RunReader, *more: str) -> pa.Table:
    """Turns as plain columns, ordered by trajectory and turn; a turn without a verdict did not compile."""
    turns = reader.table("turns", columns=list(dict.fromkeys([*_COLUMNS, *more])), latest=True)
    verdict = turns.column("verdict")
    for name in ("compiled", "correct"):
        turns = turns.append_column(name, pc.fill_null(pc.struct_field(verdict, name), False))
    turns = turns.append_column("speedup", pc.struct_field(verdict, "speedup"))
    return turns.drop_columns(["verdict"]).sort_by(
        [("run", "ascending"), ("trajectory", "ascending"), ("turn", "ascending")]
    )


def _trajectories(valid: pa.Table) -> pa.Table:
    """One row per trajectory: its first and last turn, and its turns as lists."""
    ordered = pc.ScalarAggregateOptions(skip_nulls=False, min_count=0)
    # One thread, because first and last depend on the order of the rows.
    figures = valid.group_by(["run", "trajectory"], use_threads=False).aggregate(
        [
            ("problem", "first"),
            ("turn", "first"),
            ("turn", "count"),
            ("return", "first", ordered),
            ("reward", "first"),
            ("reward", "last"),
            ("correct", "last"),
            ("speedup", "last", ordered),
            ("reward", "list"),
            ("correct", "list"),
            ("speedup", "list"),
        ]
    )
    # R_0 is unknown if the first turn is invalid; a later turn's return is not the trajectory's.
    first_is_0 = pc.equal(figures.column("turn_first"), 0)
    aggregated = pc.if_else(first_is_0, figures.column("return_first"), pa.scalar(None, pa.float64()))
    return figures.drop_columns(["return_first"]).append_column("aggregated_return", aggregated)


def _improvement_rate(trajectories: pa.Table) -> float | None:
    several = trajectories.filter(pc.field("turn_count") > 1)
    return _mean(pc.greater(several.column("reward_last"), several.column("reward_first")))


def _fast_p(trajectories: pa.Table) -> dict[str, float]:
    speedup = trajectories.column("speedup_last")
    if speedup.null_count == len(speedup):
        return {}
    rates = {}
    for p in FAST_P:
        fast = pc.and_(trajectories.column("correct_last"), pc.fill_null(pc.greater(speedup, p), False))
        rates[f"{p:g}"] = pc.mean(pc.cast(fast, pa.float64())).as_py()
    return rates


def _by_turn(valid: pa.Table) -> tuple[TurnFigures, ...]:
    timed = pc.if_else(valid.column("correct"), valid.column("speedup"), pa.scalar(None, pa.float64()))
    figures = (
        valid.append_column("timed_speedup", timed)
        .group_by("turn")
        .aggregate(
            [
                ("reward", "count"),
                ("reward", "mean"),
                ("compiled", "mean"),
                ("correct", "mean"),
                ("timed_speedup", "mean"),
            ]
        )
        .sort_by("turn")
    )
    return tuple(
        TurnFigures(
            turn_number=row["turn"] + 1,
            trajectories=row["reward_count"],
            reward_mean=row["reward_mean"],
            compiled_rate=row["compiled_mean"],
            correct_rate=row["correct_mean"],
            speedup_mean=row["timed_speedup_mean"],
        )
        for row in figures.to_pylist()
    )


def _top(trajectories: pa.Table, count: int) -> tuple[TrajectoryFigures, ...]:
    order = pc.sort_indices(
        trajectories,
        sort_keys=[("aggregated_return", "descending"), ("reward_last", "descending"), ("trajectory", "ascending")],
    )
    return tuple(_trajectory(row) for row in trajectories.take(order[:count]).to_pylist())


def _trajectory(row: dict[str, Any]) -> TrajectoryFigures:
    rewards: Sequence[float] = row["reward_list"]
    return TrajectoryFigures(
        run=row["run"],
        trajectory=row["trajectory"],
        problem=row["problem_first"],
        rewards=tuple(rewards),
        correct=tuple(row["correct_list"]),
        speedups=tuple(row["speedup_list"]),
        aggregated_return=row["aggregated_return"],
        improvement=rewards[-1] - rewards[0],
    )


def _mean(values: pa.ChunkedArray) -> float | None:
    """Mean of the values that are not null; None if there are none."""
    mean: float | None = pc.mean(pc.cast(values, pa.float64())).as_py()
    return mean
