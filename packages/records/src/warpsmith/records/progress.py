"""What each turn of a trajectory adds: trajectories that it solves first, and the change of the reward to the next."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Improvement:
    """Reward of a turn minus that of the turn before it.

    Attributes:
        trajectories: how many have both turns.
        mean: over these; None if there are none.
    """

    trajectories: int
    mean: float | None


@dataclass(frozen=True)
class TurnProgress:
    """One turn over all trajectories with a valid turn, also those that ended before it.

    Attributes:
        turn_number: from 1.
        first_solved: share of trajectories whose first correct turn this is, in [0, 1].
        solved_by: share of trajectories with a correct turn up to this one, in [0, 1].
        improvement: from this turn to the next.
        improvement_solved: the same, for trajectories with a correct turn up to this one.
        improvement_unsolved: the same, for all others.
    """

    turn_number: int
    first_solved: float
    solved_by: float
    improvement: Improvement
    improvement_solved: Improvement
    improvement_unsolved: Improvement


def progress_of(valid: pa.Table) -> tuple[TurnProgress, ...]:
    """Return the progress at each turn, from turn 1 to the last that any trajectory has.

    Args:
        valid: valid turns with the columns `run`, `trajectory`, `turn`, `reward` and `correct`, ordered by the first
            three.
    """
    trajectories, solved_at, gains = _counted(valid)
    turns = 1 + max([*solved_at, *(turn for turn, _ in gains), *_last_turn(valid)], default=-1)
    found: list[TurnProgress] = []
    solved = 0
    for turn in range(turns):
        solved += solved_at[turn]
        before, not_before = gains.get((turn, True), []), gains.get((turn, False), [])
        found.append(
            TurnProgress(
                turn_number=turn + 1,
                first_solved=solved_at[turn] / trajectories,
                solved_by=solved / trajectories,
                improvement=_improvement([*before, *not_before]),
                improvement_solved=_improvement(before),
                improvement_unsolved=_improvement(not_before),
            )
        )
    return tuple(found)


def _counted(valid: pa.Table) -> tuple[int, Counter[int], dict[tuple[int, bool], list[float]]]:
    """Return how many trajectories there are, how many each turn solves first, and the gains after (turn, solved)."""
    solved_at: Counter[int] = Counter()
    gains: dict[tuple[int, bool], list[float]] = {}
    trajectories, solved, last = 0, False, (-2, 0.0)
    name: tuple[str, str] | None = None
    columns = (valid.column(column).to_pylist() for column in ("run", "trajectory", "turn", "reward", "correct"))
    for run, trajectory, turn, reward, correct in zip(*columns, strict=True):
        if (run, trajectory) != name:
            trajectories, name, solved, last = trajectories + 1, (run, trajectory), False, (-2, 0.0)
        if last[0] == turn - 1:
            gains.setdefault((last[0], solved), []).append(reward - last[1])
        if correct and not solved:
            solved = True
            solved_at[turn] += 1
        last = (turn, reward)
    return trajectories, solved_at, gains


def _last_turn(valid: pa.Table) -> list[int]:
    return [max(valid.column("turn").to_pylist())] if valid.num_rows else []


def _improvement(gains: Sequence[float]) -> Improvement:
    return Improvement(len(gains), sum(gains) / len(gains) if gains else None)
