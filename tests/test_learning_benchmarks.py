"""The parts of `benchmarks/curriculum.py` and `benchmarks/two_agents.py` that need no run."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from warpsmith.records import RunWriter
from warpsmith.records.schema import turns_batch
from warpsmith.rollout.datasets import kernelbench_jsonl
from warpsmith.trainer.config import load_grpo, load_sft
from warpsmith.trainer.config.curriculum import SolveRateCurriculum, StagedCurriculum, UniformCurriculum
from warpsmith.trainer.errors import ConfigError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    for name in ("curriculum", "two_agents"):
        sys.modules.pop(name, None)


def turn(agent, correct, reward=0.0, problem="p", trajectory="t", number=0):
    return {
        "agent": agent, "verdict": {"correct": correct}, "reward": reward, "valid": True, "problem": problem,
        "trajectory": trajectory, "turn": number,
    }  # fmt: skip


def test_arms_differ_in_the_curriculum_alone():
    import curriculum

    found = {arm: load_grpo(curriculum.GRPO, changes) for arm, changes in curriculum.ARMS.items()}
    types = {arm: type(config.curriculum) for arm, config in found.items()}
    assert types == {"uniform": UniformCurriculum, "solve_rate": SolveRateCurriculum, "stages": StagedCurriculum}
    assert len({config.model_dump_json(exclude={"curriculum"}) for config in found.values()}) == 1


def test_files_are_read_before_the_first_run(tmp_path):
    import curriculum

    curriculum.check(tmp_path, ["uniform", "stages"], [0], ["rollout.sampler.max_sequences=7"])
    with pytest.raises(ConfigError, match="max_sequence"):
        curriculum.check(tmp_path, ["uniform"], [0], ["rollout.sampler.max_sequence=7"])
    assert not list(tmp_path.iterdir())


def test_a_problem_that_one_seed_lost_is_left_out():
    import curriculum

    assert curriculum.over_seeds([{"a": 0.0, "b": 1.0}, {"a": 0.5}]) == {"a": 0.25}


def test_a_group_differs_where_several_trajectories_took_a_turn():
    import curriculum

    assert curriculum._differs({"0": [False, True], "1": [False, False]})
    assert not curriculum._differs({"0": [False, True], "1": [False]})
    assert not curriculum._differs({"0": [True], "1": [True]})


def test_a_start_that_nothing_beats_gains_nothing():
    import two_agents

    lost = [turn("generator", True, 1.3), turn("optimizer", False, -1.0, number=1)]
    won = [*lost, turn("optimizer", True, 0.7, number=2)]
    alone = [turn("generator", False)]
    assert [two_agents.best_gain(turns) for turns in (lost, won, alone)] == [0.0, 0.7, None]
    assert [two_agents.improved(turns) for turns in (lost, won, alone)] == [0.0, 1.0, None]
    assert [two_agents.first_right(turns) for turns in (lost, won, alone)] == [0.0, 0.0, None]
    assert [two_agents.solved(turns) for turns in (lost, won, alone)] == [1.0, 1.0, 0.0]


def test_only_trajectories_with_the_figure_count():
    import two_agents

    rows = [
        turn("generator", True, trajectory="a"),
        turn("optimizer", True, 1.0, trajectory="a", number=1),
        turn("generator", False, trajectory="b"),
        turn("generator", False, problem="q", trajectory="c"),
    ]
    assert two_agents.by_problem(rows, two_agents.best_gain) == {"p": 1.0}
    assert two_agents.by_problem(rows, two_agents.solved) == {"p": 0.5, "q": 0.0}


def recorded(folder, seed, first, later):
    """A finished run: whether the generator solved each trajectory of `p` before and after."""
    rows = [
        {
            "run": "r", "task": "t", "role": "held_out", "agent": "generator", "problem": "p", "source": "s",
            "level": 1, "group": f"held-out/{when}/p", "trajectory": f"{when}/{number}", "sample": number,
            "turn": 0, "num_turns": 1, "messages": [{"role": "user", "content": "q"}], "completion": "a",
            "kernel": None, "prompt_ids": [1], "completion_ids": [2], "logprobs": [-0.5], "weight_versions": [0],
            "finish_reason": "stop", "sampling": {"temperature": 1.0, "max_tokens": 8},
            "verdict": {"status": "correct" if right else "incorrect", "compiled": True, "correct": right},
            "reward": float(right), "return": float(right), "valid": True, "invalid_reason": None,
            "started_at": datetime.now(UTC),
        }
        for when, outcomes in (("before", first), ("after", later))
        for number, right in enumerate(outcomes)
    ]  # fmt: skip
    with RunWriter(folder / "grpo") as writer:
        writer.append("turns", turns_batch(rows))
    (folder / "grpo/config.json").write_text(json.dumps({"run": {"seed": seed}}))
    return folder


def test_seeds_are_compared_together_and_each_alone(tmp_path):
    import two_agents

    first = recorded(tmp_path / "a", 3, [False, False], [True, True])
    second = recorded(tmp_path / "b", 1, [True, False], [True, False])
    found = two_agents.combined([first, second])
    shares = {seed: one["generator"]["solved"]["difference"] for seed, one in found["seeds"].items()}
    assert shares == {1: 0.0, 3: 1.0}
    both = found["over_seeds"]["generator"]["solved"]
    assert (both["first"], both["second"], both["trajectories"]) == (0.25, 0.75, {"before": 4, "after": 4})
    third = recorded(tmp_path / "c", 2, [], [True, False])
    without = two_agents.combined([first, third])["seeds"][2]["generator"]["solved"]
    assert (without["first"], without["second"]) == (0.0, 0.5)
    with pytest.raises(SystemExit, match="2 runs have 1 seeds"):
        two_agents.combined([first, first])


def test_starts_have_a_kernel_more_than_the_answers(tmp_path, monkeypatch):
    import two_agents

    monkeypatch.setattr(two_agents, "DRAWN", {"train": 40, "held_out": 20})
    two_agents.write_data(tmp_path, seed=3)
    problems = {split: kernelbench_jsonl(tmp_path / f"{split}.jsonl") for split in ("train", "held_out")}
    for rows in problems.values():
        assert rows
        assert all(row.start.count("@triton.jit") == 2 for row in rows)
    assert not {row.text for row in problems["train"]} & {row.text for row in problems["held_out"]}
    chats = [json.loads(line)["messages"] for line in (tmp_path / "optimizer.jsonl").read_text().splitlines()]
    assert len(chats) == len(problems["train"])
    assert all("# make faster" in chat[0]["content"] and "KiB" in chat[0]["content"] for chat in chats)
    # No repairs: of the agents' single turns nothing else is asked.
    assert all([message["role"] for message in chat] == ["user", "assistant"] for chat in chats)
    assert all(chat[-1]["content"].count("@triton.jit") == 1 for chat in chats)
    sources = load_sft(two_agents.SFT).data.parts
    assert [Path(source.path[0]).name for source in sources] == ["generator.jsonl", "optimizer.jsonl"]


def test_problems_whose_kernels_are_timed_exceed_a_gpus_cache(tmp_path, monkeypatch):
    import two_agents

    monkeypatch.setattr(two_agents, "DRAWN", {"train": 20, "held_out": 10})
    two_agents.write_data(tmp_path, seed=3, timed=True)
    assert all(
        two_agents.TIMED_TOUCHED.least <= touched(row.text) for row in kernelbench_jsonl(tmp_path / "train.jsonl")
    )
    chats = [json.loads(line)["messages"] for line in (tmp_path / "optimizer.jsonl").read_text().splitlines()]
    assert chats
    assert not any("KiB" in chat[0]["content"] for chat in chats)


def touched(problem):
    """Bytes of the inputs and of the output, which has the shape of each."""
    made: dict = {}
    exec(problem, made)
    with FakeTensorMode():
        inputs = made["get_inputs"]()
    return 4 * (len(inputs) + 1) * inputs[0].numel()


def test_the_timed_run_has_one_gpu_for_all_and_an_evaluation_halfway(tmp_path):
    import two_agents

    changes = [*two_agents.grpo_changes(tmp_path, tmp_path, 3), *two_agents.timed_changes(2)]
    config = load_grpo(two_agents.GRPO, changes)
    assert config.placement.train == config.placement.rollout == config.placement.evaluation == (2,)
    assert config.evaluator.device == "cuda"
    assert config.held_out is not None
    assert config.held_out.every < config.run.steps
