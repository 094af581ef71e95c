"""The longest sequence a model takes: compared with what vLLM itself says about the same config.json."""

import json
import shutil

import pytest
from packaging.version import Version

from warpsmith.policy.loading import read_config
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import ModelTooShortError
from warpsmith.rollout.samplers.vllm.model_length import check_model_length, model_length

LONG = {"max_position_embeddings": 4096}
ORIGINAL = {"original_max_position_embeddings": 2048}
THETA = {"rope_theta": 1e4}


def rope(kind, **keys):
    return {"rope_type": kind, **THETA, **keys}


CONFIGS = {
    "plain": ({}, 4096),
    "default": ({"rope_parameters": rope("default")}, 4096),
    "linear": ({"rope_parameters": rope("linear", factor=2.0)}, 8192),
    "legacy linear": ({"rope_scaling": {"type": "linear", "factor": 4.0}, **THETA}, 16384),
    "dynamic": ({"rope_parameters": rope("dynamic", factor=2.5)}, 10240),
    "llama3": (
        {"rope_parameters": rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **ORIGINAL)}, 4096
    ),
    "longrope": (
        {"rope_parameters": rope("longrope", factor=2.0, short_factor=[1.0] * 16, long_factor=[1.0] * 16, **ORIGINAL)},
        4096,
    ),
    "yarn": ({"rope_parameters": rope("yarn", factor=4.0, **ORIGINAL)}, 4096),
}  # fmt: skip


def changed(tiny_checkpoint, folder, changes):
    """Copy the model's directory with changes to its config.json, which is as vLLM would read it."""
    shutil.copytree(tiny_checkpoint, folder, dirs_exist_ok=True)
    config = {**json.loads((folder / "config.json").read_text()), **LONG}
    if "rope_scaling" in changes:
        config.pop("rope_parameters", None)
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_the_length_is_what_vllm_derives(tiny_checkpoint, tmp_path, name):
    from vllm.config import ModelConfig

    changes, expected = CONFIGS[name]
    folder = changed(tiny_checkpoint, tmp_path / "model", changes)
    assert model_length(read_config(folder)).tokens == expected

    ModelConfig(str(folder), dtype="float32", max_model_len=expected)
    with pytest.raises(ValueError, match=rf"greater than the derived max_model_len .*={expected}"):
        ModelConfig(str(folder), dtype="float32", max_model_len=expected + 1)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, None),
        ({"n_positions": 1024, "seq_length": 512}, 512),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"text_config": {"max_position_embeddings": 77}, "max_position_embeddings": 9}, 77),
        ({"model_type": "gemma3_text", **LONG, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, 4096),
        ({**LONG, "rope_scaling": {"type": "linear", "factor": None}}, 4096),
        ({**LONG, "rope_parameters": {"full_attention": rope("linear", factor=2.0), "sliding": rope("default")}}, 8192),
    ],
)
def test_forms_of_config_json(config, tokens):
    found = model_length(config)
    assert (found and found.tokens) == tokens


def test_older_versions_scale_yarn_by_its_factor():
    config = {**LONG, "rope_parameters": rope("yarn", factor=4.0, **ORIGINAL)}
    assert model_length(config, Version("0.26.0")).tokens == 8192
    assert model_length(config, Version("0.32.0")).tokens == 4096


def test_a_sampler_that_is_longer_than_its_model_is_refused(tiny_checkpoint, tmp_path, monkeypatch):
    folder = changed(tiny_checkpoint, tmp_path / "model", {})
    assert check_model_length(folder, SamplerConfig(max_model_len=4096)).tokens == 4096
    with pytest.raises(
        ModelTooShortError, match=r"is 4097, but .* at most 4096 tokens \(max_position_embeddings"
    ) as error:
        check_model_length(folder, SamplerConfig(max_model_len=4097))
    assert "sampler.max_model_len to 4096 or less" in error.value.remedy
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    check_model_length(folder, SamplerConfig(max_model_len=4097))
