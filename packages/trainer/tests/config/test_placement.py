"""Which GPUs train, sample and judge: what is refused, and what reaches the launcher, Ray and the evaluator."""

import base64
import json
from pathlib import Path

import pytest

from warpsmith.trainer.config import TrainerConfig, load_grpo
from warpsmith.trainer.config.placement import times_beside_sampling
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.launch.launcher import check_visible, launcher_command, ranks_of

CUDA = ('rollout.sampler.device="cuda"', 'evaluator.device="cuda"')


def load(tmp_path: Path, *overrides: str) -> TrainerConfig:
    path = tmp_path / "grpo.toml"
    path.write_text('[run]\ndir = "run"\n[policy]\npath = "model"\n')
    return load_grpo(path, [*CUDA, *overrides])


def test_each_part_has_gpus_of_its_own(tmp_path: Path) -> None:
    config = load(
        tmp_path, "placement.train=[0,1]", "placement.rollout=[2,3]", "rollout.samplers=2", "placement.evaluation=[5]"
    )
    assert config.placement.of_ray(config.rollout) == (2, 3)
    assert config.placement.evaluator(config.evaluator).gpu == 5


def test_evaluators_in_ray_are_among_its_gpus(tmp_path: Path) -> None:
    config = load(
        tmp_path, "placement.rollout=[2]", "placement.evaluation=[5,4]", 'rollout.evaluation.type="ray"',
        "rollout.evaluation.actors=2",
    )  # fmt: skip
    assert config.placement.of_ray(config.rollout) == (2, 4, 5)


def test_nothing_named_changes_nothing(tmp_path: Path) -> None:
    config = load(tmp_path, "evaluator.gpu=3")
    assert config.placement.of_ray(config.rollout) == ()
    assert config.placement.evaluator(config.evaluator).gpu == 3


def test_evaluators_in_ray_have_theirs_where_samplers_have_none(tmp_path: Path) -> None:
    config = load(tmp_path, 'rollout.sampler.device="cpu"', "placement.evaluation=[5]", 'rollout.evaluation.type="ray"')
    assert config.placement.of_ray(config.rollout) == (5,)


def test_a_cluster_knows_its_own_gpus(tmp_path: Path) -> None:
    config = load(tmp_path, 'run.ray_address="auto"', 'rollout.evaluation.type="ray"')
    assert config.placement.of_ray(config.rollout) == ()


IN_RAY = 'rollout.evaluation.type="ray"'
REFUSED = {
    "judges_unnamed": ([IN_RAY, "placement.rollout=[1]"], "give placement.evaluation (1 of evaluators)"),
    "samplers_unnamed": ([IN_RAY, "placement.evaluation=[1]"], "give placement.rollout (1 of samplers)"),
    "both_unnamed": ([IN_RAY, "evaluator.gpu=3"], "(1 of evaluators) and placement.rollout (1 of samplers)"),
    "one_gpu_for_two": (
        [IN_RAY, "placement.rollout=[1]", "placement.evaluation=[1]", "evaluator.timing=false"],
        "Ray gives a GPU to one alone",
    ),
    "twice": (["placement.train=[0,0]"], "name each once"),
    "negative": (["placement.train=[-1]"], "from 0 up"),
    "too_few": (
        ["placement.rollout=[1]", "rollout.sampler.tensor_parallel_size=2"],
        "1 samplers of 2 GPUs each take 2",
    ),
    "cluster": (["placement.rollout=[1]", 'run.ray_address="auto"'], "run.ray_address"),
    "sampler_on_cpu": (["placement.rollout=[1]", 'rollout.sampler.device="cpu"'], 'set it to "cuda"'),
    "judge_on_cpu": (["placement.evaluation=[1]", 'evaluator.device="cpu"'], 'set it to "cuda"'),
    "two_judges": (["placement.evaluation=[1,2]"], "evaluators take 1"),
    "said_twice": (["placement.evaluation=[1]", "evaluator.gpu=1"], "remove evaluator.gpu"),
    "timed_while_training": (
        ["placement.train=[0,1]", "placement.evaluation=[1]", "algorithm.max_staleness=1"],
        "it trains meanwhile",
    ),
    "timed_while_training_by_gpu": (
        ["placement.train=[0,1]", "evaluator.gpu=1", "algorithm.max_staleness=1"],
        "it trains meanwhile",
    ),
    "timed_in_ray_where_it_trains": (
        [IN_RAY, "placement.train=[0,1]", "placement.rollout=[0]", "placement.evaluation=[1]"],
        "would be in the times",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(name: str, tmp_path: Path) -> None:
    overrides, said = REFUSED[name]
    with pytest.raises(ConfigError, match="placement") as error:
        load(tmp_path, *overrides)
    assert said in error.value.message


def test_correctness_alone_may_share_a_gpu(tmp_path: Path) -> None:
    one = [f"placement.{part}=[0]" for part in ("train", "rollout", "evaluation")]
    assert load(tmp_path, *one, "evaluator.timing=false").placement.train == (0,)


def in_turns(config: TrainerConfig) -> bool:
    return times_beside_sampling(config.placement, config.rollout, config.evaluator)


def test_one_gpu_may_sample_time_and_train_in_turns(tmp_path: Path) -> None:
    one = [f"placement.{part}=[0]" for part in ("train", "rollout", "evaluation")]
    assert in_turns(load(tmp_path, *one))
    assert not in_turns(load(tmp_path, *one, "evaluator.timing=false"))
    # Where no GPU is named they may be the same.
    assert in_turns(load(tmp_path))


def test_sampling_is_not_paused_for_another_gpu(tmp_path: Path) -> None:
    shared = ("placement.train=[0,1]", "placement.rollout=[0]", "placement.evaluation=[1]")
    assert not in_turns(load(tmp_path, *shared))
    assert not in_turns(load(tmp_path, "placement.train=[0]", "evaluator.gpu=1"))
    assert not in_turns(load(tmp_path, 'rollout.sampler.device="cpu"'))


def test_ranks_stand_on_the_gpus_that_train() -> None:
    world = launcher_command(["grpo"], [2, 3], 1234)[4].partition("=")[2]
    assert json.loads(base64.urlsafe_b64decode(world)) == {"localhost": [2, 3]}


def test_as_many_ranks_as_gpus() -> None:
    assert ranks_of([4, 6], None) == ranks_of([4, 6], 2) == 2
    assert ranks_of((), 3) == 3
    with pytest.raises(ConfigError, match="names 2 GPUs, one rank each, but --num-processes is 3"):
        ranks_of([4, 6], 3)


def test_another_launchers_gpus_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    check_visible([0, 1])
    check_visible([])
    with pytest.raises(ConfigError, match=r"placement\.train names 2,3") as error:
        check_visible([2, 3])
    assert "--include localhost:2,3" in error.value.remedy
