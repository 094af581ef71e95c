"""`init`: files for many models and machines load, fit, and say what every key means."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.trainer.config import TrainerConfig, load_any, load_grpo, load_sft
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import plan
from warpsmith.trainer.planning.commented import commented
from warpsmith.trainer.planning.fitted import KINDS, fitted
from warpsmith.trainer.planning.machines import Machine
from warpsmith.trainer.planning.shapes import KNOWN, ModelShape, shape_of
from warpsmith.trainer.planning.sizes import GIB

Command = Callable[..., int]

FITS = [
    ("demo", "cpu-24g", "grpo"), ("demo", "cpu-24g", "sft"), ("smollm2-135m", "cpu-24g", "grpo"),
    ("smollm2-135m", "4090", "grpo"), ("smollm2-360m", "4x3090", "grpo"), ("qwen2.5-coder-1.5b", "2xh100-80", "grpo"),
    ("qwen3-8b", "2xh100-80", "grpo"), ("qwen3-8b", "2xh100-80", "sft"), ("qwen3-8b", "h200", "grpo"),
    ("kernelllm", "8xh100-80", "grpo"), ("qwen3-14b", "8xh200", "grpo"), ("qwen3-14b", "8xh200", "sft"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "machine", "kind"), FITS)
def test_plan_accepts_what_init_writes(
    model: str, machine: str, kind: str, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    given_ = ("--model", f"models/{model}", "--machine", machine)
    assert command("init", *given_, "--kind", kind, "-o", str(file)) == 0
    assert f"warpsmith-trainer plan {file} --machine {machine}" in capsys.readouterr().err
    assert command("plan", str(file), "--machine", machine, "--json") == 0
    assert json.loads(capsys.readouterr().out)["fits"]
    config = load_grpo(file) if kind == "grpo" else load_sft(file)
    assert config.policy.path == Path(f"models/{model}")
    assert config.policy.dtype == ("float32" if machine.startswith("cpu") else "bfloat16")
    if isinstance(config, TrainerConfig):
        # One GPU times too.
        assert config.evaluator.device == ("cpu" if machine.startswith("cpu") else "cuda")


def test_every_key_has_its_meaning_above_it(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("init", "--model", "models/qwen3-8b", "--machine", "2xh100-80") == 0
    lines = capsys.readouterr().out.splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert len(keys) > 30
    for number in keys:
        assert lines[number - 1].startswith("# "), lines[number]
    # What the machine is too small for is said at the head, as plan would propose it.
    head = "\n".join(lines[: lines.index("")])
    assert "2xh100-80" in head and "so these keys differ from them:" in head
    assert "# Maximum tokens of a prompt with its completion. Unit: tokens." in lines


@pytest.mark.parametrize("kind", ["grpo", "sft"])
def test_a_model_that_does_not_fit_is_refused_with_the_reason(
    kind: str, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    assert command("init", "--model", "models/qwen3-14b", "--machine", "cpu-24g", "--kind", kind, "-o", str(file)) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert (
        f"A {kind.upper()} run of qwen3-14b (15 billion parameters) does not fit cpu-24g: A host would need" in printed
    )
    assert not file.exists()


def test_a_file_that_is_there_is_replaced_by_force_alone(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text("mine")
    arguments = ("init", "--model", "models/smollm2-135m", "--machine", "h100-80", "-o", str(file))
    assert command(*arguments) == 2
    assert "exists already" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert command(*arguments, "--force") == 0
    assert load_any(file).policy.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "models/unheard-of", "--machine", "h200"], "no model of that name is known"),
        (["--model", "models/qwen3-8b", "--machine", "h2000"], "There is no machine called"),
        (["--model", "models/qwen3-8b", "--machine", "h200", "--kind", "ppo"], "The kinds are grpo and sft"),
    ],
)
def test_what_cannot_be_written_is_refused(
    arguments: list[str], says: str, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("init", *arguments) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_lengths_keep_to_what_a_model_reads(command: Command, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.mkdir()
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 2}
    more = {"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 600, "max_position_embeddings": 256}
    (short / "config.json").write_text(json.dumps({"model_type": "qwen3", **sizes, **more}))
    file = tmp_path / "run.toml"
    assert command("init", "--model", str(short), "--machine", "cpu-24g", "-o", str(file)) == 0
    assert load_grpo(file).rollout.sampler.max_model_len == 256


shapes = st.builds(
    lambda layers, heads, kv, tied: ModelShape("any", layers, 64 * heads, 192 * heads, heads, kv, 64, 32000, tied=tied),
    st.integers(2, 48), st.sampled_from([2, 4, 9, 16, 32, 40]), st.just(1), st.booleans(),
)  # fmt: skip
anywhere = st.builds(
    lambda gpus, size, host: Machine("any", gpus, size * GIB, host * GIB),
    st.integers(0, 2), st.sampled_from([16, 24, 40, 80, 140]), st.sampled_from([16, 64, 512]),
)  # fmt: skip


@settings(max_examples=8)
@given(shapes, anywhere, st.sampled_from(["grpo", "sft"]))
def test_any_model_on_any_machine_fits_or_is_refused(shape: ModelShape, machine: Machine, kind: str) -> None:
    try:
        found = fitted(kind, Path("models/any"), shape, machine)  # type: ignore[arg-type]
    except ConfigError as error:
        assert "does not fit any: " in error.message
        return
    text = commented(KINDS[kind], found.tables, "head")  # type: ignore[index]
    assert plan(found.config, shape, machine).fits
    assert type(found.config).model_validate(tomllib.loads(text)) == found.config


def test_all_known_models_have_a_file_for_a_large_machine() -> None:
    for name in KNOWN:
        path = Path(f"models/{name}")
        assert fitted("grpo", path, shape_of(path), machines.named("8xh200")).made.fits
