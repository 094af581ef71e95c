"""The performance of a policy on given problems: rates by turn and level, pass@k, and comparison of two policies."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warpsmith.evaluator.bench.scores import FASTER_THAN, geometric_mean, pass_at_k
from warpsmith.records.errors import UsageError

__all__ = [
    "Comparison",
    "EvaluationResult",
    "ProblemRates",
    "Rates",
    "TurnRates",
    "compare",
    "pass_at_k",
    "solved_shares",
    "summarise",
]

Row = Mapping[str, Any]

_PASS_AT = (1, 2, 4, 5, 8, 10, 16, 20, 32, 64)


@dataclass(frozen=True)
class Rates:
    """Rates over trajectories, 0 to 1; None if there are no trajectories.

    Args:
        trajectories: valid trajectories counted.
        compiled: share with a turn that compiled.
        correct: share with a turn that was correct.
    """

    trajectories: int
    compiled: float | None
    correct: float | None


@dataclass(frozen=True)
class TurnRates:
    """One turn, over the trajectories that reached it.

    Args:
        turn_number: from 1.
        reached: trajectories that had this turn.
        compiled: share of these turns that compiled.
        correct: share of these turns that were correct.
        solved_by: share of all trajectories that were correct at this turn or before.
    """

    turn_number: int
    reached: int
    compiled: float
    correct: float
    solved_by: float


@dataclass(frozen=True)
class ProblemRates:
    """One problem: its valid trajectories, and how many of them solved it."""

    problem: str
    level: int | None
    trajectories: int
    solved: int


@dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation. Rates are over valid trajectories; `invalid` counts the others.

    Args:
        rates: over all trajectories.
        pass_at: unbiased pass@k (Chen et al. 2021, eq. 1), by k, over problems with at least k valid trajectories.
        by_turn: by turn.
        by_level: by level (`none` for problems without a level).
        speedup: geometric mean of the best speedups of solved trajectories; None if nothing was timed.
        fast_p: share of trajectories with a correct turn more than p times as fast as the reference, by p (KernelBench,
                arXiv 2502.10517); None if nothing was timed.
        invalid: trajectories lost to infrastructure failures.
        problems: per problem, sorted by name.
    """

    rates: Rates
    pass_at: dict[int, float]
    by_turn: list[TurnRates]
    by_level: dict[str, Rates]
    speedup: float | None
    fast_p: dict[float, float] | None
    invalid: int
    problems: list[ProblemRates]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _Trajectory:
    problem: str
    level: int | None
    compiled: list[bool]
    correct: list[bool]
    speedup: float | None


def summarise(rows: Sequence[Row]) -> EvaluationResult:
    """Return the result for the turns of an evaluation, in any order.

    Raises:
        UsageError: there are no turns.
    """
    if not rows:
        raise UsageError("There are no turns to summarise.", "Evaluate at least one problem with one sample.")
    by_trajectory: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r["trajectory"], r["turn"])):
        by_trajectory.setdefault(row["trajectory"], []).append(row)
    valid = [_trajectory(turns) for turns in by_trajectory.values() if all(turn["valid"] for turn in turns)]
    problems = _by_problem(valid)
    return EvaluationResult(
        rates=_rates(valid),
        pass_at=_pass_at(problems),
        by_turn=_by_turn(valid),
        by_level=_by_level(valid),
        speedup=geometric_mean([t.speedup for t in valid if t.speedup is not None]),
        fast_p=_fast_p(valid),
        invalid=len(by_trajectory) - len(valid),
        problems=problems,
    )


@dataclass(frozen=True)
class Comparison:
    """Two policies on the same problems, `second` minus `first`: share of solved trajectories.

    Args:
        problems: number of problems in both.
        first: mean of the first policy.
        second: mean of the second.
        difference: second - first.
        low, high: 95 % interval of the difference, paired bootstrap over problems.
        probability: share of resamples in which the second is better.
    """

    problems: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    probability: float


def compare(
    first: Mapping[str, float], second: Mapping[str, float], *, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare solved shares by problem with a paired bootstrap (Efron and Tibshirani 1993, percentile interval).

    Raises:
        UsageError: the results have no problem in common.
    """
    shared = sorted(set(first) & set(second))
    if not shared:
        raise UsageError("The two evaluations have no problem in common.", "Evaluate both on the same problems.")
    differences = [second[name] - first[name] for name in shared]
    rng = random.Random(seed)
    means = sorted(sum(rng.choices(differences, k=len(differences))) / len(differences) for _ in range(resamples))
    return Comparison(
        problems=len(shared),
        first=sum(first[name] for name in shared) / len(shared),
        second=sum(second[name] for name in shared) / len(shared),
        difference=sum(differences) / len(differences),
        low=means[int(0.025 * (resamples - 1))],
        high=means[int(0.975 * (resamples - 1))],
        probability=sum(mean > 0 for mean in means) / resamples,
    )


def solved_shares(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the solved share by problem from `EvaluationResult.to_json()` as read back from a file.

    Raises:
        UsageError: it is not an evaluation result.
    """
    problems = result.get("problems")
    if not isinstance(problems, list):
        raise UsageError("Not an evaluation result: it has no list `problems`.", "Pass a file written by evaluate.")
    return {p["problem"]: p["solved"] / p["trajectories"] for p in problems if p["trajectories"]}


def _trajectory(turns: Sequence[Row]) -> _Trajectory:
    verdicts = [turn["verdict"] for turn in turns]
    speedups = [v["speedup"] for v in verdicts if v["correct"] and v["speedup"] is not None]
    return _Trajectory(
        problem=turns[0]["problem"],
        level=turns[0]["level"],
        compiled=[v["compiled"] for v in verdicts],
        correct=[v["correct"] for v in verdicts],
        speedup=max(speedups, default=None),
    )


def _rates(trajectories: Sequence[_Trajectory]) -> Rates:
    return Rates(
        len(trajectories),
        _mean([any(t.compiled) for t in trajectories]),
        _mean([any(t.correct) for t in trajectories]),
    )


def _by_problem(trajectories: Sequence[_Trajectory]) -> list[ProblemRates]:
    groups: dict[tuple[str, int | None], list[bool]] = {}
    for t in trajectories:
        groups.setdefault((t.problem, t.level), []).append(any(t.correct))
    return [ProblemRates(name, level, len(s), sum(s)) for (name, level), s in sorted(groups.items(), key=_by_name)]


def _by_name(item: tuple[tuple[str, int | None], list[bool]]) -> str:
    return item[0][0]


def _pass_at(problems: Sequence[ProblemRates]) -> dict[int, float]:
    found = {}
    for k in _PASS_AT:
        enough = [p for p in problems if p.trajectories >= k]
        if enough:
            found[k] = sum(pass_at_k(p.trajectories, p.solved, k) for p in enough) / len(enough)
    return found


def _by_turn(trajectories: Sequence[_Trajectory]) -> list[TurnRates]:
    longest = max((len(t.correct) for t in trajectories), default=0)
    return [_turn_rates(trajectories, turn) for turn in range(longest)]


def _turn_rates(trajectories: Sequence[_Trajectory], turn: int) -> TurnRates:
    reached = [t for t in trajectories if len(t.correct) > turn]
    return TurnRates(
        turn_number=turn + 1,
        reached=len(reached),
        compiled=sum(t.compiled[turn] for t in reached) / len(reached),
        correct=sum(t.correct[turn] for t in reached) / len(reached),
        solved_by=sum(any(t.correct[: turn + 1]) for t in trajectories) / len(trajectories),
    )


def _by_level(trajectories: Sequence[_Trajectory]) -> dict[str, Rates]:
    levels = sorted({t.level for t in trajectories}, key=lambda level: -1 if level is None else level)
    return {
        "none" if level is None else str(level): _rates([t for t in trajectories if t.level == level])
        for level in levels
    }


def _fast_p(trajectories: Sequence[_Trajectory]) -> dict[float, float] | None:
    if all(t.speedup is None for t in trajectories):
        return None
    fast = {p: [t.speedup is not None and t.speedup > p for t in trajectories] for p in FASTER_THAN}
    return {p: sum(are) / len(are) for p, are in fast.items()}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
