"""Overrides in TOML's syntax, and errors that name the near key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import RolloutConfig, SamplerConfig
from warpsmith.rollout.samplers.vllm import settings as vllm_settings
from warpsmith.rollout.settings import explained, override


def told(**values) -> str:
    with pytest.raises(ValidationError) as caught:
        RolloutConfig.model_validate(values)
    return explained(RolloutConfig, caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ('["a", "b"]', ["a", "b"]), ("plain", "plain"), ("/a/b=c", "/a/b=c")],
)
def test_a_value_is_read_as_toml_or_else_as_text(text, value):
    values = {}
    assert override(values, f" a . b ={text}") == "a.b"
    assert values == {"a": {"b": value}}


@given(st.text(max_size=20))
def test_any_text_is_set_or_refused_in_a_sentence(text):
    values = {"a": 1}
    try:
        override(values, text)
    except UsageError as error:
        assert str(error).startswith("--set ")
        assert error.remedy
    else:
        assert "=" in text


def test_a_value_is_no_table():
    with pytest.raises(UsageError, match="`a` is a value, not a table"):
        override({"a": 1}, "a.b=2")


def test_an_unknown_key_names_the_near_one_or_all():
    assert told(max_turn=3) == "unknown key `max_turn` in [top level]; did you mean `max_turns`?"
    assert told(evaluation={"type": "ray", "actor": 2}) == "unknown key `actor` in [evaluation]; did you mean `actors`?"
    assert "its keys are " in told(evaluation={"zzz": 1})


def test_every_cause_is_told_in_one_sentence():
    text = told(max_turns="many", gama=0.4)
    assert "`max_turns`: Input should be a valid integer" in text
    assert "did you mean `gamma`?" in text
    assert text.count("; ") >= 1


@pytest.mark.parametrize(
    ("device", "environment", "found"),
    [("cpu", {}, "1"), ("cpu", {"TORCH_COMPILE_DISABLE": "0"}, "0"), ("cuda", {}, None)],
)
def test_a_sampler_on_a_cpu_compiles_nothing_unless_the_user_says_so(monkeypatch, device, environment, found):
    monkeypatch.setattr(vllm_settings.os, "environ", environment)
    vllm_settings.set_environment(SamplerConfig(device=device))
    assert environment.get("TORCH_COMPILE_DISABLE") == found
