"""Models by name, from a server that speaks the hub's routes; each command in a process with a cache of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import Hub, served

from warpsmith.policy.errors import CheckpointError
from warpsmith.policy.hub import HubModel, hub_name, local_directory, recorded, snapshot_of
from warpsmith.policy.loading import load_policy

NAME, OLD, NEW = "owner/tiny", "1" * 40, "2" * 40


@pytest.fixture
def hub(tiny_dir):
    """A hub with two commits of the tiny model; beside it weights of another format and a folder, as releases have."""
    files = {path.name: path.read_bytes() for path in tiny_dir.iterdir()}
    files |= {"pytorch_model.bin": b"other weights", "original/params.json": b"{}", "README.md": b"# tiny"}
    models = {(NAME, OLD): files, (NAME, NEW): {**files, "note.json": b"{}"}}
    with served(Hub(models, {(NAME, "main"): NEW, (NAME, "v1"): OLD})) as hub:
        yield hub


def command(hub_url: str, cache: Path, *arguments: object, **changed: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "HF_ENDPOINT": hub_url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", **changed,
    }  # fmt: skip
    environment.pop("HF_HUB_OFFLINE", None)
    return subprocess.run(
        [sys.executable, "-m", "warpsmith.policy", *map(str, arguments)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip


def message_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    text = done.stderr[done.stderr.index("error:") :]
    assert "\n\n" not in text.strip()
    assert "Traceback" not in done.stderr
    return " ".join(text.split())


def test_fetch_takes_what_a_model_is_loaded_from_and_records_the_commit(hub, tmp_path, tiny_dir):
    done = command(hub.url, tmp_path / "cache", "fetch", NAME, tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert f"downloading {NAME}@{NEW}" in done.stderr
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert names == {path.name for path in tiny_dir.iterdir()} | {"hub.json", "note.json"}
    assert recorded(tmp_path / "m") == HubModel(NAME, NEW)
    assert load_policy(tmp_path / "m").chat.generation_prompt == "<|im_start|>assistant\n"
    assert not (tmp_path / "m" / "config.json").is_symlink()
    # A second directory needs no download.
    hub.asked.clear()
    assert command(hub.url, tmp_path / "cache", "fetch", NAME, tmp_path / "n").returncode == 0
    assert not [path for method, path, _ in hub.asked if method == "GET" and "/resolve/" in path]


def test_an_interrupted_download_is_continued(hub, tmp_path):
    weights = hub.models[NAME, OLD]["model.safetensors"]
    hub.room = len(weights) // 3
    done = command(hub.url, tmp_path / "cache", "fetch", NAME, tmp_path / "m", "--revision", "v1")
    assert "repeat the command: what has arrived is kept" in message_of(done)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    asked = [asked for method, path, asked in hub.asked if method == "GET" and path.endswith("model.safetensors")]
    assert asked[0] == "bytes=0-"
    hub.room = None
    hub.asked.clear()
    done = command(hub.url, tmp_path / "cache", "fetch", NAME, tmp_path / "m", "--revision", "v1")
    assert done.returncode == 0, done.stderr
    asked = [asked for method, path, asked in hub.asked if method == "GET" and path.endswith("model.safetensors")]
    assert asked == [f"bytes={len(weights) // 3}-"]
    assert recorded(tmp_path / "m") == HubModel(NAME, OLD)
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["owner/none"], "the hub has no model of that name"),
        ([NAME, "--revision", "v9"], f"{NAME} has no revision v9"),
        (["tiny"], "tiny is not a name on the hub"),
    ],
)
def test_what_the_hub_has_not_is_one_paragraph(hub, tmp_path, arguments, cause):
    name, *options = arguments
    assert cause in message_of(command(hub.url, tmp_path / "cache", "fetch", name, tmp_path / "m", *options))
    assert not (tmp_path / "m").exists()


SCRIPT = "import sys; from warpsmith.policy.hub import local_directory as d; print(d(*sys.argv[1:]))"


def resolved(hub_url: str, cache: Path, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub_url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", **changed}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_a_name_is_one_commit_from_then_on(hub, tmp_path):
    first = resolved(hub.url, tmp_path / "cache", NAME)
    directory = Path(first.stdout.strip())
    assert snapshot_of(directory) == HubModel(NAME, NEW)
    assert load_policy(directory).path == directory
    # The branch moves; who asks for the commit gets it, without a network too.
    hub.branches[NAME, "main"] = OLD
    for changed in ({}, {"HF_HUB_OFFLINE": "1"}):
        assert resolved(hub.url, tmp_path / "cache", NAME, NEW, **changed).stdout == first.stdout
    # Without a network a branch is what it was when it was last asked for.
    assert resolved("http://127.0.0.1:9", tmp_path / "cache", NAME).stdout == first.stdout
    # On another machine the directory of a cache is found by its name.
    moved = str(directory).replace(str(tmp_path / "cache"), str(tmp_path / "elsewhere"))
    again = resolved(hub.url, tmp_path / "elsewhere", moved)
    assert snapshot_of(again.stdout.strip()) == HubModel(NAME, NEW), again.stderr


def test_without_a_network_and_a_cache_there_is_one_paragraph(tmp_path):
    error = message_of(command("http://127.0.0.1:9", tmp_path / "cache", "fetch", NAME, tmp_path / "m"))
    assert f"There is no directory {NAME} here, and it could not be downloaded" in error
    assert "Without a network, copy the model's directory here" in error
    assert not (tmp_path / "m").exists()


def test_a_directory_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hub_name("owner/tiny") == "owner/tiny"
    assert hub_name("owner/tiny/final_model") is None
    assert hub_name("/owner/tiny") is None
    assert hub_name("../tiny") is None
    (tmp_path / "owner").mkdir()
    assert hub_name("owner/tiny") is None, "a wrong path below a folder that is there"
    (tmp_path / "owner" / "tiny").mkdir()
    assert local_directory("owner/tiny") == Path("owner/tiny")
    with pytest.raises(CheckpointError, match=r"The revision v1 is given for owner/tiny"):
        local_directory("owner/tiny", "v1")


def test_a_damaged_record_is_named(tmp_path):
    assert recorded(tmp_path) is None
    (tmp_path / "hub.json").write_text(json.dumps({"name": NAME}))
    with pytest.raises(CheckpointError, match=r"hub\.json is damaged"):
        recorded(tmp_path)
