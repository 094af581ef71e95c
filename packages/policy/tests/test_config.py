"""Settings: strict names, sane defaults, sizes that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.policy import LoraSettings, PolicyConfig, TinySettings
from warpsmith.policy.config import VLLM_CPU_HEAD_DIMS


def test_a_misspelt_key_is_an_error():
    with pytest.raises(ValidationError, match="dtpye"):
        PolicyConfig(path="m", dtpye="float32")


@pytest.mark.parametrize(
    "changes",
    [{"dtype": "int8"}, {"attention": "magic"}, {"kernels": "magic"}, {"lora": {"rank": 0}}, {"path": None}],
)
def test_values_that_are_none(changes):
    with pytest.raises(ValidationError):
        PolicyConfig.model_validate({"path": "m", **changes})


def test_it_survives_json():
    config = PolicyConfig(path="m", lora=LoraSettings(rank=8), template_kwargs={"enable_thinking": False})
    assert PolicyConfig.model_validate_json(config.model_dump_json()) == config


@given(hidden=st.integers(32, 2048), heads=st.integers(1, 64), kv_heads=st.integers(1, 64))
def test_sizes_fit_or_are_refused(hidden, heads, kv_heads):
    fits = hidden % heads == 0 and hidden // heads in VLLM_CPU_HEAD_DIMS and heads % kv_heads == 0
    try:
        settings = TinySettings(hidden=hidden, heads=heads, kv_heads=kv_heads)
    except ValidationError:
        assert not fits
        return
    assert fits
    assert settings.head_dim * heads == hidden
    assert settings.intermediate % 64 == 0
    assert 0 <= settings.intermediate - hidden * 8 / 3 < 65
