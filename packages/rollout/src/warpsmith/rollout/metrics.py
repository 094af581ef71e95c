"""The performance of a policy on given problems: by turn and level, pass@k, and comparison of two policies."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from warpsmith.evaluator.bench.scores import FASTER_THAN, geometric_mean, pass_at_k
from warpsmith.records.errors import UsageError
from warpsmith.rollout.turn_recording import bytes_over_start

__all__ = [
    "AgentRates",
    "Comparison",
    "EvaluationResult",
    "ProblemRates",
    "Rates",
    "TurnRates",
    "compare",
    "gains",
    "pass_at_k",
    "solved_shares",
    "summarise",
]

Row = Mapping[str, Any]

GAINS_FASTER_THAN = (1.2, 2.0)
"""The p of the fast_p that two policies are compared by."""
_THRESHOLDS = sorted({*FASTER_THAN, *GAINS_FASTER_THAN})

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
        speedup: geometric mean of the best speedups up to this turn, over the trajectories that have one; None if
            nothing was timed.
        fast_p: share of all trajectories with a correct turn more than p times as fast as the reference up to this
            one, by p; None if nothing was timed.
    """

    turn_number: int
    reached: int
    compiled: float
    correct: float
    solved_by: float
    speedup: float | None = None
    fast_p: dict[float, float] | None = None


@dataclass(frozen=True)
class AgentRates:
    """One agent, over the valid trajectories in which it took a turn.

    Args:
        trajectories: how many.
        turns: its turns.
        correct: share of its trajectories with a correct turn of its own.
        reward: mean score of its turns.
        improved: share of its trajectories with a turn that is better than the start: faster, or where nothing is timed
            with fewer bytes moved; None if no turn is compared with a start.
        speedup_over_start: geometric mean of the best speedup over the start, over the trajectories that have one.
        bytes_over_start: geometric mean of the start's bytes moved over the fewest of a turn, likewise.
    """

    trajectories: int
    turns: int
    correct: float
    reward: float | None
    improved: float | None = None
    speedup_over_start: float | None = None
    bytes_over_start: float | None = None


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
        by_agent: by agent; empty in an environment without agents.
    """

    rates: Rates
    pass_at: dict[int, float]
    by_turn: list[TurnRates]
    by_level: dict[str, Rates]
    speedup: float | None
    fast_p: dict[float, float] | None
    invalid: int
    problems: list[ProblemRates]
    by_agent: dict[str, AgentRates] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _Trajectory:
    problem: str
    level: int | None
    compiled: list[bool]
    correct: list[bool]
    speedups: list[float | None]
    agents: list[str | None]
    rewards: list[float | None]
    over_start: list[float | None]
    bytes_over_start: list[float | None]

    @property
    def speedup(self) -> float | None:
        """The best speedup of a correct turn."""
        return self.best_until(len(self.speedups))

    def best_until(self, turns: int) -> float | None:
        """Return the best speedup of a correct turn among the first `turns`."""
        return max((speedup for speedup in self.speedups[:turns] if speedup is not None), default=None)


def summarise(rows: Sequence[Row]) -> EvaluationResult:
    """Return the result for the turns of an evaluation, in any order.

    Raises:
        UsageError: there are no turns.
    """
    if not rows:
        raise UsageError("There are no turns to summarise.", "Evaluate at least one problem with one sample.")
    valid, invalid = _valid_trajectories(rows)
    problems = _by_problem(valid)
    return EvaluationResult(
        rates=_rates(valid),
        pass_at=_pass_at(problems),
        by_turn=_by_turn(valid),
        by_level=_by_level(valid),
        speedup=geometric_mean([t.speedup for t in valid if t.speedup is not None]),
        fast_p=_fast_p([t.speedup for t in valid]),
        invalid=invalid,
        problems=problems,
        by_agent=_by_agent(valid),
    )


def _valid_trajectories(rows: Sequence[Row]) -> tuple[list[_Trajectory], int]:
    """Return the trajectories without an invalid turn, and the number of the others."""
    by_trajectory: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r["trajectory"], r["turn"])):
        by_trajectory.setdefault(row["trajectory"], []).append(row)
    valid = [_trajectory(turns) for turns in by_trajectory.values() if all(turn["valid"] for turn in turns)]
    return valid, len(by_trajectory) - len(valid)


@dataclass(frozen=True)
class Comparison:
    """Two policies on the same problems, `second` minus `first`, of one measure: for example the solved share.

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
    """Compare a measure by problem with a paired bootstrap (Efron and Tibshirani 1993, percentile interval).

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


def gains(first: Sequence[Row], second: Sequence[Row]) -> dict[str, Comparison]:
    """Compare the turns of two evaluations of the same problems, by measure; problems that only one has are left out.

    Returns:
        `solved` and, if both were timed, `fast_1.2`, `fast_2` (shares of trajectories) and `log_speedup`: the natural
        logarithm of the geometric mean speedup of solved trajectories, over the problems that both solve. A measure
        without a common problem is left out.
    """
    before, after = (_measures(_valid_trajectories(rows)[0]) for rows in (first, second))
    return {name: compare(before[name], after[name]) for name in before if set(before[name]) & set(after.get(name, {}))}


def _measures(trajectories: Sequence[_Trajectory]) -> dict[str, dict[str, float]]:
    """Return each measure by problem."""
    by_problem: dict[str, list[_Trajectory]] = {}
    for t in trajectories:
        by_problem.setdefault(t.problem, []).append(t)
    found = {"solved": {name: _share([any(t.correct) for t in own]) for name, own in by_problem.items()}}
    if all(t.speedup is None for t in trajectories):
        return found
    for p in GAINS_FASTER_THAN:
        found[f"fast_{p:g}"] = {
            name: _share([t.speedup is not None and t.speedup > p for t in own]) for name, own in by_problem.items()
        }
    logs = {name: [math.log(t.speedup) for t in own if t.speedup is not None] for name, own in by_problem.items()}
    found["log_speedup"] = {name: sum(values) / len(values) for name, values in logs.items() if values}
    return found


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


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
    return _Trajectory(
        problem=turns[0]["problem"],
        level=turns[0]["level"],
        compiled=[v["compiled"] for v in verdicts],
        correct=[v["correct"] for v in verdicts],
        speedups=[v["speedup"] if v["correct"] else None for v in verdicts],
        agents=[turn.get("agent") for turn in turns],
        rewards=[turn.get("reward") for turn in turns],
        over_start=[turn.get("speedup_over_start") for turn in turns],
        bytes_over_start=[bytes_over_start(turn) for turn in turns],
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
    best = [t.best_until(turn + 1) for t in trajectories]
    return TurnRates(
        turn_number=turn + 1,
        reached=len(reached),
        compiled=sum(t.compiled[turn] for t in reached) / len(reached),
        correct=sum(t.correct[turn] for t in reached) / len(reached),
        solved_by=sum(any(t.correct[: turn + 1]) for t in trajectories) / len(trajectories),
        speedup=geometric_mean([speedup for speedup in best if speedup is not None]),
        fast_p=_fast_p(best),
    )


def _by_level(trajectories: Sequence[_Trajectory]) -> dict[str, Rates]:
    levels = sorted({t.level for t in trajectories}, key=lambda level: -1 if level is None else level)
    return {
        "none" if level is None else str(level): _rates([t for t in trajectories if t.level == level])
        for level in levels
    }


def _by_agent(trajectories: Sequence[_Trajectory]) -> dict[str, AgentRates]:
    names = sorted({agent for t in trajectories for agent in t.agents if agent is not None})
    return {name: _agent_rates(name, [t for t in trajectories if name in t.agents]) for name in names}


def _agent_rates(name: str, trajectories: Sequence[_Trajectory]) -> AgentRates:
    own = [[place for place, agent in enumerate(t.agents) if agent == name] for t in trajectories]
    both = list(zip(trajectories, own, strict=True))
    rewards = [reward for t, places in both for place in places if (reward := t.rewards[place]) is not None]
    speedups = [_best([t.over_start[place] for place in places]) for t, places in both]
    saved = [_best([t.bytes_over_start[place] for place in places]) for t, places in both]
    gains = [saved[i] if speedup is None else speedup for i, speedup in enumerate(speedups)]
    return AgentRates(
        trajectories=len(trajectories),
        turns=sum(map(len, own)),
        correct=_share([any(t.correct[place] for place in places) for t, places in both]),
        reward=_mean(rewards),
        improved=_share([(gain or 0.0) > 1 for gain in gains]) if any(gain is not None for gain in gains) else None,
        speedup_over_start=geometric_mean([speedup for speedup in speedups if speedup is not None]),
        bytes_over_start=geometric_mean([ratio for ratio in saved if ratio is not None]),
    )


def _best(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _fast_p(speedups: Sequence[float | None]) -> dict[float, float] | None:
    """Return fast_p of trajectories with these best speedups; None if none has one."""
    if all(speedup is None for speedup in speedups):
        return None
    return {p: _share([speedup is not None and speedup > p for speedup in speedups]) for p in _THRESHOLDS}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
