"""`[parallel]`: which settings, models and numbers of ranks are refused, and with what to do instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.parallel import SPLIT_TYPES, ParallelSection
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError

QWEN3 = {"model_type": "qwen3", "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12288}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"parallel": {"sequence": 2}}, r'"sdpa" attention would see only .* set policy.attention = "varlen"'),
        ({"parallel": {"tensor": 2}, "zero": {"stage": 3}}, r"zero.stage = 3: .* set 0, 1 or 2"),
        ({"parallel": {"tensor": 2}, "policy": {"path": "m", "lora": {}}}, "would leave adapters whole"),
        ({"parallel": {"tensor": 2}, "policy": {"path": "m", "kernels": "liger"}}, "which was not tested with it"),
        (
            {"parallel": {"tensor": 2}, "zero": {"offload_optimizer": True}, "optimizer": {"implementation": "cpu"}},
            "zero.offload_optimizer, which was not tested",
        ),
        ({"parallel": {"tensor": 0}}, "greater than or equal to 1"),
    ],
)
@pytest.mark.parametrize("kind", [TrainerConfig, SftConfig])
def test_what_cannot_be_shared_is_refused(kind: Any, tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        kind(**{"run": {"dir": "r"}, "policy": {"path": "m"}, **tables})


def test_adapters_and_every_stage_can_share_rows() -> None:
    for stage in (1, 2, 3):
        policy = {"path": "m", "attention": "varlen", "lora": {"rank": 4}}
        SftConfig(run={"dir": "r"}, policy=policy, parallel={"sequence": 4}, zero={"stage": stage})


@pytest.mark.parametrize(
    ("sizes", "config", "message"),
    [
        ((2, 1), {"model_type": "gemma3"}, "a model of the type gemma3; layers of llama, mistral, qwen2, qwen3"),
        ((3, 1), {}, "32 attention heads, which 3 ranks cannot share evenly. Set a divisor of 32"),
        ((16, 1), {}, "8 key heads, which 16 ranks"),
        ((8, 1), {"intermediate_size": 12290}, "12290 numbers in its MLP"),
        ((1, 5), {}, "32 attention heads, which 5 ranks"),
        ((2, 32), {}, "16 attention heads on each rank, which 32 ranks"),
        ((1, 6), {"num_attention_heads": 12, "num_key_value_heads": 4}, "neither a divisor nor a multiple"),
        ((2, 1), {"text_config": {**QWEN3, "num_key_value_heads": 3}}, "3 key heads"),
    ],
)
def test_models_whose_heads_cannot_be_dealt_are_refused(
    sizes: tuple[int, int], config: dict[str, Any], message: str
) -> None:
    parallel = ParallelSection(tensor=sizes[0], sequence=sizes[1])
    with pytest.raises(ConfigError, match=message):
        parallel.check_model(QWEN3 | config, "models/m")


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 4), st.integers(1, 4), st.sampled_from(SPLIT_TYPES))
def test_models_are_taken_exactly_if_each_rank_gets_whole_heads(
    keys: int, shared: int, tensor: int, sequence: int, kind: str
) -> None:
    heads = keys * shared
    config = QWEN3 | {"model_type": kind, "num_attention_heads": heads, "num_key_value_heads": keys}
    each, each_keys = heads // tensor, keys // tensor
    fits = heads % tensor == keys % tensor == 0 and each % sequence == 0
    fits = fits and (each_keys % sequence == 0 or sequence % each_keys == 0)
    try:
        ParallelSection(tensor=tensor, sequence=sequence).check_model(config, "m")
    except ConfigError:
        assert not fits
    else:
        assert fits


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 32))
def test_ranks_are_whole_teams(tensor: int, sequence: int, world: int) -> None:
    parallel = ParallelSection(tensor=tensor, sequence=sequence)
    if world % (tensor * sequence) == 0:
        parallel.check_world(world)
        return
    with pytest.raises(ConfigError, match=f"a multiple of {tensor * sequence} ranks"):
        parallel.check_world(world)


@pytest.fixture
def sft_file(tmp_path: Path) -> Path:
    model = build_tiny(tmp_path / "m", ["abc"] * 8, vocab_size=300, layers=1, hidden=96, heads=3, kv_heads=1)
    file = tmp_path / "sft.toml"
    file.write_text(f'[run]\ndir = "{tmp_path / "run"}"\n[policy]\npath = "{model}"\ndtype = "float32"\n')
    return file


def test_commands_refuse_them_before_ranks_start(
    command: Callable[..., int], sft_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    share = ("--set", "parallel.tensor=2")
    for arguments in ((*share, "--num-processes", "2"), ("--num-processes", "3", "--set", "parallel.sequence=2")):
        assert command("sft", str(sft_file), "--set", "policy.attention=varlen", *arguments) == 2
    assert command("plan", str(sft_file), *share, "--num-processes", "2") == 2
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "has 3 attention heads, which 2 ranks cannot share evenly" in printed
    assert "which 2 ranks cannot share evenly. Set a divisor of 3." in printed
    assert not (sft_file.parent / "run" / "records").exists()
