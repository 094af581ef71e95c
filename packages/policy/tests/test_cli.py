"""The console command, in a process of its own where the exit code and stderr matter."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpsmith.policy.cli import app, main

CHAT = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "def add(x, y):\n"}]


@pytest.fixture
def chat_file(tmp_path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    return path


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsmith.policy", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def invoke(*arguments: object):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_new_tiny_then_inspect(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("def add(x, y):\n    return x + y\n" * 3)
    sizes = ["--vocab-size", 300, "--layers", 1, "--hidden", 64, "--heads", 2, "--kv-heads", 1]
    invoke("new-tiny", tmp_path / "m", "--corpus", corpus, "--corpus", corpus, *sizes)
    facts = json.loads(invoke("inspect", tmp_path / "m", "--json").output)
    assert facts["architecture"] == "Qwen3ForCausalLM"
    assert facts["num_hidden_layers"] == 1
    assert facts["stop tokens"] == ["<|im_end|>"]
    assert facts["generation prompt"] == "<|im_start|>assistant\n"
    assert facts["keeps earlier turns"] is True


def test_inspect_marks_what_carries_loss(tiny_dir):
    output = invoke("inspect", tiny_dir).output
    assert "[def add(x, y):\n    return x + y<|im_end|>]" in output
    assert "[import triton<|im_end|>]" in output
    assert output.count("[") - output.count('["') == 2


def test_inspect_warns_of_a_stop_that_is_plain_text(tmp_path, tiny_dir):
    copy = shutil.copytree(tiny_dir, tmp_path / "m")
    template = (copy / "chat_template.jinja").read_text()
    assert "<|im_end|>" in template
    (copy / "chat_template.jinja").write_text(template.replace("<|im_end|>", "### End"))
    output = " ".join(invoke("inspect", copy).output.split())
    assert (
        "warning: The chat template writes no stop token after an answer: plain text ('### End') follows it." in output
    )
    assert "are in brackets" not in output
    facts = json.loads(invoke("inspect", copy, "--json").output)
    assert any("no stop token" in warning for warning in facts["warnings"])
    assert json.loads(invoke("inspect", tiny_dir, "--json").output)["warnings"] == []


def test_mask_agrees_with_the_chat_format(tiny_dir, chat_file, chat_of):
    chat = chat_of("tiny")
    got = json.loads(invoke("mask", tiny_dir, chat_file, "--json").output)
    ids, mask = chat.loss_mask(CHAT)
    assert (got["ids"], got["mask"]) == (ids, mask)
    assert "".join(got["tokens"]) == chat.render(CHAT)


def test_mask_as_a_table(tiny_dir, chat_file, chat_of):
    lines = invoke("mask", tiny_dir, chat_file).output.splitlines()
    _, mask = chat_of("tiny").loss_mask(CHAT)
    assert lines[-1] == f"{sum(mask)} of {len(mask)} tokens are trained."


@pytest.mark.parametrize("name", ["new-tiny", "inspect", "mask", "fetch", "fetch-smollm2", "convert"])
def test_help_shows_an_example(name):
    assert f"warpsmith-policy {name} " in invoke(name, "--help").output


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["inspect", "{tmp}/none"], "does not exist"),
        (["mask", "{tiny}", "{tmp}/none.json"], "cannot be read as JSON"),
        (["mask", "{tiny}", "{tmp}/object.json"], "is not a JSON list"),
        (["mask", "{tiny}", "{tmp}/turns.json"], "no text under 'content'"),
        (["new-tiny", "{tmp}/m", "--corpus", "{tmp}/none.txt"], "corpus"),
        (["new-tiny", "{tmp}/m", "--corpus", "{tmp}/turns.json", "--heads", "5"], "hidden / heads"),
        (["fetch-smollm2", "{tmp}/m", "--dtype", "int3"], "Unknown dtype int3"),
    ],
)
def test_bad_input_is_one_paragraph(tmp_path, tiny_dir, capsys, monkeypatch, arguments, cause):
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "turns.json").write_text('[{"role": "user"}]')
    given = [argument.format(tmp=tmp_path, tiny=tiny_dir) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["warpsmith-policy", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert cause in " ".join(printed[printed.index("error:") :].split())


def test_the_process_ends_as_the_command_does(tmp_path, tiny_dir):
    (tmp_path / "object.json").write_text("{}")
    done = command("mask", tiny_dir, tmp_path / "object.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error:")
    assert "is not a JSON list" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_help_and_config_import_no_torch():
    script = (
        "import sys\n"
        "import warpsmith.policy, warpsmith.policy.config, warpsmith.policy.cli, warpsmith.policy.errors\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'peft', 'numpy', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "warpsmith.policy.PolicyConfig(path='x')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
