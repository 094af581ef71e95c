"""Every file in configs/ loads, fits the machine that it names, and says how it is started."""

import re
import tomllib
from pathlib import Path

import pytest

from warpsmith.trainer.config import SftConfig, TrainerConfig, load_any
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import plan
from warpsmith.trainer.planning.command import suggested
from warpsmith.trainer.planning.shapes import shape_of

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.toml"))


def head(path: Path) -> str:
    return path.read_text().partition("\n[")[0]


def test_there_are_recipes() -> None:
    assert len(CONFIGS) >= 9


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_fits_the_machine_that_it_names(path: Path) -> None:
    config = load_any(path)
    named = re.search(r"Planned for the machine: (\S+)", head(path))
    assert named is not None
    # The demo has two ranks where there are cores alone.
    processes = 2 if path.stem.startswith("demo") else None
    found = plan(config, shape_of(config.policy.path), machines.named(named[1]), processes)
    assert found.fits, found.misfits


def with_fewer_gpus() -> list[tuple[Path, int]]:
    placed = [(path, tomllib.loads(path.read_text()).get("placement", {})) for path in CONFIGS]
    named = [(path, {gpu for gpus in placement.values() for gpu in gpus}) for path, placement in placed]
    return [(path, gpus) for path, numbers in named for gpus in range(1, len(numbers))]


@pytest.mark.parametrize(("path", "gpus"), with_fewer_gpus(), ids=lambda value: getattr(value, "stem", str(value)))
def test_a_recipe_can_be_changed_to_fewer_gpus(path: Path, gpus: int) -> None:
    config, machine = load_any(path), machines.named(f"{gpus}xh200")
    found = plan(config, shape_of(config.policy.path), machine)
    assert not found.fits
    change = suggested(path, [], config, found, None)
    assert change is not None
    assert plan(load_any(path, change), found.shape, machine).fits
    # One GPU can do everything in turns; for a large model it is too small to train the same.
    assert "evaluator.timing = false" not in change, change
    whole = config.policy.lora is None and found.shape.parameters > 1e9
    assert ("policy.lora.rank = 16" in change) == (gpus == 1 and whole), change


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_says_how_it_is_started_and_whether_it_was(path: Path) -> None:
    text, values = head(path), tomllib.loads(path.read_text())
    kind = "sft" if "data" in values else "grpo"
    assert f"warpsmith-trainer {kind} configs/{path.name}" in text
    assert re.search(r"\b(runs?|ran)\b", text, re.IGNORECASE)
    assert values["run"]["dir"].startswith(("runs/demo/", f"runs/{path.stem.removesuffix('-sft')}"))
    for gpus in re.findall(r"--include localhost:(\S+)", text):
        assert [int(gpu) for gpu in gpus.split(",")] == values["placement"]["train"]


def test_the_published_hyper_parameters() -> None:
    for path in CONFIGS:
        if not path.stem.startswith(("qwen3-8b", "kernelllm")):
            continue
        config = load_any(path)
        assert isinstance(config, TrainerConfig)
        algorithm = config.algorithm
        assert (config.optimizer.lr, algorithm.entropy_coefficient) == (1e-6, 0.001)
        assert algorithm.kl is not None and (algorithm.kl.type, algorithm.kl.coefficient) == ("k3", 0.01)
        small = "debug" in path.stem
        assert (algorithm.prompts_per_step, algorithm.samples_per_prompt) == ((2, 4) if small else (4, 4))
        # One update of the whole batch: 16 trajectories, 8 in the small form, which says so.
        assert (algorithm.updates_per_step, algorithm.epochs_per_step) == (1, 1)
        assert config.run.steps == (500 if small else 1000)
        if "singleturn" not in path.stem:
            assert config.rollout.environment.settings["max_turns"] == 3
            assert config.rollout.gamma == 0.4
            assert config.rollout.environment.type == "kernelbench_multiturn"
        else:
            assert config.rollout.environment.type == "kernelbench"
        assert config.zero.micro_batch_tokens >= config.rollout.sampler.max_model_len
        assert config.checkpoint.every == 50


@pytest.mark.parametrize(
    ("recipe", "chosen", "unread"),
    [
        ("qwen3-8b", "algorithm.correction=none", "algorithm.correction.high=3"),
        ("qwen3-8b", "algorithm.correction=unset", "algorithm.correction.high=3"),
        ("qwen3-8b", "algorithm.kl=unset", "algorithm.kl.type=k1"),
        ("demo-sft", "optimizer.schedule=constant", "optimizer.schedule.min_lr_ratio=0.2"),
        ("demo", "algorithm.aggregation=token_mean", "algorithm.aggregation.length=7"),
        ("demo", "problems={type = 'files', path = 'data/x.jsonl'}", "problems.count=7"),
        ("demo", "held_out=unset", "held_out.samples=7"),
    ],
)
def test_set_replaces_a_whole_table_of_a_recipe(recipe: str, chosen: str, unread: str) -> None:
    path = next(path for path in CONFIGS if path.stem == recipe)
    load_any(path, [chosen])
    with pytest.raises(ConfigError, match=r"unknown key|is missing in|is a value, not a table"):
        load_any(path, [chosen, unread])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_dump_of_a_recipe_loads_again(path: Path) -> None:
    config = load_any(path)
    given = type(config).model_validate(config.model_dump(mode="json", exclude_unset=True))
    assert given == config
    if isinstance(config, SftConfig) or not config.placement.evaluation:
        # As `placement.evaluation` refuses an evaluator.gpu beside it.
        assert type(config).model_validate(config.model_dump(mode="json")) == config
