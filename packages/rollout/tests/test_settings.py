"""Settings: overrides in TOML's syntax, errors that name what was meant, and a schema that shows every choice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records.errors import UsageError
from warpsmith.rollout.config import RolloutConfig, SamplerConfig, SessionConfig
from warpsmith.rollout.samplers.vllm import settings as vllm_settings
from warpsmith.rollout.settings import SettingsError, changed, checked, describe, json_schema


def message_of(**values) -> str:
    with pytest.raises(SettingsError) as caught:
        checked(RolloutConfig, values)
    return str(caught.value)


def set_(values, text):
    return changed(RolloutConfig, values, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ('["a", "b"]', ["a", "b"]), ("plain", "plain"), ("/a/b=c", "/a/b=c")],
)
def test_a_value_is_read_as_toml_or_else_as_text(text, value):
    values = {}
    assert set_(values, f" a . b ={text}") == "a.b"
    assert values == {"a": {"b": value}}


@given(st.text(max_size=20))
def test_any_text_is_set_or_refused_in_a_sentence(text):
    values = {"a": 1}
    try:
        set_(values, text)
    except UsageError as error:
        assert str(error).startswith("--set ")
        assert error.remedy
    else:
        assert "=" in text


def test_a_value_is_no_table():
    with pytest.raises(UsageError, match="`a` is a value, not a table"):
        set_({"a": 1}, "a.b=2")


def test_unset_removes_a_key_or_a_table_that_there_can_be():
    values = {"sampler": {"seed": 3, "dtype": "float32"}, "sampling": {"top_p": 0.5}}
    set_(values, "sampler.seed=unset")
    set_(values, "sampling=unset")
    set_(values, "prompt_tokens=unset")
    assert values == {"sampler": {"dtype": "float32"}}
    with pytest.raises(UsageError, match=r"there is no key or table `sampler\.sed`"):
        set_(values, "sampler.sed=unset")


def test_an_unknown_key_names_the_near_one_or_all():
    assert message_of(concurency=3) == "unknown key `concurency` in [top level]; did you mean `concurrency`?"
    assert (
        message_of(evaluation={"type": "ray", "actor": 2})
        == "unknown key `actor` in [evaluation]; did you mean `actors`?"
    )
    assert "its keys are " in message_of(evaluation={"zzz": 1})


def test_a_key_of_another_table_is_placed():
    assert message_of(max_turns=2).endswith("did you mean `environment.max_turns`?")
    assert message_of(sampling={"dtype": "float32"}).endswith("did you mean `sampler.dtype`?")


def test_every_cause_is_named_in_one_sentence():
    text = message_of(concurrency="many", gama=0.4)
    assert "`concurrency`: Input should be a valid integer" in text
    assert "did you mean `gamma`?" in text
    assert text.count("; ") >= 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"concurrency": "64"}, '`concurrency`: "64" is text; write 64, without quotes'),
        ({"gamma": "0.4"}, '`gamma`: "0.4" is text; write 0.4, without quotes'),
        ({"leave_out_unvaried": "True"}, '`leave_out_unvaried`: "True" is text; write true, without quotes'),
        ({"leave_out_unvaried": "yes"}, '"yes" is text; write true or false, without quotes'),
        ({"sampler": {"max_model_len": "4096"}}, '`sampler.max_model_len`: "4096" is text; write 4096'),
        ({"evaluation": {"type": "ray", "actors": "2"}}, '`evaluation.actors`: "2" is text; write 2'),
        ({"environment": {"max_turns": "2"}}, '`environment.max_turns`: "2" is text; write 2'),
        ({"reward": {"speedup_cap": "1e1"}}, '`reward.speedup_cap`: "1e1" is text; write 1e1'),
        ({"sampler": {"cpu_bind": 0}}, '`sampler.cpu_bind`: Input should be a valid string; write "0", in quotes'),
    ],
)
def test_numbers_and_booleans_in_quotes_are_refused_and_texts_without(values, says):
    text = message_of(**values)
    assert says in text
    assert text.count("`: ") == 1, "one cause is named once"


def test_texts_that_look_like_numbers_are_taken_where_texts_are():
    made = checked(RolloutConfig, {"sampler": {"cpu_bind": "0"}, "reward": {"type": "function", "path": "a:b"}})
    assert made.sampler.cpu_bind == "0"


def test_a_session_refuses_what_it_would_not_read():
    for values, says in (
        ({"samplers": 2}, "samplers: this command starts one"),
        ({"sampler": {"lora_rank": 8}}, "sampler.lora_rank"),
        ({"evaluation": {"type": "server", "servers": ["http://a:1"]}, "evaluator": {"slots": 2}}, "evaluator.slots"),
    ):
        with pytest.raises(SettingsError, match=says):
            checked(SessionConfig, values)


def test_the_schema_shows_choices_also_those_of_registries_with_units():
    lines = list(describe(SessionConfig))
    by_key = {line.partition(" = ")[0]: line for line in lines if " = " in line}
    assert 'dtype = "bfloat16"' in by_key["dtype"]
    assert '"float32" | "bfloat16" | "float16". ' in by_key["dtype"]
    assert '# "in_process" | "shared_file". ' in by_key["transport"]
    assert "# integer >= 16, tokens. " in by_key["max_model_len"]
    assert "# number > 0, s. " in by_key["evaluate_wait_s"]
    assert "# true | false. " in by_key["enforce_eager"]
    for header in ('[environment]  # type = "kernelbench_multiturn", the default', '[evaluation]  # type = "ray"'):
        assert header in lines
    assert any(line.startswith("[reward]  # type = other: none is installed") for line in lines)


def test_the_json_schema_has_choices_and_units():
    sampler = json_schema(SessionConfig)["$defs"]["SamplerConfig"]["properties"]
    assert sampler["type"]["enum"] == ["vllm"]
    assert {"in_process", "shared_file"} == set(sampler["transport"]["anyOf"][0]["enum"])
    assert (sampler["max_model_len"]["unit"], sampler["start_timeout_s"]["unit"]) == ("tokens", "s")
    json.dumps(sampler)


@pytest.mark.parametrize(
    ("device", "environment", "found"),
    [("cpu", {}, "1"), ("cpu", {"TORCH_COMPILE_DISABLE": "0"}, "0"), ("cuda", {}, None)],
)
def test_a_sampler_on_a_cpu_compiles_nothing_unless_the_user_says_so(monkeypatch, device, environment, found):
    monkeypatch.setattr(vllm_settings.os, "environ", environment)
    vllm_settings.set_environment(SamplerConfig(device=device))
    assert environment.get("TORCH_COMPILE_DISABLE") == found


def test_a_deadline_leaves_time_to_compile_the_baselines():
    compiled = {"evaluator": {"baseline": "eager,compile,compile_max_autotune", "baseline_timeout_s": 100.0}}
    with pytest.raises(
        SettingsError, match=r"evaluate_timeout_s \(180\).* may take 230 s, since it compiles compile, comp"
    ):
        checked(SessionConfig, compiled)
    assert checked(SessionConfig, {**compiled, "evaluate_timeout_s": 230.0})
    assert checked(SessionConfig, {"evaluator": {"baseline": "eager", "baseline_timeout_s": 500.0}})
