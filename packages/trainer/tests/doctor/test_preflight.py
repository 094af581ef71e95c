"""What is refused before any process starts or any file is written."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.evaluator import ServerError
from warpsmith.policy import kernels
from warpsmith.policy.errors import CheckpointError, KernelsError, QuantizationError, TemplateError, TokenizerError
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.reader import NoRecordsError
from warpsmith.trainer.config import load_grpo, load_sft
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.doctor.preflight import check_files, preflight
from warpsmith.trainer.errors import CheckpointError as RunError
from warpsmith.trainer.errors import ConfigError, DataError

Grpo = Callable[..., TrainerConfig]


@pytest.fixture
def grpo(tmp_path: Path, tiny: Path) -> Grpo:
    """Loads a GRPO file with overrides; the policy is the tiny one unless they name another."""

    def load(*overrides: str) -> TrainerConfig:
        path = tmp_path / "grpo.toml"
        path.write_text(
            f'[run]\ndir = "{tmp_path / "run"}"\nsteps = 1\n[policy]\npath = "{tiny}"\n'
            '[rollout]\nprompt_style = "compact"\n[problems]\ncount = 8\n'
        )
        return load_grpo(path, overrides)

    return load


def without(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def shortened(directory: Path) -> None:
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def no_generation_prompt(directory: Path) -> None:
    template = directory / "chat_template.jinja"
    template.write_text(template.read_text().replace("add_generation_prompt", "false"))


def no_template(directory: Path) -> None:
    (directory / "chat_template.jinja").unlink()


def no_json(directory: Path) -> None:
    (directory / "config.json").write_text("{")


DAMAGES: dict[str, tuple[Callable[[Path], None], type[WarpsmithError], str]] = {
    "no_config": (without("config.json"), CheckpointError, "no config.json"),
    "no_json": (no_json, CheckpointError, "is not JSON"),
    "no_tokenizer": (without("tokenizer.json"), TokenizerError, "no tokenizer.json"),
    "no_weights": (without("model.safetensors"), CheckpointError, "lacks model.safetensors"),
    "shortened": (shortened, CheckpointError, "damaged or cut short"),
    "no_template": (no_template, TemplateError, "no chat template"),
    "no_generation_prompt": (no_generation_prompt, TemplateError, "no generation prompt"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_policy_is_refused_by_what_is_wrong_with_it(
    grpo: Grpo, tiny: Path, tmp_path: Path, name: str
) -> None:
    damage, error, says = DAMAGES[name]
    directory = tmp_path / "policy"
    shutil.copytree(tiny, directory)
    damage(directory)
    with pytest.raises(error, match=says) as caught:
        preflight(grpo(f"policy.path={directory}"), False)
    assert caught.value.remedy
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_a_sound_run_passes_and_nothing_is_written(grpo: Grpo, tmp_path: Path) -> None:
    preflight(grpo(), False)
    assert not (tmp_path / "run").exists()


def test_a_policy_that_is_nowhere_is_refused(grpo: Grpo, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        preflight(grpo(f"policy.path={tmp_path / 'nowhere'}"), False)


def other_vocabulary(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] + 64}))


def other_tokens(directory: Path) -> None:
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(content))


OTHER_TOKENS: dict[str, tuple[Callable[[Path], None], type[WarpsmithError], str]] = {
    "other_vocabulary": (other_vocabulary, ConfigError, "algorithm.kl.reference: .* has a vocabulary of"),
    "other_tokens": (other_tokens, ConfigError, "algorithm.kl.reference: .* assigns other ids"),
}


@pytest.mark.parametrize("name", [*DAMAGES, *OTHER_TOKENS])
def test_a_reference_policy_is_looked_at_as_the_policy_is(grpo: Grpo, tiny: Path, tmp_path: Path, name: str) -> None:
    damage, error, says = {**DAMAGES, **OTHER_TOKENS}[name]
    directory = tmp_path / "reference"
    shutil.copytree(tiny, directory)
    named = f"algorithm.kl.reference={directory}"
    preflight(grpo(named, "algorithm.kl.coefficient=0.1"), False)
    damage(directory)
    with pytest.raises((error, CheckpointError), match=says) as caught:
        preflight(grpo(named, "algorithm.kl.coefficient=0.1"), False)
    assert caught.value.remedy
    assert caught.value.exit_code == 2
    preflight(grpo(), False)


def test_the_command_refuses_a_reference_policy_that_is_nowhere(grpo: Grpo, tmp_path: Path) -> None:
    config = grpo(f"algorithm.kl.reference={tmp_path / 'nowhere'}", "algorithm.kl.coefficient=0.1")
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        check_files(config, False)


def test_a_disk_without_room_is_refused_with_both_figures(grpo: Grpo) -> None:
    with pytest.raises(ConfigError, match=r"GiB free; 1000000001 checkpoints"):
        preflight(grpo("checkpoint.keep=1000000000"), False)


def test_servers_that_do_not_answer_are_refused(grpo: Grpo) -> None:
    servers = 'rollout.evaluation.servers=["http://127.0.0.1:9"]'
    with pytest.raises(ServerError, match="cannot be reached") as caught:
        preflight(grpo("rollout.evaluation.type=server", servers), False)
    assert caught.value.exit_code == 2


def test_an_environment_that_is_not_there_is_refused_with_the_file(grpo: Grpo) -> None:
    message = "no environment `kernelbench_multi`; installed are .* Did you mean `kernelbench_multiturn`"
    with pytest.raises(ConfigError, match=message):
        grpo("rollout.environment.type=kernelbench_multi")


def test_nothing_to_resume_is_refused(grpo: Grpo) -> None:
    with pytest.raises(RunError, match="has no checkpoint"):
        preflight(grpo(), True)


def test_files_and_runs_that_are_not_there_are_refused_before_anything_starts(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "sft.toml"
    path.write_text(f'[run]\ndir = "{tmp_path / "run"}"\n[policy]\npath = "{tiny}"\n')
    with pytest.raises(DataError, match=r"no file absent\.jsonl"):
        preflight(load_sft(path, ["data.source.type=chats", "data.source.path=absent.jsonl"]), False)
    with pytest.raises(NoRecordsError):
        preflight(load_sft(path, ["data.source.type=records", "data.source.path=absent"]), False)
    assert not (tmp_path / "run").exists()


def test_a_fine_tuning_run_is_looked_at_alike(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "sft.toml"
    path.write_text(f'[run]\ndir = "{tmp_path / "run"}"\n[policy]\npath = "{tiny}"\n')
    preflight(load_sft(path), False)
    (tmp_path / "run" / "records").mkdir(parents=True)
    with pytest.raises(ConfigError, match="already holds a run"):
        preflight(load_sft(path), False)


def refused(config: Path, directory: Path, processes: int = 1) -> str:
    """Run the command on another policy, and return the one paragraph that it ends with."""
    arguments = ["grpo", str(config), "--set", f"policy.path={directory}", "--num-processes", str(processes)]
    command = [sys.executable, "-m", "warpsmith.trainer", *arguments]
    # A process group that another test made in this process leaves the names of a rank behind.
    clean = {name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK", "WORLD_SIZE"}}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=clean)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert len(ended.stderr.splitlines()) <= 3, ended.stderr
    return ended.stderr


def test_the_command_refuses_in_one_paragraph_before_any_rank_starts(grpo: Grpo, tmp_path: Path) -> None:
    grpo()
    refused(tmp_path / "grpo.toml", tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.long  # two ranks that import everything; launch/test_rank_deaths.py has one that says why it ends
@pytest.mark.parametrize("processes", [1, 2])
def test_so_does_the_rank_that_asks_for_the_rest(grpo: Grpo, tiny: Path, tmp_path: Path, processes: int) -> None:
    grpo()
    shutil.copytree(tiny, tmp_path / "policy")
    no_template(tmp_path / "policy")
    assert "no chat template" in refused(tmp_path / "grpo.toml", tmp_path / "policy", processes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("run.stepz=3", "did you mean `steps`? `warpsmith-trainer schema`"),
        ("rollouts.max_turns=2", "did you mean `rollout`?"),
        ("run.steps=many", "`run.steps`: Input should be a valid integer"),
    ],
)
def test_a_mistyped_key_names_the_near_one(grpo: Grpo, key: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        grpo(key)
    assert says in str(caught.value)


def test_adapters_that_fit_no_layer_are_refused_at_once(grpo: Grpo) -> None:
    preflight(grpo("policy.lora.rank=4"), False)
    with pytest.raises(ConfigError, match=r"target_modules: .* has no layer named wq"):
        preflight(grpo('policy.lora.target_modules=["wq"]'), False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with a GPU may have 4-bit weights")
def test_4_bit_weights_are_refused_where_there_are_none(grpo: Grpo) -> None:
    with pytest.raises(QuantizationError, match=r"bits = 4 needs .*(not installed|torch sees none)") as caught:
        preflight(grpo("policy.lora.bits=4"), False)
    assert "policy.lora.bits" in caught.value.remedy
    assert caught.value.exit_code == 2


def test_fused_kernels_are_refused_where_there_are_none(grpo: Grpo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    preflight(grpo("policy.kernels=torch"), False)
    with pytest.raises(KernelsError, match=r'kernels = "liger" .*(not installed|torch sees none)') as caught:
        preflight(grpo("policy.kernels=liger"), False)
    assert 'policy.kernels = "torch"' in caught.value.remedy
    assert caught.value.exit_code == 2


def test_so_is_a_reference_policy_that_they_are_not_for(
    grpo: Grpo, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "triton_runs", lambda: True)
    monkeypatch.setattr(kernels, "find_spec", lambda _: object())
    other = tmp_path / "reference"
    shutil.copytree(tiny, other)
    changes = ("policy.kernels=liger", "algorithm.kl.coefficient=0.1", f"algorithm.kl.reference={other}")
    preflight(grpo(*changes), False)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu"}))
    with pytest.raises(KernelsError, match="this model uses gelu"):
        preflight(grpo(*changes), False)


def test_the_parameters_of_adapters_are_counted_without_a_model(tiny: Path) -> None:
    from warpsmith.policy import adapters
    from warpsmith.policy.config import LoraSettings
    from warpsmith.policy.loading import load_policy

    settings = LoraSettings(rank=4)
    model = adapters.attach(load_policy(tiny), settings)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert adapters.count_parameters(tiny, settings) == trained
