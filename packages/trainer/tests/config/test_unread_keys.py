"""Keys that nothing would read under the file's other choices: each is refused, and taken where it is read."""

from pathlib import Path
from typing import Any

import pytest

from warpsmith.trainer.config import AlgorithmSection, SftConfig, TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.rollouts.session import load_held_out, load_problems

RECOMPUTE = "algorithm.old_logprobs=recompute algorithm.correction.type="
SERVER = "rollout.evaluation.type=server rollout.evaluation.servers=http://10.0.0.7:18188"
FILES = "problems.type=files problems.path=data/x.jsonl"

# A key with a value, choices under which nothing reads it, what the error says, and choices that read it.
CASES = [
    ("algorithm.clip.low=0.1", "algorithm.clip.type=none", 'type = "cispo" or "ppo"', ["algorithm.clip.type=cispo"]),
    ("algorithm.clip.high=0.2", "algorithm.type=rloo", 'type = "cispo" or "ppo"', ["algorithm.type=dapo"]),
    ("algorithm.clip.dual=3.0", "algorithm.clip.type=none", 'type = "ppo"', ["algorithm.clip.type=ppo"]),
    ("algorithm.clip.dual=3.0", "algorithm.type=cispo", 'type = "ppo"', ["algorithm.type=grpo"]),
    ("algorithm.kl.type=k3", "", "key `coefficient` is missing", ["algorithm.kl.coefficient=0.1"]),
    ("algorithm.kl.add_to=reward", "", "key `coefficient` is missing", ["algorithm.kl.coefficient=0.1"]),
    ("algorithm.kl.reference=models/x", "", "key `coefficient` is missing", ["algorithm.kl.coefficient=0.1"]),
    *(
        (f"algorithm.correction.{key}", "", 'type = "truncated" or "masked"',
         [RECOMPUTE + "truncated", RECOMPUTE + "masked"])
        for key in ("level=token", "high=2.0", "veto=0.1")
    ),
    ("algorithm.correction.low=0.5", "", 'type = "masked"', [RECOMPUTE + "masked"]),
    ("algorithm.correction.low=0.5", RECOMPUTE + "truncated", 'type = "masked"', [RECOMPUTE + "masked"]),
    *(
        (f"algorithm.estimator.{key}", under, 'type = "gae"', ["algorithm.type=ppo", "algorithm.estimator.type=gae"])
        for key, under in (
            ("lam=0.95", ""), ("value_coefficient=0.1", ""), ("value_clip=0.2", "algorithm.estimator.type=final"),
            ("value_lr=1e-3", "algorithm.type=gspo"), ("value_trains=head", ""),
        )
    ),
    (
        "algorithm.scale.deviation=sample", "algorithm.type=dr_grpo", 'type = "group" or "batch"',
        ["algorithm.type=grpo", "algorithm.type=ppo"],
    ),
    ("algorithm.aggregation.length=512", "", 'type = "constant"', ["algorithm.type=dr_grpo"]),
    ("problems.count=8", FILES, 'type = "generated"', [""]),
    ("problems.seed=0", FILES, 'type = "generated"', [""]),
    ("problems.path=x", "", 'type = "files"', ["problems.type=files"]),
    *(
        (f"held_out.{key}", "", "key `problems` is missing", ["held_out.problems=4"])
        for key in ("samples=1", "seed=20000", "before=true", "after=true")
    ),
    (
        "optimizer.schedule.min_lr_ratio=0.1", "", 'type = "cosine" or "linear" or "wsd"',
        ["optimizer.schedule.type=cosine", "optimizer.schedule.type=linear", "optimizer.schedule.type=wsd"],
    ),
    *(
        (f"rollout.evaluation.{key}", "", 'type = "ray"', ["rollout.evaluation.type=ray"])
        for key in ("actors=1", "cores=2", "max_restarts=3", "start_timeout_s=9")
    ),
    ("rollout.evaluation.token_env=T", "", 'type = "server"', [SERVER]),
    ("rollout.evaluation.deadline_s=9", "", 'type = "server"', [SERVER]),
    ("rollout.evaluation.retries=1", "", 'type = "ray" or "server"', ["rollout.evaluation.type=ray", SERVER]),
    *(
        (f"rollout.environment.{key}", "rollout.environment.type=kernelbench", 'type = "kernelbench_multiturn"', [""])
        for key in ("max_turns=3", "success_score=1.3", "max_consecutive_failures=2")
    ),
    ("optimizer.schedule.decay_ratio=0.1", "", 'type = "wsd"', ["optimizer.schedule.type=wsd"]),
    (
        "optimizer.schedule.decay_ratio=0.1", "optimizer.schedule.type=cosine", 'type = "wsd"',
        ["optimizer.schedule.type=wsd"],
    ),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text('[run]\ndir = "runs/x"\n[policy]\npath = "models/x"\n')
    return path


@pytest.mark.parametrize(("given", "under", "says", "read"), CASES)
def test_a_key_that_nothing_reads_is_refused_and_taken_where_it_is_read(
    file: Path, given: str, under: str, says: str, read: list[str]
) -> None:
    table, _, key = given.partition("=")[0].rpartition(".")
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, [*under.split(), given])
    assert says in caught.value.message
    if "missing" not in says:
        assert f"unknown key `{key}` in [{table}]; it is a key of type = " in caught.value.message
    for choices in read:
        load_grpo(file, [*choices.split(), given])


def test_a_discount_of_one_turn_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.gamma has no effect on the one turn"):
        load_grpo(file, ["rollout.environment=kernelbench", "rollout.gamma=0.4"])
    assert load_grpo(file, ["rollout.gamma=0.3"]).rollout.gamma == 0.3


def test_trials_and_time_limits_stand_in_the_evaluators_table_alone(file: Path) -> None:
    evaluator = load_grpo(file, ["evaluator.trials=7", "evaluator.timeout_s=9"]).evaluator
    assert (evaluator.trials, evaluator.timeout_s) == (7, 9)
    for key in ("trials", "timeout_s"):
        with pytest.raises(ConfigError, match=rf"unknown key `{key}` in \[rollout\]; did you mean `evaluator.{key}`\?"):
            load_grpo(file, [f"rollout.{key}=2"])


def test_servers_are_asked_for_trials_and_time_limits_and_for_nothing_else(file: Path) -> None:
    asked = ["evaluator.trials=7", "evaluator.timeout_s=9", "evaluator.minimum_isolation=namespaces"]
    assert load_grpo(file, [*SERVER.split(), *asked]).evaluator.trials == 7
    with pytest.raises(
        ConfigError, match=r"evaluator\.slots: .* only language, minimum_isolation, timeout_s, trials count"
    ):
        load_grpo(file, [*SERVER.split(), *asked, "evaluator.slots=3"])


def test_one_error_names_all_keys(file: Path) -> None:
    given = ["algorithm.type=rloo", "algorithm.clip.low=0.1", "algorithm.clip.high=0.1", "algorithm.kl.type=k1"]
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, given)
    for part in ("`low` in [algorithm.clip]", "`high` in [algorithm.clip]", "`coefficient` is missing"):
        assert part in caught.value.message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("algorithm.clip_low=0.1", "`algorithm.clip.low`"),
        ("algorithm.kl_coefficient=0.1", "`algorithm.kl.coefficient`"),
        ("algorithm.refill_rounds=2", "`algorithm.dynamic_sampling.refill_rounds`"),
        ("algorithm.refil_rounds=2", "`algorithm.dynamic_sampling.refill_rounds`"),
        ("optimizer.decay_ratio=0.1", "`optimizer.schedule.decay_ratio`"),
        ("rollout.temperature=1.0", "`rollout.sampling.temperature`"),
        ("run.gamma=0.4", "`rollout.gamma`"),
        ("gamma=0.4", "`rollout.gamma`"),
        ("algorithm.lr=1e-5", "`optimizer.lr`"),
        ("algorithm.warmup_step=3", "`optimizer.warmup_steps`"),
        ("algorithm.clip.hihg=0.4", "`high`"),
        ("zero.stag=2", "`stage`"),
    ],
)
def test_an_unknown_key_is_answered_with_the_one_that_was_meant(file: Path, given: str, meant: str) -> None:
    table = given.partition("=")[0].rpartition(".")[0]
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, [given])
    assert caught.value.message.endswith(f"did you mean {meant}?"), caught.value.message
    assert f"in [{table or 'top level'}]" in caught.value.message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("trainer.lr=1e-5", "unknown table `trainer` in [top level]; did you mean `optimizer.lr`?"),
        (
            "trainer={lr = 1e-5, max_turns = 8}",
            "unknown table `trainer` in [top level]; did you mean `optimizer.lr` and `rollout.environment.max_turns`?",
        ),
        ("sampling.temperature=1.0", "unknown table `sampling` in [top level]; did you mean `rollout.sampling`?"),
        ("rollout.engine.dtype=x", "unknown table `engine` in [rollout]; did you mean `rollout.sampler`?"),
        ("engine={device = 'cuda'}", "unknown table `engine` in [top level]; did you mean `rollout.sampler`?"),
        (
            "vllm={dtype = 'float32', kv_cache_gib = 2}",
            "unknown table `vllm` in [top level]; did you mean `rollout.sam",
        ),
    ],
)
def test_an_unknown_table_is_answered_with_where_its_keys_belong(file: Path, given: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, [given])
    assert meant in caught.value.message


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("algorithm.clip=popo", "`algorithm.clip`: There is no clip `popo`; installed are cispo, none, ppo."),
        ("algorithm.clip.type=cispoo", "Did you mean `cispo`?"),
        ("algorithm.estimator=turns", "`algorithm.estimator`: There is no estimator `turns`"),
        ("algorithm.aggregation=mean", "There is no aggregation `mean`; installed are constant, sequence_mean, token"),
        ("algorithm.scale=grup", 'no type "grup"; the types are group, batch, none; did you mean `group`?'),
        ("problems.type=filez", 'no type "filez"; the types are generated, files; did you mean `files`?'),
        ("optimizer.schedule=cosin", "did you mean `cosine`?"),
        ("policy.dtype=bfloat1", 'not "bfloat1"; did you mean `bfloat16`?'),
        ("rollout.evaluation=servers", "did you mean `server`?"),
        ("rollout.reward.preset=kevn", "did you mean `kevin`?"),
        ("rollout.sampler.type=vlm", "Did you mean `vllm`?"),
        ("algorithm.type=['grpo']", "`algorithm.type`"),
        ("algorithm.clip.low=0 algorithm.clip.high=0", "`algorithm.clip`: low and high of 0"),
    ],
)
def test_an_unknown_type_is_answered_with_those_there_are(file: Path, given: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_grpo(file, given.split())
    assert says in caught.value.message


@pytest.mark.parametrize("values", [{"clip": {"type": "none", "low": 0.1}}, {"type": "cispo", "clip": {"dual": 2.0}}])
def test_a_table_that_is_made_in_python_is_looked_at_too(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        AlgorithmSection(**values)
    with pytest.raises(ValueError, match="Extra inputs"):
        TrainerConfig(run={"dir": "r"}, policy={"path": "p"}, algorithm=values)


def test_sft_files_are_looked_at_too(file: Path) -> None:
    with pytest.raises(ConfigError, match=r'`decay_ratio` in \[optimizer.schedule\]; it is a key of type = "wsd"'):
        load_sft(file, ["optimizer.schedule.decay_ratio=0.2"])
    assert load_sft(file, ["optimizer.schedule.min_lr_ratio=0.1"]).optimizer.schedule.type == "cosine"


@pytest.mark.parametrize(
    "off",
    [
        "algorithm.type=ppo algorithm.estimator.value_coefficient=0.0", "algorithm.dynamic_sampling.refill_rounds=0",
        "algorithm.overlong.penalty=0.0", "algorithm.correction=none", "algorithm.kl=false",
        "algorithm.dynamic_sampling=false", "held_out=false",
        "rollout.evaluation.type=ray rollout.evaluation.max_restarts=0 rollout.evaluation.retries=0",
    ],
)  # fmt: skip
def test_what_switches_its_own_part_off_is_taken(file: Path, off: str) -> None:
    assert isinstance(load_grpo(file, off.split()), TrainerConfig)


def test_an_environment_that_no_package_provides_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"no environment `another`; installed are kernelbench, kernelbench_gen"):
        load_grpo(file, ["rollout.environment.type=another", "rollout.gamma=0.4"])


def test_the_reward_is_refused_where_only_the_optimizer_takes_turns(file: Path) -> None:
    reward = "rollout.reward.preset=kevin"
    with pytest.raises(ConfigError, match="scores no turn of kernelbench_optimize"):
        load_grpo(file, ["rollout.environment.type=kernelbench_optimize", reward])
    for name in ("kernelbench_generate", "kernelbench_two_role"):
        load_grpo(file, [f"rollout.environment.type={name}", reward])


CUDA = "evaluator.language=cuda_cpp"


def test_an_optimizer_starts_from_generated_solutions_in_the_language(file: Path) -> None:
    for name in ("kernelbench_optimize", "kernelbench_two_role"):
        config = load_grpo(file, [f"rollout.environment.type={name}", CUDA])
        rows = [*load_problems(config), *load_held_out(config)]
        assert rows
        assert all("load_inline" in (row.start or "") for row in rows)
    rows = load_problems(load_grpo(file, ["rollout.environment.type=kernelbench_optimize"]))
    assert all("triton" in (row.start or "") for row in rows)


def test_the_language_counts_where_servers_judge(file: Path) -> None:
    assert load_grpo(file, [CUDA, *SERVER.split()]).evaluator.language == "cuda_cpp"


def test_a_language_that_no_prompt_asks_for_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "other-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 0.1\n")
    entry = "[warpsmith.languages]\ntilelang = warpsmith.evaluator.languages.triton.language:TRITON\n"
    (metadata / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="No prompt asks for kernels in the language 'tilelang'; the languages are"):
        load_grpo(file, ["evaluator.language=tilelang"])


def sft_with(source: dict[str, Any]) -> SftConfig:
    return SftConfig.model_validate({"run": {"dir": "r"}, "policy": {"path": "p"}, "data": {"source": source}})


def test_a_source_of_triton_answers_refuses_another_language() -> None:
    source = {"type": "kernelbook", "path": "x.parquet"}
    assert "language" not in sft_with(source | {"language": "triton"}).model_dump(mode="json")["data"]["source"]
    with pytest.raises(ValueError, match='answers in Triton alone, none in cuda_cpp; use type = "records"'):
        sft_with(source | {"language": "cuda_cpp"})


@pytest.mark.parametrize("language", ["triton", "cuda_cpp"])
def test_the_language_of_generated_answers_is_dumped(language: str) -> None:
    dumped = sft_with({"language": language}).model_dump(mode="json")
    assert dumped["data"]["source"]["language"] == language
    assert SftConfig.model_validate(dumped) == sft_with({"language": language})


def test_a_file_that_names_every_table_is_no_dump() -> None:
    tables: dict[str, Any] = {name: {} for name in TrainerConfig.model_fields if name != "held_out"}
    tables |= {"run": {"dir": "r"}, "policy": {"path": "p"}}
    assert TrainerConfig.model_validate(tables).optimizer.schedule.type == "constant"
    with pytest.raises(ValueError, match=r"rollout\.gamma has no effect"):
        TrainerConfig.model_validate(tables | {"rollout": {"environment": "kernelbench", "gamma": 0.4}})
