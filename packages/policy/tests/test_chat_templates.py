"""Templates for models without one. Their masks are among the formats of `test_chat.py`."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from warpsmith.policy.cli import main
from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.errors import TemplateError
from warpsmith.policy.loading import Policy, chat_of, load_chat, load_policy

TALK = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "def add(x, y):"}]
SPACED = (
    "{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + ' says\n' + m['content'] + '<|im_end|>' -}}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant says\n' -}}{%- endif -%}"
)


@pytest.fixture
def base(tmp_path, tiny_dir) -> Path:
    """A model as pretraining leaves it: without a chat template."""
    directory = shutil.copytree(tiny_dir, tmp_path / "base")
    (directory / "chat_template.jinja").unlink()
    return directory


def test_a_model_without_a_template_says_which_setting_gives_one(base):
    with pytest.raises(TemplateError, match="has no chat template") as caught:
        load_policy(base)
    assert "Set policy.chat_template to qwen, llama3, chatml or a file" in caught.value.remedy


@pytest.mark.parametrize(
    ("template", "header"), [("chatml", "assistant\n"), ("qwen", "assistant\n"), ("file", "assistant says\n")]
)
def test_a_template_by_name_or_file_is_used_and_exported(base, tmp_path, template, header):
    (tmp_path / "spaced.jinja").write_text(SPACED)
    given = str(tmp_path / "spaced.jinja") if template == "file" else template
    config = PolicyConfig(path=base, dtype="float32", chat_template=given)
    policy = Policy.from_config(config)
    assert policy.chat.generation_prompt == f"<|im_start|>{header}"
    assert chat_of(config).loss_mask(TALK) == policy.chat.loss_mask(TALK)
    saved = load_policy(policy.save(tmp_path / "saved"))
    assert saved.chat.generation_prompt == policy.chat.generation_prompt
    assert saved.chat.loss_mask(TALK) == policy.chat.loss_mask(TALK)


def test_thoughts_are_turned_off_by_a_variable(base):
    chat = load_chat(base, {"enable_thinking": False}, "qwen")
    assert chat.generation_prompt == "<|im_start|>assistant\n<think>\n\n</think>\n\n"


def test_it_replaces_the_models_own(tiny_dir, tmp_path):
    (tmp_path / "spaced.jinja").write_text(SPACED)
    chat = load_chat(tiny_dir, None, str(tmp_path / "spaced.jinja"))
    assert chat.generation_prompt == "<|im_start|>assistant says\n"


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("llama3", r"The chat template llama3 writes <\|start_header_id\|>, .* the tokenizer has no such token"),
        ("qwen9", r"The chat template qwen9 does not exist"),
    ],
)
def test_a_template_that_cannot_be_used(base, template, cause):
    with pytest.raises(TemplateError, match=cause) as caught:
        load_chat(base, None, template)
    assert "qwen, llama3, chatml" in caught.value.remedy


def test_inspect_and_mask_take_one(base, tmp_path, capsys, monkeypatch):
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(TALK))
    for arguments in (["inspect", base], ["mask", base, chat]):
        command = ["warpsmith-policy", *map(str, arguments), "--chat-template", "chatml", "--json"]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        assert json.loads(capsys.readouterr().out)
