"""Hub names in a configuration, with the model in the hub's cache and no network."""

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from warpsmith.policy.errors import FetchError
from warpsmith.trainer.config import SftConfig
from warpsmith.trainer.config.load import with_overrides
from warpsmith.trainer.errors import CheckpointError
from warpsmith.trainer.launch.hub_names import with_local_models
from warpsmith.trainer.planning.shapes import shape_of
from warpsmith.trainer.weights import checkpoint

NAME, OLD, NEW = "owner/tiny", "1" * 40, "2" * 40


@pytest.fixture
def cache(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with two commits of a model; the hub itself cannot be reached."""
    model = tmp_path / "cache" / "models--owner--tiny"
    for commit in (OLD, NEW):
        shutil.copytree(tiny, model / "snapshots" / commit)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(OLD)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return model


def config_of(run: Path, **policy: str) -> SftConfig:
    return SftConfig(run={"dir": run}, policy={"path": NAME, **policy})


def begin(run: Path, config: SftConfig) -> None:
    """Leave what a run writes before its first step."""
    path = checkpoint.directory_of(run) / "step-00000000"
    path.mkdir(parents=True)
    state = {"progress": {"step": 0}, "world": 1, "config": config.model_dump(mode="json"), "score": None}
    (path / checkpoint.STATE).write_text(json.dumps(state))


def test_a_name_becomes_a_directory_for_this_process_and_its_ranks(cache: Path, tmp_path: Path) -> None:
    config, overrides = with_local_models(config_of(tmp_path / "run"), resume=False)
    assert config.policy.path == cache / "snapshots" / OLD
    # A rank has these and finds nothing to do.
    config_of_rank = with_overrides(
        SftConfig, {"run": {"dir": str(tmp_path / "run")}, "policy": {"path": NAME}}, overrides
    )
    assert config_of_rank == config
    assert with_local_models(config_of_rank, resume=False) == (config, [])
    assert shape_of(config.policy.path).layers > 0


def test_a_resumed_run_keeps_its_commit(cache: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    began, _ = with_local_models(config_of(run), resume=False)
    begin(run, began)
    (cache / "refs" / "main").write_text(NEW)
    assert with_local_models(config_of(run), resume=False)[0].policy.revision == NEW
    resumed, _ = with_local_models(config_of(run), resume=True)
    assert resumed.policy == began.policy
    named, _ = with_local_models(config_of(run, revision=NEW), resume=True)
    with pytest.raises(CheckpointError, match=rf"policy\.path was 'owner/tiny@{OLD}' and is 'owner/tiny@{NEW}'"):
        checkpoint.refuse_changes(run, began.model_dump(mode="json"), named.model_dump(mode="json"))


def test_a_run_is_resumed_with_another_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    began, _ = with_local_models(config_of(run), resume=False)
    begin(run, began)
    shutil.move(tmp_path / "cache", tmp_path / "moved")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "moved"))
    resumed, _ = with_local_models(config_of(run), resume=True)
    assert resumed.policy.path.is_relative_to(tmp_path / "moved")
    checkpoint.refuse_changes(run, began.model_dump(mode="json"), resumed.model_dump(mode="json"))


def test_what_neither_cache_nor_network_has(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(FetchError, match="There is no directory owner/other here, and it could not be downloaded"):
        with_local_models(config_of(tmp_path / "run", path="owner/other"), resume=False)
