"""Keys that nothing reads under the other choices: refused where they were given, and nowhere else."""

from pathlib import Path
from typing import Any

import pytest

from warpsmith.trainer.algorithms import PRESETS
from warpsmith.trainer.config import AlgorithmSection, TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.config.unread import READ
from warpsmith.trainer.errors import ConfigError

CORRECTED = "algorithm.old_logprobs=recompute algorithm.correction="
TO_CORRECT = 'set correction = "truncated" or "masked"'
SERVER = "rollout.evaluation.where=server rollout.evaluation.servers=http://10.0.0.7:18188"

# A key with a value, what keeps it from being read, the mend, and choices that read it.
CASES = [
    ("algorithm.clip_low=0.1", "algorithm.clip=none", 'set clip = "ppo" or "cispo"', ["algorithm.clip=cispo"]),
    ("algorithm.clip_high=0.2", "algorithm.preset=rloo", 'set clip = "ppo" or "cispo"', ["algorithm.preset=dapo"]),
    ("algorithm.clip_dual=3.0", "algorithm.clip=none", 'set clip = "ppo"', ["algorithm.clip=ppo"]),
    ("algorithm.clip_dual=3.0", "algorithm.preset=cispo", 'set clip = "ppo"', ["algorithm.preset=grpo"]),
    ("algorithm.kl=k3", "", "set kl_coefficient above 0", ["algorithm.kl_coefficient=0.1"]),
    ("algorithm.kl_in=reward", "", "set kl_coefficient above 0", ["algorithm.kl_coefficient=0.1"]),
    ("algorithm.reference=models/x", "", "set kl_coefficient above 0", ["algorithm.kl_coefficient=0.1"]),
    ("algorithm.correction_level=token", "", TO_CORRECT, [CORRECTED + "truncated", CORRECTED + "masked"]),
    ("algorithm.correction_high=2.0", "", TO_CORRECT, [CORRECTED + "truncated", CORRECTED + "masked"]),
    ("algorithm.correction_veto=0.1", "", TO_CORRECT, [CORRECTED + "truncated", CORRECTED + "masked"]),
    ("algorithm.correction_low=0.5", "", 'set correction = "masked"', [CORRECTED + "masked"]),
    ("algorithm.correction_low=0.5", CORRECTED + "truncated", 'set correction = "masked"', [CORRECTED + "masked"]),
    ("algorithm.gae_lambda=0.95", "", 'set estimator = "gae"', ["algorithm.preset=ppo", "algorithm.estimator=gae"]),
    ("algorithm.value_coefficient=0.1", "", 'set estimator = "gae"', ["algorithm.preset=ppo"]),
    ("algorithm.value_clip=0.2", "algorithm.estimator=final", 'set estimator = "gae"', ["algorithm.preset=ppo"]),
    ("algorithm.value_lr=1e-3", "algorithm.preset=dapo", 'set estimator = "gae"', ["algorithm.preset=ppo"]),
    ("algorithm.value_trains=head", "", 'set estimator = "gae"', ["algorithm.preset=ppo"]),
    (
        "algorithm.deviation=sample", "algorithm.preset=dr_grpo", 'set scale = "group" or "batch"',
        ["algorithm.preset=grpo", "algorithm.preset=ppo"],
    ),
    ("algorithm.constant_length=512", "", 'set aggregation = "constant"', ["algorithm.preset=dr_grpo"]),
    ("algorithm.refill_rounds=4", "", "set dynamic_sampling = true", ["algorithm.preset=dapo"]),
    ("algorithm.overlong_penalty=1.0", "", "set overlong_share above 0", ["algorithm.preset=dapo"]),
    ("problems.count=8", "problems.source=data/x.jsonl", 'set problems.source = "generated"', [""]),
    ("problems.seed=0", "problems.source=data/x.jsonl", 'set problems.source = "generated"', [""]),
    *(
        (key, "rollout.task_type=kernelbench", 'set rollout.task_type = "kernelbench_multiturn"', [""])
        for key in (
            "rollout.max_turns=3", "rollout.gamma=0.4", "rollout.success_score=1.3",
            "rollout.max_consecutive_failures=2",
        )
    ),
    *(
        (f"rollout.evaluation.{key}", "", 'set rollout.evaluation.where = "ray"', ["rollout.evaluation.where=ray"])
        for key in ("actors=1", "cores=2", "max_restarts=3", "start_timeout_s=9", "wait_s=9")
    ),
    ("rollout.evaluation.token_env=T", "", 'set rollout.evaluation.where = "server"', [SERVER]),
    ("rollout.evaluation.deadline_s=9", "", '= "ray" or "server"', ["rollout.evaluation.where=ray", SERVER]),
    ("rollout.evaluation.retries=1", "", '= "ray" or "server"', ["rollout.evaluation.where=ray", SERVER]),
    *(
        (f"held_out.{key}", "", "set held_out.problems above 0", ["held_out.problems=4"])
        for key in ("samples=1", "seed=20000", "before=true", "after=true")
    ),
    (
        "optimizer.min_lr_ratio=0.1", "optimizer.schedule=constant", 'set optimizer.schedule = "cosine"',
        ["optimizer.schedule=cosine", "optimizer.schedule=linear", "optimizer.schedule=wsd"],
    ),
    ("optimizer.decay_ratio=0.1", "optimizer.schedule=linear", '= "wsd"', ["optimizer.schedule=wsd"]),
    ("optimizer.decay_ratio=0.1", "optimizer.schedule=cosine", '= "wsd"', ["optimizer.schedule=wsd"]),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text('[run]\ndir = "runs/x"\n[policy]\npath = "models/x"\n')
    return path


@pytest.mark.parametrize(("given", "under", "mend", "read"), CASES)
def test_a_key_that_nothing_reads_is_refused_and_taken_where_it_is_read(
    file: Path, given: str, under: str, mend: str, read: list[str]
) -> None:
    table, _, key = given.partition("=")[0].rpartition(".")
    named = key if table == "algorithm" else f"{table}.{key}"
    with pytest.raises(ConfigError, match=rf"(`algorithm`: |: ){named} is not read with .*: remove it, or ") as caught:
        load_grpo(file, [*under.split(), given])
    assert mend in caught.value.message
    for choices in read:
        load_grpo(file, [*choices.split(), given])


def test_every_key_of_the_table_has_a_case() -> None:
    listed = {f"{table}.{key}" for table, readings in READ.items() for reading in readings for key in reading.keys}
    assert listed == {given.partition("=")[0] for given, *_ in CASES}


def test_one_error_names_all_keys_and_where_a_choice_comes_from(file: Path) -> None:
    given = ["algorithm.preset=rloo", "algorithm.clip_low=0.1", "algorithm.clip_high=0.1", "algorithm.kl=k1"]
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, given)
    assert (
        'clip_low and clip_high are not read with clip = "none" (of preset = "rloo"): remove them, or set clip = "ppo" '
        'or "cispo"; kl is not read with kl_coefficient = 0.0: remove it, or set kl_coefficient above 0'
    ) in caught.value.message


@pytest.mark.parametrize("values", [{"clip": "none", "clip_low": 0.1}, {"preset": "cispo", "clip_dual": 2.0}])
def test_a_table_that_is_made_in_python_is_looked_at_too(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not read with clip"):
        AlgorithmSection(**values)
    with pytest.raises(ValueError, match="not read with clip"):
        TrainerConfig(run={"dir": "r"}, policy={"path": "p"}, algorithm=values)


def test_sft_files_are_looked_at_too(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.decay_ratio is not read with optimizer\.schedule = \"cosine\""):
        load_sft(file, ["optimizer.decay_ratio=0.2"])
    assert load_sft(file, ["optimizer.min_lr_ratio=0.1"]).optimizer.min_lr_ratio == 0.1


@pytest.mark.parametrize(
    "off",
    [
        "algorithm.correction_veto=0.0", "algorithm.value_coefficient=0.0", "algorithm.refill_rounds=0",
        "algorithm.overlong_penalty=0.0", "rollout.evaluation.max_restarts=0", "rollout.evaluation.retries=0",
        "held_out.before=false", "held_out.after=false",
        # Switches, which are read wherever they stand.
        "algorithm.kl_coefficient=0.0", "algorithm.overlong_share=0", "algorithm.dynamic_sampling=false",
        "algorithm.correction=none",
    ],
)  # fmt: skip
def test_what_switches_its_own_part_off_is_taken(file: Path, off: str) -> None:
    load_grpo(file, [off])


def test_0_is_not_off_where_it_is_a_value_as_any_other(file: Path) -> None:
    for given in ("algorithm.gae_lambda=0.0", "algorithm.correction_low=0.0", "held_out.seed=0"):
        with pytest.raises(ConfigError, match="not read with"):
            load_grpo(file, [given])


@pytest.mark.parametrize("turned", ["algorithm.preset=rloo", "algorithm.clip=none"])
def test_what_a_preset_of_set_turns_over_may_stand_too(file: Path, turned: str) -> None:
    file.write_text(file.read_text() + "[algorithm]\nclip_low = 0.1\nkl = 'k1'\n")
    with pytest.raises(ConfigError, match="kl is not read with") as caught:
        load_grpo(file, [turned])
    assert "clip_low" not in caught.value.message, "a mistake of the file stays one, and no other is made of it"
    file.write_text(file.read_text().replace("kl = 'k1'", ""))
    load_grpo(file, [turned])
    # What the file itself chooses is no turn of `--set`, whatever else that sets.
    file.write_text(file.read_text() + "clip = 'none'\n")
    with pytest.raises(ConfigError, match="clip_low is not read with"):
        load_grpo(file, ["algorithm.preset=rloo", "run.steps=2"])
    with pytest.raises(ConfigError, match="clip_low is not read with"):
        load_grpo(file, ['algorithm={preset = "rloo", clip_low = 0.1}'])


def test_a_clip_without_room_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="clip_low and clip_high of 0") as caught:
        load_grpo(file, ["algorithm.preset=rloo", "algorithm.clip=ppo"])
    assert "give both" in caught.value.message
    load_grpo(file, ["algorithm.preset=rloo", "algorithm.clip=ppo", "algorithm.clip_high=0.2"])


def test_the_keys_of_a_task_that_is_not_known_here_are_its_own(file: Path) -> None:
    assert load_grpo(file, ["rollout.task_type=another", "rollout.gamma=0.4"]).rollout.gamma == 0.4


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_what_a_preset_brings_along_is_never_refused(file: Path, name: str) -> None:
    algorithm = load_grpo(file, [f"algorithm.preset={name}"]).algorithm
    assert algorithm.model_fields_set == {"preset"}
    assert algorithm.clip_low == PRESETS[name].clip_low


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_dump_has_every_key_and_loads_again(file: Path, name: str) -> None:
    config = load_grpo(file, [f"algorithm.preset={name}"])
    assert TrainerConfig.model_validate(config.model_dump()) == config
    assert TrainerConfig.model_validate(config.model_dump(mode="json")) == config
    assert TrainerConfig.model_validate_json(config.model_dump_json()) == config
    assert TrainerConfig.model_validate(config.model_dump(exclude_unset=True)) == config
    assert AlgorithmSection.model_validate(config.algorithm.model_dump()) == config.algorithm


def test_a_file_that_names_every_table_is_no_dump() -> None:
    tables = {name: {} for name in TrainerConfig.model_fields} | {"run": {"dir": "r"}, "policy": {"path": "p"}}
    assert TrainerConfig.model_validate(tables).optimizer.decay_ratio == 0.1
    with pytest.raises(ValueError, match=r"optimizer\.decay_ratio is not read"):
        TrainerConfig.model_validate(tables | {"optimizer": {"decay_ratio": 0.1}})


def test_a_preset_that_is_no_name_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.preset"):
        load_grpo(file, ["algorithm.preset=['grpo']"])
