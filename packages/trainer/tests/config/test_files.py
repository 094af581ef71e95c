"""Configuration files: what is read, what is refused and how, and what importing them costs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.rollout.datasets import generated
from warpsmith.rollout.settings import describe
from warpsmith.trainer.algorithms import ALGORITHMS
from warpsmith.trainer.config import SftConfig, TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.rollouts.session import load_held_out, load_problems, refuse_trained

SMALL = """
[run]
dir = "runs/x"
[policy]
path = "models/x"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_a_small_file_gets_defaults(tmp_path: Path) -> None:
    config = load_grpo(write(tmp_path, SMALL))
    assert config.run.title == "x"
    assert config.algorithm.type == "grpo"
    assert config.zero.stage == 2
    assert config.wandb.mode == "offline"


def test_overrides_are_toml_values_or_words(tmp_path: Path) -> None:
    config = load_grpo(
        write(tmp_path, SMALL),
        ["run.steps=7", "policy.dtype=float32", "run.name=two words", "problems.levels=[1]", "run.dir='a.b'"],
    )
    assert (config.run.steps, config.policy.dtype, config.run.name) == (7, "float32", "two words")
    assert config.problems.levels == (1,)
    assert config.run.dir == Path("a.b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SMALL + "[zero]\nstag = 1", ["unknown key `stag` in [zero]", "did you mean `stage`"]),
        (SMALL + "[algoritm]\nkl = 'k3'", ["unknown table `algoritm`", "did you mean `algorithm`"]),
        (SMALL + "[algorithm]\nqqq = 1", ["unknown key `qqq` in [algorithm]", "its keys are", "clip"]),
        (
            SMALL + "[rollout.evaluation]\ntype = 'server'\nserver = ['http://a']",
            ["[rollout.evaluation]", "did you mean `servers`"],
        ),
        (SMALL + "[rollout.evaluation]\ntype = 'server'", ["key `servers` is missing in [rollout.evaluation]"]),
        (
            SMALL + "[rollout.evaluation]\ntype = 'server'\nservers = ['http://a']\n[evaluator]\nslots = 2",
            ["evaluator.slots", "only language, minimum_isolation, timeout_s, trials count"],
        ),
        (SMALL + "[rollout.sampling]\ntemprature = 1", ["[rollout.sampling]", "did you mean `temperature`"]),
        ("[run]\n[policy]\npath = 'x'", ["key `dir` is missing in [run]"]),
        ("[policy]\npath = 'x'", ["key `run` is missing"]),
        (SMALL + "[zero]\nstage = 4", ["`zero.stage`: Input should be 0, 1, 2 or 3, not 4"]),
        (SMALL + "[optimizer]\nbetas = [1.5, 0.9]", ["`optimizer.betas.0`", "less than 1"]),
        (SMALL + "[optimizer]\nbetas = [0.9, 1.0]", ["`optimizer.betas.1`", "less than 1"]),
        (SMALL + "[optimizer]\nlr = inf", ["`optimizer.lr`", "finite number"]),
        (SMALL + "[algorithm.kl]\ncoefficient = nan", ["`algorithm.kl.coefficient`", "finite number"]),
        (SMALL + "[policy.lora]\nalpha = inf", ["`policy.lora.alpha`", "finite number"]),
        (SMALL + "[rollout]\ngenerate_timeout_s = inf", ["`rollout.generate_timeout_s`", "finite number"]),
        (
            SMALL + "[algorithm]\ntype = 'ppoo'",
            ["no algorithm `ppoo`", "installed are cispo,", "mean `ppo`?"],
        ),
        (SMALL + "[algorithm]\nupdates_per_step = 5", ["updates_per_step (5)", "prompts_per_step (4)"]),
        (SMALL + "[algorithm]\ntype = 'dapo'\nestimator = 'gae'", ["dynamic_sampling = false"]),
        (SMALL + "[algorithm]\nsamples_per_prompt = 1", ["samples_per_prompt = 1", "2 or more", 'type = "ppo"']),
        (SMALL + "[algorithm]\ntype = 'ppo'\nestimator = 'turn'", ['estimator = "turn" has none', '"gae"']),
        (SMALL + "[algorithm]\ncorrection = 'truncated'", ['old_logprobs = "recompute"']),
        (SMALL + "dtype = 'bfloat16'\n[zero]\nstage = 0", ["use stage 1"]),
        (SMALL + "dtype = 'float16'", ["loss scaling"]),
        (SMALL + "[policy.lora]\nrank = 0", ["`policy.lora.rank`"]),
        (SMALL + "kernels = 'triton'", ["`policy.kernels`", "'torch' or 'liger'"]),
        (SMALL + "[policy.lora]\nbits = 8", ["`policy.lora.bits`"]),
        (SMALL + "dtype = 'float32'\n[policy.lora]\nbits = 4", ["policy.lora.bits", 'policy.dtype = "bfloat16"']),
        (SMALL + "[policy.lora]\nbits = 4\n[zero]\nstage = 3", ["policy.lora.bits", "zero.stage = 2"]),
        (SMALL + "[optimizer]\nimplementation = 'fused'", ["`optimizer.implementation`", "'torch' or 'cpu'"]),
        (SMALL + "[optimizer]\nimplementation = 'cpu'", ["zero.offload_optimizer = true", "or neither"]),
        (SMALL + "[zero]\noffload_optimizer = true", ['optimizer.implementation = "cpu"', "or neither"]),
        (SMALL + "[zero]\noffload_parameters = true", ["zero.offload_parameters", "zero.stage = 3"]),
        (
            SMALL + "dtype = 'float32'\n[zero]\nstage = 0\noffload_optimizer = true",
            ["zero.offload_optimizer", "zero.stage = 1, 2 or 3"],
        ),
        (SMALL + "[policy.lora]\nbits = 4\n[sync]\nlora = 'adapter'", ["sync.lora", 'set "merged"']),
        (SMALL + "[sync]\nlora = 'adapter'", ["sync.lora", "only with [policy.lora]"]),
        (SMALL + "[policy.lora]\nrank = 600", ["policy.lora.rank (600)", "up to 512"]),
        (SMALL + "[policy.lora]\ndropout = 0.1", ["policy.lora.dropout (0.1)", "noise in the ratio", "set it to 0"]),
        (SMALL + "[rollout.sampler]\nlora_rank = 8", ["rollout.sampler.lora_rank", "policy.lora.rank"]),
        (SMALL + "[rollout.sampling]\ntop_p = 0.9", ["rollout.sampling.top_p", "over the kept tokens", "remove it"]),
        (SMALL + "[rollout.sampling]\ntop_k = 50", ["rollout.sampling.top_k", "over the kept tokens", "remove it"]),
        (SMALL + "[rollout.sampling]\nmin_p = 0.1", ["rollout.sampling.min_p", "over the kept tokens", "remove it"]),
        (SMALL + "[problems]\nsize = 'gpu'", ["too large for the interpreter", 'evaluator.device = "cuda"']),
        ("[run", ["not valid TOML"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_grpo(write(tmp_path, text))
    for part in expected:
        assert part in str(caught.value)


def test_held_out_problems_have_the_size_of_those_that_are_trained_on(tmp_path: Path) -> None:
    more = ["held_out.problems=6", "problems.count=6"]
    small = load_grpo(write(tmp_path, SMALL), more)
    large = load_grpo(write(tmp_path, SMALL), [*more, "problems.size=gpu", "evaluator.device=cuda"])
    assert [row.naive is None for row in (*load_problems(small), *load_held_out(small))] == [True] * 12
    assert [row.naive is None for row in (*load_problems(large), *load_held_out(large))] == [False] * 12


@pytest.fixture
def kernelbench(tmp_path: Path) -> Path:
    """A directory in KernelBench's layout: six problems of level 1, two of level 2."""
    for row in generated(seed=5, count=8, levels=(1,)):
        number = len(list(tmp_path.rglob("level*/*.py"))) + 1
        folder = tmp_path / "KernelBench" / ("level1" if number <= 6 else "level2")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}_{row.name.partition('_')[2]}.py").write_text(row.text)
    return tmp_path / "KernelBench"


def test_held_out_problems_of_files_are_chosen_by_the_seed(tmp_path: Path, kernelbench: Path) -> None:
    source = SMALL + f"[held_out]\nproblems = 4\n[held_out.source]\ntype = 'files'\npath = '{kernelbench}'\n"

    def names(*more: str) -> list[str]:
        return [row.name for row in load_held_out(load_grpo(write(tmp_path, source), more))]

    assert names() == names() and len(set(names())) == 4
    assert {tuple(names(f"held_out.seed={seed}")) for seed in range(8)} != {tuple(names())}
    assert len(names("held_out.problems=8")) == 8
    assert len(names("held_out.problems=2", "held_out.source.levels=[2]")) == 2
    with pytest.raises(ConfigError, match=r"held_out\.problems \(4\): .* has 2 problems of the levels \[2\]"):
        names("held_out.source.levels=[2]")
    with pytest.raises(ConfigError, match=r"has a level of \[3\]. Change held_out\.source\.levels"):
        names("held_out.source.levels=[3]")


def test_a_held_out_problem_that_is_trained_on_is_refused(tmp_path: Path, kernelbench: Path) -> None:
    files = f"type = 'files'\npath = '{kernelbench}'\n"
    text = SMALL + f"[problems]\n{files}levels = [1]\n[held_out]\nproblems = 2\n[held_out.source]\n{files}"
    other = load_grpo(write(tmp_path, text), ["held_out.source.levels=[2]"])
    refuse_trained(load_held_out(other), load_problems(other))
    same = load_grpo(write(tmp_path, text), ["held_out.source.levels=[1]"])
    with pytest.raises(ConfigError, match="2 of 2 held-out problems are trained on too: ") as caught:
        refuse_trained(load_held_out(same), load_problems(same))
    assert "held_out.source" in caught.value.remedy


def test_generated_held_out_problems_can_have_levels_and_a_size_of_their_own(tmp_path: Path) -> None:
    more = ["held_out.problems=6", "held_out.source.levels=[2]", "held_out.source.size=gpu"]
    rows = load_held_out(load_grpo(write(tmp_path, SMALL), [*more, "evaluator.device=cuda"]))
    assert {(row.level, row.naive is None) for row in rows} == {(2, False)}
    with pytest.raises(ConfigError, match=r'held_out\.source\.size = "gpu": these problems are too large'):
        load_grpo(write(tmp_path, SMALL), more)


def test_a_cap_alone_has_no_lower_bound(tmp_path: Path) -> None:
    bounds = "[algorithm]\nold_logprobs = 'recompute'\n[algorithm.correction]\nhigh = 0.4\ntype ="
    load_grpo(write(tmp_path, SMALL + f"{bounds} 'truncated'"))
    with pytest.raises(ConfigError, match=r"`algorithm\.correction`: low \(0\.5\) is above high \(0\.4\)"):
        load_grpo(write(tmp_path, SMALL + f"{bounds} 'masked'"))


def test_a_body_is_transformers_own_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    for load in (load_grpo, load_sft):
        assert load(write(tmp_path, SMALL)).policy.kernels == "torch"
        assert load(write(tmp_path, SMALL), ["policy.kernels=liger"]).policy.kernels == "liger"


def test_sft_takes_dropout(tmp_path: Path) -> None:
    lora = load_sft(write(tmp_path, SMALL), ["policy.lora.dropout=0.1"]).policy.lora
    assert lora is not None
    assert lora.dropout == 0.1


def test_sampling_that_keeps_every_token_is_taken(tmp_path: Path) -> None:
    config = load_grpo(write(tmp_path, SMALL), ["rollout.sampling.top_p=1.0", "rollout.sampling.min_p=0.0"])
    assert (config.rollout.sampling.top_p, config.rollout.sampling.min_p) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "alone"),
    [
        ([], False),
        (["policy.lora.rank=4"], True),
        (["policy.lora.rank=4", "sync.lora=merged"], False),
        (["policy.lora.bits=4"], False),
        (["policy.lora.rank=600", "sync.lora=merged"], False),
    ],
)
def test_samplers_get_the_adapter_alone_where_it_makes_the_same_policy(
    tmp_path: Path, changes: list[str], alone: bool
) -> None:
    assert load_grpo(write(tmp_path, SMALL), changes).sends_adapter is alone


@pytest.mark.parametrize("override", ["run.steps", "=3", "run..steps=3", "run.dir.x=3"])
def test_malformed_overrides_are_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_grpo(write(tmp_path, SMALL), [override])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_sft(tmp_path / "absent.toml")


ONE_OF_EACH = {
    "grpo": ("turn", "mean", "group", "token", ("ppo", 0.2, 0.2), "sequence_mean"),
    "dr_grpo": ("turn", "mean", "none", "token", ("ppo", 0.2, 0.2), "constant"),
    "dapo": ("turn", "mean", "group", "token", ("ppo", 0.2, 0.28), "token_mean"),
    "gspo": ("turn", "mean", "group", "sequence", ("ppo", 3e-4, 4e-4), "sequence_mean"),
    "cispo": ("turn", "mean", "group", "token", ("cispo", 1.0, 2.0), "token_mean"),
    "rloo": ("turn", "leave_one_out", "none", "token", ("none",), "constant"),
    "ppo": ("gae", "mean", "batch", "token", ("ppo", 0.2, 0.2), "token_mean"),
}


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_an_algorithm_fills_what_the_file_leaves_out(tmp_path: Path, name: str) -> None:
    chosen = load_grpo(write(tmp_path, SMALL), [f"algorithm.type={name}"]).algorithm
    bounds = (chosen.clip.type, *(getattr(chosen.clip, key) for key in ("low", "high") if hasattr(chosen.clip, key)))
    found = (chosen.estimator.type, chosen.baseline, chosen.scale.type, chosen.ratio, bounds, chosen.aggregation.type)
    assert found == ONE_OF_EACH[name]
    assert (chosen.dynamic_sampling is not None, chosen.overlong is not None) == (name == "dapo",) * 2
    assert chosen.model_fields_set == {"type"}


def test_a_table_of_another_type_has_its_own_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    assert load_grpo(path, ["algorithm.type=gspo", "algorithm.clip.high=0.1"]).algorithm.clip.low == 3e-4
    assert load_grpo(path, ["algorithm.type=gspo", "algorithm.clip.type=cispo"]).algorithm.clip.low == 1.0
    assert load_grpo(path, ["algorithm.type=rloo", "algorithm.clip=ppo"]).algorithm.clip.low == 0.2
    recompute = ["algorithm.type=gspo", "algorithm.old_logprobs=recompute"]
    assert load_grpo(path, [*recompute, "algorithm.correction=masked"]).algorithm.correction.level == "geometric"
    assert load_grpo(path, recompute).algorithm.correction.type == "none"


def test_false_takes_a_table_of_the_algorithm_away(tmp_path: Path) -> None:
    off = ["algorithm.type=dapo", "algorithm.dynamic_sampling=false", "algorithm.overlong=false"]
    algorithm = load_grpo(write(tmp_path, SMALL), off).algorithm
    assert (algorithm.dynamic_sampling, algorithm.overlong, algorithm.clip.high) == (None, None, 0.28)
    assert load_grpo(write(tmp_path, SMALL), ["algorithm.dynamic_sampling=true"]).algorithm.dynamic_sampling is not None


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_a_dump_loads_again(tmp_path: Path, name: str) -> None:
    config = load_grpo(write(tmp_path, SMALL), [f"algorithm.type={name}", "held_out.problems=2"])
    assert TrainerConfig.model_validate(config.model_dump()) == config
    assert TrainerConfig.model_validate(config.model_dump(mode="json")) == config
    assert TrainerConfig.model_validate_json(config.model_dump_json()) == config
    assert TrainerConfig.model_validate(config.model_dump(exclude_unset=True)) == config


def test_unset_removes_a_key_and_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL + "[held_out]\nproblems = 3\nsamples = 2\n[algorithm.kl]\ncoefficient = 0.1\n")
    assert load_grpo(path, ["held_out.samples=unset"]).held_out.samples == 1  # type: ignore[union-attr]
    assert load_grpo(path, ["held_out=unset"]).held_out is None
    assert load_grpo(path, ["algorithm.kl=unset", "sync.tolerance=unset"]).algorithm.kl is None
    assert load_grpo(path, ["run.name='unset'"]).run.name == "unset"
    with pytest.raises(ConfigError, match=r"there is no key or table `held_out\.sample`"):
        load_grpo(path, ["held_out.sample=unset"])


@pytest.mark.parametrize("kind", [TrainerConfig, SftConfig])
def test_every_key_of_this_package_says_what_it_means(kind: type) -> None:
    own = [field for field in kind.model_fields.values() if "trainer" in getattr(field.annotation, "__module__", "")]
    assert own
    for section in own:
        for name, field in section.annotation.model_fields.items():  # type: ignore[union-attr]
            assert field.description, name
    assert any(line.startswith("[zero]") for line in describe(kind))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[data]\nsource = 'chats'", "key `path` is missing in [data.source]"),
        ("[[data.sources]]\ntype = 'records'", "key `path` is missing in [data.sources.0]"),
        ("[data.source]\ntype = 'chats'\npath = 'x'\nbest = 3", '[data.source]; it is a key of type = "records"'),
        ("[data.source]\nproblems = 3\n[[data.sources]]\ntype = 'generated'", "or several [[data.sources]]; not both"),
        ("[data]\nproblems = 3", "unknown key `problems` in [data]; did you mean `data.source.problems`?"),
        ("[[data.sources]]\nweigth = 2.0", "unknown key `weigth` in [data.sources.0]; did you mean `weight`?"),
        ("[[data.sources]]\nweight = 0", "`data.sources.0.weight`"),
        ("[data.source]\nsolutions = 'naive'", 'solutions = "naive" needs size = "gpu"'),
        ("[run]\nepochs = 0", "`run.epochs`"),
        ("[run]\nepochs = inf", "`run.epochs`: Input should be a finite number"),
        ("[[data.sources]]\nweight = inf", "`data.sources.0.weight`: Input should be a finite number"),
    ],
)
def test_sources_of_sft_are_checked(tmp_path: Path, text: str, expected: str) -> None:
    whole = SMALL.replace("[run]", text) if text.startswith("[run]") else SMALL + text
    with pytest.raises(ConfigError, match=re.escape(expected)):
        load_sft(write(tmp_path, whole))


def test_sources_of_sft_have_names_and_one_path_or_several(tmp_path: Path) -> None:
    text = (
        SMALL
        + """
[[data.sources]]
type = "records"
path = "runs/a"
[[data.sources]]
type = "records"
path = ["runs/b", "runs/c"]
[[data.sources]]
type = "generated"
name = "made"
"""
    )
    data = load_sft(write(tmp_path, text)).data
    assert data.labels == ("records-1", "records-2", "made")
    assert [len(getattr(part, "path", ())) for part in data.parts] == [1, 2, 0]
    alone = load_sft(write(tmp_path, SMALL), ["data.source.type=kernelbook", "data.source.path=book.parquet"]).data
    assert (alone.labels, alone.parts[0].path) == (("kernelbook",), (Path("book.parquet"),))


@pytest.mark.parametrize("kind", [TrainerConfig, SftConfig])
def test_the_schema_shows_every_key_with_its_choices_and_bounds(kind: type) -> None:
    lines = list(describe(kind))
    for line in lines:
        if " = " in line and not line.startswith(("[", "#")):
            allowed, _, meaning = line.partition("  # ")[2].partition(". ")
            assert allowed and meaning, line
            assert "any value" not in allowed, line
    shown = {line.partition(" = ")[0] for line in lines}
    assert {"lr", "stage", "dtype", "every"} <= shown
    named = {line.partition(" = ")[0]: line for line in lines if " = " in line}
    if kind is TrainerConfig:
        # Names that packages provide: of a device, a kernel language, a sampler, an algorithm.
        assert '# "cpu" | "cuda". ' in named["device"] and '# "cuda_cpp" | "triton". ' in named["language"]
        assert any(line.startswith('type = "grpo"') and '"cispo" | "dapo" | "dr_grpo" | ' in line for line in lines)
        assert {f'[algorithm.clip]  # type = "{name}"' for name in ("cispo", "none")} <= set(lines)


def test_the_schema_tells_units() -> None:
    lines = {line.partition(" = ")[0]: line for line in describe(TrainerConfig) if " = " in line}
    for key, unit in {
        "seconds": "number > 0, s.", "timeout_minutes": "minutes.", "micro_batch_tokens": "tokens.",
        "max_model_len": "tokens.", "kl_max": "| false, nats a token.", "memory_bytes": "integer >= 67,108,864, bytes.",
        "kv_cache_gib": "GiB.", "deadline_s": ", s.",
    }.items():  # fmt: skip
        assert unit in lines[key], lines[key]


def test_configurations_import_without_torch() -> None:
    code = (
        "import sys, warpsmith.trainer.config, warpsmith.trainer.cli;"
        "bad = {'torch', 'vllm', 'ray', 'deepspeed', 'transformers', 'wandb'} & set(sys.modules); assert not bad, bad"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_configurations_load_where_neither_the_extension_nor_torch_is_there(tmp_path: Path) -> None:
    code = """
import importlib.abc
import sys

HEAVY = {"torch", "transformers", "vllm", "ray", "deepspeed", "triton", "wandb"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "warpsmith.evaluator._native" or name.partition(".")[0] in HEAVY:
            raise ImportError("not there")

sys.meta_path.insert(0, Missing())
import warpsmith.evaluator.config, warpsmith.policy.config, warpsmith.rollout.config
import warpsmith.trainer.cli
from warpsmith.trainer.config import load_any
print(load_any(sys.argv[1]).evaluator.device)
for name in ("warpsmith.evaluator._native", *sorted(HEAVY)):
    try:
        __import__(name)
    except ImportError as error:
        print(error.msg.replace(" ", "-"))
"""
    path = write(tmp_path, SMALL + "[evaluator]\ndevice = 'cuda'\n")
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["cuda", *["not-there"] * 8]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[optimizer]\nlr = '1e-5'", '`optimizer.lr`: "1e-5" is text; write 1e-5, without quotes'),
        ("[zero]\nstage = '2'", '`zero.stage`: "2" is text; write 2'),
        ("[zero]\npacking = 'false'", '`zero.packing`: "false" is text; write false'),
        ("[optimizer]\nbetas = ['0.9', 0.95]", '`optimizer.betas.0`: "0.9" is text; write 0.9'),
        ("[health]\nkl_max = 'false'", '`health.kl_max`: "false" is text; write false'),
        ("[placement]\ntrain = '0'", '`placement.train`: "0" is text; write 0'),
        ("[algorithm.clip]\nlow = '0.1'", '`algorithm.clip.low`: "0.1" is text; write 0.1'),
        ("[held_out]\nproblems = '8'", '`held_out.problems`: "8" is text; write 8'),
        ("[evaluator]\ntrials = '3'", '`evaluator.trials`: "3" is text; write 3'),
    ],
)
def test_numbers_and_booleans_in_quotes_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        load_grpo(write(tmp_path, SMALL + text))
    assert caught.value.message.count(" is text; ") == 1


def test_quotes_in_an_array_of_tables_are_found(tmp_path: Path) -> None:
    text = "[[data.sources]]\ntype = 'records'\npath = '7'\nbest = '3'\nmin_score = 'high'"
    with pytest.raises(ConfigError) as caught:
        load_sft(write(tmp_path, SMALL + text))
    assert '`data.sources.0.best`: "3" is text; write 3, without quotes' in caught.value.message
    assert "`data.sources.0.min_score`: Input should be a valid number" in caught.value.message
