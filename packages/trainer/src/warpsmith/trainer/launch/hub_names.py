"""Models that a configuration names on the hub, resolved to directories once, before ranks start."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import typer

from warpsmith.policy import hub
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import CheckpointError
from warpsmith.trainer.weights import checkpoint

C = TypeVar("C", SftConfig, TrainerConfig)


def with_local_models(
    config: C, *, resume: bool, say: Callable[[str], None] = lambda step: typer.echo(step, err=True)
) -> tuple[C, list[str]]:
    """Return the configuration with directories instead of hub names, and overrides that give ranks the same.

    A model is downloaded if it is not in the hub's cache. A resumed run takes the commits that it began with, unless
    `policy.revision` names another commit, which a later check refuses.

    Raises:
        policy's FetchError: the hub has no such model or revision, or cannot be reached.
        policy's CheckpointError: `policy.revision` is given for a directory.
    """
    began = _recorded(config.run.dir) if resume else {}
    policy = config.policy
    path = _local(policy.path, policy.revision, began.get("policy", {}).get("path"), say)
    overrides: list[str] = []
    if path != policy.path:
        overrides = [_override("policy.path", path), _override("policy.revision", path.name)]
        config = config.model_copy(update={"policy": policy.model_copy(update={"path": path, "revision": path.name})})
    if isinstance(config, SftConfig) or config.algorithm.kl is None or config.algorithm.kl.reference is None:
        return config, overrides
    named = config.algorithm.kl.reference
    reference = _local(named, None, ((began.get("algorithm") or {}).get("kl") or {}).get("reference"), say)
    if reference == named:
        return config, overrides
    divergence = config.algorithm.kl.model_copy(update={"reference": reference})
    algorithm = config.algorithm.model_copy(update={"kl": divergence})
    return config.model_copy(update={"algorithm": algorithm}), [
        *overrides,
        _override("algorithm.kl.reference", reference),
    ]


def _override(key: str, value: Path | str) -> str:
    """Return an override in TOML; without quotes a commit of digits alone would be a number."""
    return f"{key}={json.dumps(str(value))}"


def _local(path: Path, revision: str | None, began: Any, say: Callable[[str], None]) -> Path:
    """Return the directory of a model, of the commit that a run began with if it began with this model."""
    known = None if began is None else hub.snapshot_of(began)
    if known is not None and known.name == hub.hub_name(path) and not hub.is_commit(revision):
        revision = known.commit
    return hub.local_directory(path, revision, say=say)


def _recorded(run_dir: Path) -> Mapping[str, Any]:
    """Return the configuration of a run's newest checkpoint; without one a later check says so."""
    try:
        recorded = checkpoint.read_state(checkpoint.latest(run_dir))["config"]
    except CheckpointError:
        return {}
    return recorded if isinstance(recorded, dict) else {}
