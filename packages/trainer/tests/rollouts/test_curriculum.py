"""The curriculum: which problems a step gets, from what was solved so far; the same after a resume."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.trainer.config.curriculum import (
    CurriculumStage,
    HorizonSection,
    SolveRateCurriculum,
    StagedCurriculum,
    UniformCurriculum,
)
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.data.order import taken
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.rollouts.batch_source import BatchSource
from warpsmith.trainer.rollouts.curriculum import Choice, State, make_choice, solved_by_problem
from warpsmith.trainer.weights.checkpoint import Progress

PROBLEMS = [ProblemRow(f"p{number}", "", 1 + number % 3, "test") for number in range(30)]
LEVELS = StagedCurriculum(
    type="stages",
    stages=(CurriculumStage(levels=(1,), turns=1), CurriculumStage(levels=(1, 2)), CurriculumStage(levels=(1, 2, 3))),
    advance_at=0.5,
    fall_back_at=0.1,
    window=2,
)
RATES = SolveRateCurriculum(type="solve_rate", floor=0.05)
HORIZON = HorizonSection(levels={1: 2, 2: 3}, easy_at=0.8, easy_turns=1, hard_at=0.1, hard_turns=5)


def step(choice: Choice, state: State, cursor: int, share: float, count: int = 6) -> State:
    """Return the state after a step in which a share of the trajectories of each problem solved it."""
    picked = choice.pick(state, cursor, 0, count)
    solved = {PROBLEMS[index].name: [place < round(10 * share) for place in range(10)] for index in picked}
    return choice.learn(state, solved, cursor + count)


def test_stages_advance_after_a_whole_window_and_fall_back() -> None:
    choice = make_choice(LEVELS, PROBLEMS, 0)
    state: State = {}
    stages, turns = [], []
    for number, share in enumerate([0.9, 0.9, 0.4, 0.4, 0.8, 0.8, 0.0, 0.0, 0.0, 0.0]):
        stages.append(choice.figures(state)["curriculum_stage"])
        turns.append(choice.turns(state, 0))
        picked = {PROBLEMS[index].level for index in choice.pick(state, 6 * number, 0, 6)}
        assert picked <= set(LEVELS.stages[int(stages[-1]) - 1].levels)
        state = step(choice, state, 6 * number, share)
    assert stages == [1, 1, 2, 2, 2, 3, 3, 3, 2, 2]
    assert turns == [1, 1, *[None] * 8]
    assert choice.figures(state) == {"curriculum_stage": 1.0}


def test_the_last_stage_stays_and_the_first_does_not_fall_back() -> None:
    choice = make_choice(LEVELS, PROBLEMS, 0)
    low: State = {}
    high: State = {"stage": 2, "began": 0, "solved": []}
    for number in range(5):
        low, high = step(choice, low, 6 * number, 0.0), step(choice, high, 6 * number, 1.0)
    assert (choice.figures(low), choice.figures(high)) == ({"curriculum_stage": 1.0}, {"curriculum_stage": 3.0})


def test_a_stage_hands_out_each_of_its_problems_once_an_epoch() -> None:
    choice = make_choice(LEVELS, PROBLEMS, 3)
    state = {"stage": 1, "began": 12, "solved": []}
    picked = [index for cursor in range(12, 32, 5) for index in choice.pick(state, cursor, 0, 5)]
    assert sorted(picked) == [index for index, problem in enumerate(PROBLEMS) if problem.level in {1, 2}]
    assert picked == choice.pick(state, 12, 0, 20) == choice.pick(state, 10, 2, 20)


def test_problems_solved_half_of_the_time_are_chosen_most() -> None:
    choice = make_choice(RATES, PROBLEMS, 0)
    rates = {problem.name: (0.0, 0.5, 1.0)[number % 3] for number, problem in enumerate(PROBLEMS)}
    counts = Counter(
        number % 3 for cursor in range(0, 2000, 5) for number in choice.pick({"rates": rates}, cursor, 0, 5)
    )
    assert counts[1] > 4 * max(counts[0], counts[2])
    assert min(counts[0], counts[2]) > 50, "none is left out for good"
    fresh = Counter(index for cursor in range(0, 3000, 5) for index in choice.pick({}, cursor, 0, 5))
    assert len(fresh) == len(PROBLEMS) and max(fresh.values()) < 2 * min(fresh.values())


def test_later_rounds_of_a_step_draw_other_problems() -> None:
    choice = make_choice(RATES, PROBLEMS, 1)
    rounds = [choice.pick({}, 10, after, 10) for after in (0, 10, 20)]
    assert sorted(index for picked in rounds for index in picked) == list(range(30))
    assert choice.pick({}, 10, 0, 45)[30:] == rounds[0] + rounds[1][:5]


def test_a_solve_rate_remembers_earlier_attempts() -> None:
    choice = make_choice(SolveRateCurriculum(type="solve_rate", memory=0.75), PROBLEMS, 0)
    state = choice.learn({}, {"p0": [True, False], "p1": []}, 2)
    assert state == {"rates": {"p0": 0.5}}
    assert choice.learn(state, {"p0": [True, True]}, 4) == {"rates": {"p0": 0.625}}
    assert choice.figures(state) == {"curriculum_tried": 1.0, "curriculum_rate": 0.5}


def test_turns_follow_the_level_until_the_solve_rate_is_known() -> None:
    choice = make_choice(UniformCurriculum(horizon=HORIZON), PROBLEMS, 0)
    assert [choice.turns({}, index) for index in range(3)] == [2, 3, None]
    solved = {"p0": [True, True], "p1": [False, False], "p2": [True, False]}
    state = choice.learn({}, solved, 3)
    assert [choice.turns(state, index) for index in range(5)] == [1, 5, None, 2, 3]
    assert choice.figures(state) == {"curriculum_easy": 1.0, "curriculum_hard": 1.0}
    # The rate of an easy problem that is missed in its fewer turns falls, so that it gets more again.
    state = choice.learn(state, {"p0": [False, False]}, 6)
    assert choice.turns(state, 0) == 2


def test_a_limit_that_is_not_set_is_that_of_the_level() -> None:
    horizon = HorizonSection(levels={1: 3}, easy_turns=None)
    choice = make_choice(UniformCurriculum(horizon=horizon), PROBLEMS, 0)
    for solved in (True, False):
        assert choice.turns(choice.learn({}, {"p0": [solved]}, 1), 0) == 3


def test_of_stage_and_horizon_the_fewer_turns_count() -> None:
    choice = make_choice(LEVELS.model_copy(update={"horizon": HORIZON}), PROBLEMS, 0)
    assert choice.turns({}, 0) == 1
    second = {"stage": 1, "began": 0, "solved": [], "horizon": {"p1": 0.9}}
    assert [choice.turns(second, index) for index in (0, 1, 4)] == [2, 1, 3]


def test_a_horizon_is_read_from_a_file_and_its_rates_need_names() -> None:
    table = {"type": "uniform", "horizon": {"levels": {"1": 2}, "hard_turns": 4}}
    config = TrainerConfig(run={"dir": Path("unused")}, policy={"path": "unused"}, curriculum=table)
    assert config.curriculum.horizon == HorizonSection(levels={1: 2}, hard_turns=4)
    with pytest.raises(ConfigError, match="solve rates are kept by name"):
        make_choice(config.curriculum, [*PROBLEMS, PROBLEMS[3]], 0)
    with pytest.raises(ValueError, match=r"hard_at \(0\.9\) must be below easy_at \(0\.9\)"):
        HorizonSection(hard_at=0.9)


@pytest.mark.parametrize(
    "config",
    [LEVELS, RATES, *(one.model_copy(update={"horizon": HORIZON}) for one in (UniformCurriculum(), LEVELS, RATES))],
    ids=["stages", "solve_rate", "uniform_horizon", "stages_horizon", "solve_rate_horizon"],
)
@given(shares=st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0]), min_size=1, max_size=12), cut=st.integers(0, 11))
def test_a_resumed_run_chooses_the_same_problems(config: Any, shares: list[float], cut: int) -> None:
    def run(choice: Choice, state: State, first: int) -> tuple[list[list[tuple[int, int | None]]], State]:
        picked = []
        for number in range(first, len(shares)):
            chosen = choice.pick(state, 6 * number, 0, 6)
            picked.append([(index, choice.turns(state, index)) for index in chosen])
            state = step(choice, state, 6 * number, shares[number])
            if number + 1 == cut:
                kept.append(json.dumps(state))
        return picked, state

    kept: list[str] = []
    whole, end = run(make_choice(config, PROBLEMS, 5), {}, 0)
    if kept:
        again, same = run(make_choice(config, PROBLEMS, 5), json.loads(kept[0]), cut)
        assert (again, json.dumps(same)) == (whole[cut:], json.dumps(end))


def test_uniform_is_the_run_s_own_order() -> None:
    config = TrainerConfig(run={"dir": Path("unused")}, policy={"path": "unused"})
    choice = make_choice(config.curriculum, PROBLEMS, 7)
    assert choice.pick({}, 12, 5, 20) == taken(17, 20, 30, 7)
    assert (choice.learn({}, {"p0": [True]}, 1), choice.figures({}), choice.turns({}, 0)) == ({}, {}, None)


def test_a_stage_without_problems_and_names_of_two_are_refused() -> None:
    stages = (CurriculumStage(levels=(1,)), CurriculumStage(levels=(4, 5)))
    with pytest.raises(ConfigError, match=r"Stage 2 .* level of \[4, 5\]; they have the levels \[1, 2, 3\]"):
        make_choice(StagedCurriculum(type="stages", stages=stages), PROBLEMS, 0)
    with pytest.raises(ConfigError, match="1 names belong to several problems, for example p3"):
        make_choice(RATES, [*PROBLEMS, PROBLEMS[3]], 0)
    with pytest.raises(ValueError, match=r"fall_back_at \(0\.7\) must be below advance_at \(0\.6\)"):
        StagedCurriculum(type="stages", stages=stages, fall_back_at=0.7)


def module(*lines: str) -> str:
    """A problem whose forward has these lines."""
    body = "\n".join(f"        {line}" for line in lines)
    head = "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n\n"
    tail = "\n\n\ndef get_inputs():\n    return [torch.randn(4, 4) * 2 + 1]\n"
    return f"{head}    def forward(self, x):\n{body}{tail}"


def test_stages_by_size_begin_with_the_smallest_modules() -> None:
    bodies = (["return torch.relu(x)"], ["y = x * 2 + 1", "return torch.relu(y)"], ["return x"])
    problems = [ProblemRow(f"p{number}", module(*lines), None, "test") for number, lines in enumerate(bodies)]
    assert [problem.operations for problem in problems] == [1, 3, 0]
    stages = (CurriculumStage(operations=1, turns=1), CurriculumStage())
    choice = make_choice(StagedCurriculum(type="stages", stages=stages, window=1), problems, 0)
    assert sorted(choice.pick({}, 0, 0, 2)) == [0, 2]
    assert sorted(choice.pick({"stage": 1}, 0, 0, 3)) == [0, 1, 2]
    small = StagedCurriculum(type="stages", stages=(CurriculumStage(levels=(1,), operations=1),))
    with pytest.raises(ConfigError, match=r"a level of \[1\] and at most 1 operations; they have the levels \["):
        make_choice(small, problems, 0)
    with pytest.raises(ConfigError, match="none has at most 1 operations; they have 3 to 3 operations"):
        make_choice(StagedCurriculum(type="stages", stages=(CurriculumStage(operations=1),)), problems[1:2], 0)


def test_a_problem_that_cannot_be_read_has_no_size() -> None:
    for text in ("class Model(:", "x = 1"):
        with pytest.raises(BadProblemError):
            _ = ProblemRow("bad", text, 1, "test").operations


def test_a_run_that_ends_before_its_last_stage_is_refused(tmp_path: Path) -> None:
    stages = [{"levels": [1]}, {"levels": [2]}, {"levels": [3]}]
    file = {"policy": {"path": "model"}, "curriculum": {"type": "stages", "window": 4, "stages": stages}}
    with pytest.raises(ValueError, match=r"stage 3 can begin after step 8, and run\.steps is 8"):
        TrainerConfig.model_validate({**file, "run": {"dir": str(tmp_path / "run"), "steps": 8}})
    assert TrainerConfig.model_validate({**file, "run": {"dir": str(tmp_path / "run"), "steps": 9}}).run.steps == 9
    assert not list(tmp_path.iterdir())


def test_only_valid_trajectories_count_as_attempts(turns_table: Any) -> None:
    def row(problem: str, sample: int, turn: int, correct: bool, valid: bool = True) -> dict[str, Any]:
        trajectory = f"{problem}/{sample}"
        found = {"group": problem, "trajectory": trajectory, "sample": sample, "problem": problem, "turn": turn}
        reason = None if valid else "evaluator: lost"
        return {**found, "num_turns": 2, "valid": valid, "invalid_reason": reason, "correct": correct}

    rows = [
        *(row("p0", 0, 0, False), row("p0", 0, 1, True), row("p0", 1, 0, False)),
        *(row("p1", 0, 0, True), row("p1", 0, 1, False, valid=False), row("p2", 0, 0, False)),
    ]
    table = turns_table([{name: value for name, value in one.items() if name != "correct"} for one in rows])
    verdicts = [
        {**verdict, "correct": one["correct"]} for verdict, one in zip(table["verdict"].to_pylist(), rows, strict=True)
    ]
    column = table.schema.get_field_index("verdict")
    table = table.set_column(column, table.schema.field(column), pa.array(verdicts, table.schema.field(column).type))
    assert solved_by_problem(table) == {"p0": [True, False], "p2": [False]}


def test_a_batch_learns_and_limits_the_turns_of_its_stage(turns_table: Any) -> None:
    asked: list[tuple[set[int | None], int | None]] = []
    stages: list[int | None] = []

    def collect(
        problems: Any, samples: int, *, label: str, max_turns: list[int | None], stage: int | None, **_: Any
    ) -> Any:
        stages.append(stage)
        asked.append(({problem.level for problem in problems}, max_turns))
        return turns_table(
            [
                {"group": f"{label}/{place}", "trajectory": f"{label}/{place}/{sample}", "sample": sample}
                | {"problem": problem.name, "level": problem.level, "after_step": 0}
                for place, problem in enumerate(problems)
                for sample in range(samples)
            ]
        )

    config = TrainerConfig(
        run={"dir": Path("unused")},
        policy={"path": "unused"},
        algorithm={"prompts_per_step": 3, "samples_per_prompt": 2},
        curriculum=LEVELS.model_dump(),
    )
    source = BatchSource(config, PROBLEMS, collect, recorded=None, say=print)
    progress = Progress()
    for number in range(1, 4):
        sampled = source.collect(number, progress)
        assert sampled.figures["curriculum_stage"] == stages[-1] == progress.curriculum.get("stage", 0) + 1
        progress = Progress(step=number, cursor=progress.cursor + sampled.problems, curriculum=sampled.curriculum)
    assert [levels <= set(LEVELS.stages[0].levels) and turns == [1] * 3 for levels, turns in asked[:2]] == [True, True]
    assert json.loads(json.dumps(progress.curriculum)) == progress.curriculum
