"""Chooses the problems of each step. A choice depends on the seed, the cursor and a state made of earlier results.

The state is plain JSON and belongs to `Progress`, so that it is in every checkpoint and a resumed run chooses the same
problems. States are values: each step's results make a new one.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.rollout.datasets import ProblemRow
from warpsmith.trainer.config.curriculum import (
    Curriculum,
    CurriculumStage,
    HorizonSection,
    SolveRateCurriculum,
    StagedCurriculum,
    UniformCurriculum,
)
from warpsmith.trainer.data.order import taken
from warpsmith.trainer.errors import ConfigError

State = Mapping[str, Any]
"""`{}` at the start of a run."""

_STAGE_STRIDE: Final = 7_919
_DIGITS: Final = 6
"""Digits of a rate in the state."""


class Choice(ABC):
    """A way to choose problems.

    The state has the solve rates of `Horizon` under `horizon`; everything else in it is that of the class.

    Args:
        config: the table `[curriculum]`.
        problems: all problems of the run.
        seed: the run's.
    """

    def __init__(self, config: Curriculum, problems: Sequence[ProblemRow], seed: int) -> None:
        self.problems, self.seed = problems, seed
        self._horizon = None if config.horizon is None else Horizon(config.horizon)

    def stage(self, state: State) -> int | None:
        """Return the stage, from 1; None for a curriculum without stages."""
        return None

    @abstractmethod
    def pick(self, state: State, cursor: int, after: int, count: int) -> list[int]:
        """Return the indices of problems.

        Args:
            state: made by `learn`.
            cursor: problems handed out by earlier steps.
            after: problems handed out by earlier rounds of the same step.
            count: how many to return.
        """

    def turns(self, state: State, index: int) -> int | None:
        """Return the most turns of an episode of a problem; None for the environment's."""
        return None if self._horizon is None else self._horizon.turns(state.get("horizon", {}), self.problems[index])

    def learn(self, state: State, solved: Mapping[str, Sequence[bool]], cursor: int) -> State:
        """Return the state after a step.

        Args:
            state: before it.
            solved: for each problem of the step by name, whether each valid trajectory solved it.
            cursor: problems handed out up to its end.
        """
        learned = self._learn(state, solved, cursor)
        if self._horizon is None:
            return learned
        return {**learned, "horizon": with_results(state.get("horizon", {}), solved, self._horizon.config.memory)}

    def _learn(self, state: State, solved: Mapping[str, Sequence[bool]], cursor: int) -> State:
        return {}

    def figures(self, state: State) -> dict[str, float]:
        """Return figures of the state for the step's metrics."""
        return {} if self._horizon is None else self._horizon.figures(state.get("horizon", {}))


class Horizon:
    """See `HorizonSection`. State: solve rates, by problem that was tried."""

    def __init__(self, config: HorizonSection) -> None:
        self.config = config

    def turns(self, rates: State, problem: ProblemRow) -> int | None:
        """Return the most turns of an episode; None for the environment's."""
        config, rate = self.config, rates.get(problem.name)
        if rate is not None and rate >= config.easy_at and config.easy_turns is not None:
            return config.easy_turns
        if rate is not None and rate <= config.hard_at and config.hard_turns is not None:
            return config.hard_turns
        return None if problem.level is None else config.levels.get(problem.level)

    def figures(self, rates: State) -> dict[str, float]:
        """Return how many of the problems that were tried are easy and hard."""
        found = list(rates.values())
        return {
            "curriculum_easy": float(sum(rate >= self.config.easy_at for rate in found)),
            "curriculum_hard": float(sum(rate <= self.config.hard_at for rate in found)),
        }


def with_results(rates: State, solved: Mapping[str, Sequence[bool]], memory: float) -> dict[str, float]:
    """Return solve rates after new attempts.

    Args:
        rates: by problem that was tried.
        solved: see `Choice.learn`.
        memory: share of an earlier rate that is kept.
    """
    new = dict(rates)
    for name, attempts in solved.items():
        if attempts:
            share = sum(attempts) / len(attempts)
            kept = memory if name in new else 0.0
            new[name] = round(kept * new.get(name, 0.0) + (1 - kept) * share, _DIGITS)
    return new


class Uniform(Choice):
    """See `UniformCurriculum`."""

    def pick(self, state: State, cursor: int, after: int, count: int) -> list[int]:
        """See `Choice`."""
        return taken(cursor + after, count, len(self.problems), self.seed)


class Staged(Choice):
    """See `StagedCurriculum`. State: `stage`, the cursor at which it `began`, the `solved` shares of its last steps.

    Raises:
        ConfigError: a stage has no problem.
    """

    def __init__(self, config: StagedCurriculum, problems: Sequence[ProblemRow], seed: int) -> None:
        super().__init__(config, problems, seed)
        self.config = config
        sizes = [problem.operations for problem in problems] if any(stage.operations for stage in config.stages) else []
        self._members = [_members(stage, problems, sizes) for stage in config.stages]
        for number, (stage, members) in enumerate(zip(config.stages, self._members, strict=True), 1):
            if not members:
                raise _empty(number, stage, problems, sizes)

    def stage(self, state: State) -> int | None:
        """See `Choice`."""
        return _stage(state) + 1

    def pick(self, state: State, cursor: int, after: int, count: int) -> list[int]:
        """See `Choice`: in shuffled order, from the beginning of the stage."""
        members = self._members[_stage(state)]
        order = taken(
            cursor - state.get("began", 0) + after, count, len(members), self.seed + _STAGE_STRIDE * _stage(state)
        )
        return [members[index] for index in order]

    def turns(self, state: State, index: int) -> int | None:
        """See `Choice`: the fewer of the stage's and the horizon's."""
        limits = (self.config.stages[_stage(state)].turns, super().turns(state, index))
        return min((limit for limit in limits if limit is not None), default=None)

    def _learn(self, state: State, solved: Mapping[str, Sequence[bool]], cursor: int) -> State:
        """See `Choice`: move to another stage if the solved share of a whole window says so."""
        attempts = [one for attempts in solved.values() for one in attempts]
        if not attempts:
            return state
        share = round(sum(attempts) / len(attempts), _DIGITS)
        stage, shares = _stage(state), [*state.get("solved", ()), share][-self.config.window :]
        mean = sum(shares) / len(shares)
        whole = len(shares) == self.config.window
        if whole and mean >= self.config.advance_at and stage + 1 < len(self.config.stages):
            return {"stage": stage + 1, "began": cursor, "solved": []}
        if whole and mean <= self.config.fall_back_at and stage > 0:
            return {"stage": stage - 1, "began": cursor, "solved": []}
        return {"stage": stage, "began": state.get("began", 0), "solved": shares}

    def figures(self, state: State) -> dict[str, float]:
        """See `Choice`: the stage, from 1."""
        return {"curriculum_stage": float(_stage(state) + 1), **super().figures(state)}


def _members(stage: CurriculumStage, problems: Sequence[ProblemRow], sizes: Sequence[int]) -> list[int]:
    """Return the indices of a stage's problems."""
    return [
        index
        for index, problem in enumerate(problems)
        if (not stage.levels or problem.level in stage.levels)
        and (stage.operations is None or sizes[index] <= stage.operations)
    ]


def _empty(number: int, stage: CurriculumStage, problems: Sequence[ProblemRow], sizes: Sequence[int]) -> ConfigError:
    there = sorted({problem.level for problem in problems if problem.level is not None})
    wanted = [f"a level of {list(stage.levels)}"] if stage.levels else []
    found = [f"the levels {there}"] if stage.levels else []
    if stage.operations is not None:
        wanted.append(f"at most {stage.operations} operations")
        found.append(f"{min(sizes)} to {max(sizes)} operations")
    return ConfigError(
        f"Stage {number} of the curriculum has no problem: none has {' and '.join(wanted)}; they have "
        f"{' and '.join(found)}.",
        "Change curriculum.stages, or problems.levels.",
    )


def _stage(state: State) -> int:
    return int(state.get("stage", 0))


class BySolveRate(Choice):
    """See `SolveRateCurriculum`. State: `rates`, by problem that was tried."""

    def __init__(self, config: SolveRateCurriculum, problems: Sequence[ProblemRow], seed: int) -> None:
        super().__init__(config, problems, seed)
        self.config = config

    def pick(self, state: State, cursor: int, after: int, count: int) -> list[int]:
        """See `Choice`: drawn by weight; a step draws no problem twice before it has drawn all."""
        rates = state.get("rates", {})
        weights = np.array([self._weight(rates.get(problem.name)) for problem in self.problems])
        dice = np.random.default_rng((self.seed, cursor))
        # A draw by weight without replacement is an order by exponential times: later rounds continue it.
        order = np.argsort(dice.exponential(size=len(weights)) / weights, kind="stable")
        return [int(order[place % len(order)]) for place in range(after, after + count)]

    def _weight(self, rate: float | None) -> float:
        if rate is None:
            return 1.0
        return self.config.floor + (1 - self.config.floor) * 4 * rate * (1 - rate)

    def _learn(self, state: State, solved: Mapping[str, Sequence[bool]], cursor: int) -> State:
        return {"rates": with_results(state.get("rates", {}), solved, self.config.memory)}

    def figures(self, state: State) -> dict[str, float]:
        """See `Choice`: how many problems were tried, and their mean solve rate."""
        rates = list(state.get("rates", {}).values())
        return {
            "curriculum_tried": float(len(rates)),
            **({"curriculum_rate": sum(rates) / len(rates)} if rates else {}),
            **super().figures(state),
        }


def make_choice(config: Curriculum, problems: Sequence[ProblemRow], seed: int) -> Choice:
    """Return the configured way to choose problems.

    Raises:
        ConfigError: it can choose none, or cannot tell them apart.
    """
    if config.horizon is not None or isinstance(config, SolveRateCurriculum):
        _refuse_same_names(problems)
    if isinstance(config, UniformCurriculum):
        return Uniform(config, problems, seed)
    return (
        Staged(config, problems, seed) if isinstance(config, StagedCurriculum) else BySolveRate(config, problems, seed)
    )


def _refuse_same_names(problems: Sequence[ProblemRow]) -> None:
    twice = [name for name, times in Counter(problem.name for problem in problems).items() if times > 1]
    if twice:
        raise ConfigError(
            f"{len(twice)} names belong to several problems, for example {twice[0]}: solve rates are kept by name.",
            "Rename them, or set curriculum.type to uniform or stages, without curriculum.horizon.",
        )


def solved_by_problem(turns: pa.Table) -> dict[str, list[bool]]:
    """Return whether each trajectory of a table of TURNS solved its problem, by problem; invalid ones are left out."""
    correct = pc.fill_null(turns["verdict"].combine_chunks().field("correct"), False)
    table = pa.table(
        {"problem": turns["problem"], "trajectory": turns["trajectory"], "correct": correct, "valid": turns["valid"]}
    )
    found: dict[str, list[bool]] = defaultdict(list)
    by_trajectory = table.group_by(["problem", "trajectory"], use_threads=False)
    for row in by_trajectory.aggregate([("correct", "max"), ("valid", "min")]).to_pylist():
        if row["valid_min"]:
            found[row["problem"]].append(bool(row["correct_max"]))
    return dict(found)
