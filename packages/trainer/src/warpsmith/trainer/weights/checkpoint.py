"""Checkpoints: everything needed to resume a run exactly. Each is written atomically.

RUN/checkpoints/step-00000050/
    zero/           model and optimizer, one file a rank (DeepSpeed's format)
    random-0.pt     the random generators of rank 0, and so on
    state.json      Progress, the configuration, the number of ranks, the score, the fingerprint of an adapter's base

A run starts with step-00000000, which has only state.json: its weights are the policy's.
"""

import json
import os
import pickle
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.hub import snapshot_of
from warpsmith.trainer.distributed.lost_peer import is_lost_peer
from warpsmith.trainer.errors import CheckpointError, CheckpointWriteError

if TYPE_CHECKING:
    from warpsmith.trainer.config.grpo import TrainerConfig
    from warpsmith.trainer.config.sft import SftConfig
    from warpsmith.trainer.distributed.ranks import Ranks
    from warpsmith.trainer.distributed.zero_engine import ZeroEngine

STATE = "state.json"
START = "step-00000000"


@dataclass(frozen=True)
class Progress:
    """How far a run has got.

    Attributes:
        step: finished steps; the learning rate depends on it.
        update: optimizer updates made.
        cursor: problems or examples handed out so far; it and the seed determine the next ones.
        weight_version: version of the weights; 0 is the initial policy.
        seconds: wall time over all starts.
        curriculum: state of the curriculum, plain JSON; it and `cursor` determine the next problems.
    """

    step: int = 0
    update: int = 0
    cursor: int = 0
    weight_version: int = 0
    seconds: float = 0.0
    curriculum: Mapping[str, Any] = field(default_factory=dict)


def directory_of(run_dir: Path) -> Path:
    """Return the directory of a run's checkpoints."""
    return run_dir / "checkpoints"


def complete(run_dir: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    return sorted(path for path in directory_of(run_dir).glob("step-*") if (path / STATE).is_file())


def latest(run_dir: Path) -> Path:
    """Return the newest complete checkpoint.

    Raises:
        CheckpointError: there is none.
    """
    found = complete(run_dir)
    if not found:
        raise CheckpointError(
            f"{run_dir} has no checkpoint.", "Use the directory of a run that has one; a new run needs no --resume."
        )
    return found[-1]


def best(run_dir: Path) -> Path:
    """Return the complete checkpoint with the highest score, the newest of equals.

    Raises:
        CheckpointError: there is none with a score.
    """
    scores = {path: read_state(path)["score"] for path in complete(run_dir)}
    scored = [path for path, score in scores.items() if score is not None]
    if not scored:
        raise CheckpointError(
            f"{run_dir} has no checkpoint with a score.", "Take the newest one without --best, or pass a checkpoint."
        )
    return max(scored, key=lambda path: (scores[path], path.name))


def base_of(policy: PolicyConfig) -> str | None:
    """Return the fingerprint of the weights that adapters are trained on; None if every weight is trained."""
    from warpsmith.policy.adapters import fingerprint

    return fingerprint(policy.path) if policy.lora is not None else None


def check_base(path: Path, state: Mapping[str, Any], policy: PolicyConfig) -> None:
    """Reject resuming adapters on other weights than they were trained on, or on weights that contain them.

    Raises:
        CheckpointError: the policy's directory has changed since the checkpoint was written.
    """
    if state["base"] != base_of(policy):
        raise CheckpointError(
            f"{path} has adapters that were not trained on the current weights of {policy.path}.",
            "Restore the weights that the run started with; an exported model already contains the adapters.",
        )


def save(
    run_dir: Path,
    engine: "ZeroEngine",
    ranks: "Ranks",
    progress: Progress,
    *,
    config: Mapping[str, Any],
    keep: int,
    keep_best: int = 0,
    score: float | None = None,
    base: str | None = None,
) -> Path:
    """Write a checkpoint; collective. Then remove all but the newest `keep` and the `keep_best` with the highest score.

    The directory is written under another name, flushed and renamed, so that a kill at any moment leaves either the old
    checkpoints or the old and the new one.

    Raises:
        CheckpointWriteError: the operating system refused to write; the partial checkpoint is removed.
    """
    final = directory_of(run_dir) / f"step-{progress.step:08d}"
    partial = _partial(final)
    with _refusals_typed(final):
        if ranks.drives:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        ranks.barrier()
        engine.save(partial)
        save_random_state(partial / f"random-{ranks.rank}.pt")
        ranks.barrier()
        if ranks.drives:
            _write_state(partial, progress, ranks, config, score=score, base=base)
            if final.exists():
                shutil.rmtree(final)
            partial.rename(final)
            for old in superfluous(run_dir, keep, keep_best):
                # Renamed first: a kill in the middle must not leave a checkpoint that looks complete.
                shutil.rmtree(old.rename(_partial(old)))
    ranks.barrier()
    return final


def set_score(run_dir: Path, step: int, score: float) -> None:
    """Give the checkpoint of a step a score that was found after it was written; rank 0 only.

    Raises:
        CheckpointError: there is no such checkpoint, or it is damaged.
        CheckpointWriteError: the operating system refused to write.
    """
    path = directory_of(run_dir) / f"step-{step:08d}" / STATE
    read_state(path.parent)
    state = json.loads(path.read_text(encoding="utf-8")) | {"score": score}
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(state, indent=2), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise CheckpointWriteError(
            f"{path} could not be written: {_first_line(error)}.", "The checkpoint is whole, but has no score."
        ) from error


def mark_start(run_dir: Path, ranks: "Ranks", config: Mapping[str, Any], base: str | None = None) -> None:
    """Let a run that is killed before its first checkpoint resume from its start; rank 0 only."""
    start = directory_of(run_dir) / START
    partial = _partial(start)
    with _refusals_typed(start):
        partial.mkdir(parents=True, exist_ok=True)
        _write_state(partial, Progress(), ranks, config, score=None, base=base)
        partial.rename(start)


def _write_state(
    partial: Path,
    progress: Progress,
    ranks: "Ranks",
    config: Mapping[str, Any],
    *,
    score: float | None,
    base: str | None,
) -> None:
    state = {
        "progress": asdict(progress), "world": ranks.world, "config": dict(config), "score": score, "base": base
    }  # fmt: skip
    (partial / STATE).write_text(json.dumps(state, indent=2), encoding="utf-8")
    _flush(partial)


def superfluous(run_dir: Path, keep: int, keep_best: int) -> list[Path]:
    """Return the complete checkpoints that are neither among the newest `keep` nor the `keep_best` with highest score.

    The run's start is superfluous once there is another checkpoint.
    """
    found = complete(run_dir)
    if len(found) > 1 and found[0].name == START:
        return [found[0], *_superfluous(found[1:], keep, keep_best)]
    return _superfluous(found, keep, keep_best)


def _superfluous(found: list[Path], keep: int, keep_best: int) -> list[Path]:
    scores = {path: read_state(path)["score"] for path in found} if keep_best else {}
    best = sorted((path for path in scores if scores[path] is not None), key=lambda path: scores[path])[-keep_best:]
    return [path for path in found[:-keep] if path not in best]


def sweep(run_dir: Path) -> None:
    """Remove the remains of checkpoints whose writing or removal was killed; for one process, before any save."""
    for partial in directory_of(run_dir).glob(".step-*.partial"):
        shutil.rmtree(partial)


def _partial(final: Path) -> Path:
    return final.with_name(f".{final.name}.partial")


@contextmanager
def _refusals_typed(final: Path) -> Iterator[None]:
    """Convert a refusal of the operating system to a typed error, and free the space.

    torch raises a RuntimeError if a file cannot be written; the RuntimeError of a lost rank is passed on.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and is_lost_peer(error):
            raise
        free = _free_mib(final)
        shutil.rmtree(_partial(final), ignore_errors=True)
        raise CheckpointWriteError(
            f"The checkpoint {final} could not be written, with {free:.1f} MiB free on its disk: {_first_line(error)}.",
            "Free disk space or fix the directory, then resume from the previous checkpoint with --resume.",
        ) from error


def _free_mib(path: Path) -> float:
    """Return the free space on the disk of a path that may not exist; torch does not report a full disk."""
    return shutil.disk_usage(next(above for above in path.parents if above.is_dir())).free / (1 << 20)


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def load(path: Path, engine: "ZeroEngine", ranks: "Ranks", config: Mapping[str, Any]) -> Progress:
    """Read a checkpoint into the engine and the random generators; collective, before the first forward pass.

    Raises:
        CheckpointError: it is damaged, of another number of ranks, or of an incompatible configuration.
    """
    state = read_state(path)
    if state["world"] != ranks.world:
        raise CheckpointError(
            f"{path} was written by {state['world']} processes; this run has {ranks.world}.",
            f"Resume with --num-processes {state['world']}, or export it and start a new run from the export.",
        )
    refuse_changes(path, state["config"], config)
    progress = Progress(**state["progress"])
    if progress.step:
        engine.load(path)
        load_random_state(path / f"random-{ranks.rank}.pt")
    return progress


def read_state(path: Path) -> dict[str, Any]:
    """Return the contents of state.json.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        Progress(**state["progress"])
        return {
            "progress": state["progress"],
            "world": int(state["world"]),
            "config": dict(state["config"]),
            "score": state.get("score"),
            "base": state.get("base"),
        }
    except FileNotFoundError:
        raise CheckpointError(f"{path} is not a checkpoint: it has no {STATE}.", "Pass a directory step-....") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path / STATE} is damaged: {error!r}.", "Remove that checkpoint and resume from an older one."
        ) from error


# Keys that may differ between a run and its resumption: none of them changes the result of a step.
_FREE = (
    "run.dir", "run.steps", "run.epochs", "run.seconds", "run.torch_threads", "run.cores", "run.console",
    "run.live_json", "run.ray_address", "checkpoint", "wandb", "trackers",
    "held_out", "health", "sync", "evaluator", "placement",
    "rollout.evaluation", "rollout.generate_timeout_s", "rollout.evaluate_timeout_s",
    "rollout.evaluate_wait_s", "rollout.retries", "rollout.sampler.start_timeout_s", "rollout.sampler.update_timeout_s",
    "zero.micro_batch_tokens", "zero.packing",
    "zero.bucket_elements", "zero.timeout_minutes", "policy.gradient_checkpointing", "data.eval_every",
)  # fmt: skip
_BOUND = ("evaluator.language", "evaluator.trials", "evaluator.timeout_s")
"""Keys of free tables that must not differ: prompts or rewards would be others."""


_MODELS = ("policy.path", "algorithm.kl.reference")
"""Keys that name models: one of the hub may lie in another cache when a run is resumed elsewhere."""


def _hub_or_path(path: Any) -> str:
    """Return name and commit of a model in the hub's cache, or the path of another."""
    return str(snapshot_of(path) or path)


_WITHOUT_THE_KEY = {
    "policy.kernels": "torch", "rollout.reward.type": "preset", "curriculum.type": "uniform",
    "rollout.history.form": "whole", "rollout.reward.improvement_weight": 0.0, "rollout.reward.regression_weight": 0.0,
    "rollout.reward.turn_weights": [], "rollout.reward.min_kernel_share": 0.0,
    "rollout.reward.kernel_share_weight": 0.0, "rollout.reward.bound_weight": 0.0, "rollout.reward.baseline": None,
    "rollout.feedback.baselines": False, "rollout.feedback.bound": False, "rollout.feedback.kernels": False,
    "rollout.feedback.traffic": False,
    "rollout.sampler.lora_agents": [], "rollout.sampler.compile_model": True, "evaluator.language": "triton",
    "data.source.language": "triton", "data.source.timed": True,
    "parallel.tensor": 1, "parallel.sequence": 1, "data.source.repair_share": 0.0, "data.source.repair_attempts": 1,
}  # fmt: skip
"""Values that checkpoints older than these configuration keys were trained with."""


def refuse_changes(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Reject resuming with a configuration that would train something else.

    The name may be left out, as `under_recorded_name` fills it in.

    Raises:
        CheckpointError: names each changed key with both values.
    """
    before, after = _WITHOUT_THE_KEY | dict(_flat(old)), _WITHOUT_THE_KEY | dict(_flat(new))
    for values in (before, after):
        values.update({key: _hub_or_path(values[key]) for key in _MODELS if values.get(key) is not None})
    before["run.name"] = _recorded_name(old)
    after["run.name"] = after.get("run.name") or before["run.name"]
    # Under other schedules the learning rate depends on the total number of updates.
    steady = before.get("optimizer.schedule.type") == "constant" and not before.get("optimizer.warmup_ratio")
    free = [key for key in _FREE if steady or key not in ("run.steps", "run.epochs")]
    changed = [
        f"{key} was {before.get(key)!r} and is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and (key in _BOUND or not any(_is_under(key, name) for name in free))
    ]
    if changed:
        raise CheckpointError(
            f"{path} has another configuration: {'; '.join(changed)}.",
            "Resume with the values it was written under, or start a new run in another directory.",
        )


_Config = TypeVar("_Config", "SftConfig", "TrainerConfig")


def under_recorded_name(config: _Config) -> _Config:
    """Return the configuration of a resumed run with the name in its records; every rank.

    The name is part of each record's key: in a directory that was moved or copied since, the default, which is the
    directory's name, would record every step again under another key.
    """
    name = _recorded_name(read_state(latest(config.run.dir))["config"])
    return config.model_copy(update={"run": config.run.model_copy(update={"name": name})})


def _recorded_name(config: Mapping[str, Any]) -> str:
    run = config.get("run", {})
    return run.get("name") or Path(run.get("dir", "")).name


def _is_under(key: str, name: str) -> bool:
    """Whether a dotted key is `name`, or is in the table of that name."""
    return key == name or key.startswith(f"{name}.")


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


DAMAGED = (
    OSError, RuntimeError, EOFError, LookupError, TypeError, ValueError, AttributeError, pickle.UnpicklingError,
)  # fmt: skip
"""Errors of torch.load on a truncated or overwritten file, and of using unexpected contents."""


def save_random_state(path: Path) -> None:
    import numpy as np
    import torch

    kind, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, torch.from_numpy(np.asarray(keys)), position, has_gauss, cached),
        "python": random.getstate(),
    }
    torch.save(state, path)


def load_random_state(path: Path) -> None:
    """Restore the random generators from a file written by `save_random_state`.

    Raises:
        CheckpointError: the file is missing, damaged or not one of those.
    """
    import numpy as np
    import torch

    try:
        state = torch.load(path, weights_only=True)
        torch.set_rng_state(state["torch"])
        if state["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, keys.numpy(), *rest))
        random.setstate(state["python"])
    except DAMAGED as error:
        raise CheckpointError(
            f"{path} cannot be read: {type(error).__name__}, {_first_line(error)}.",
            "Resume from an older checkpoint: remove this one.",
        ) from error


def _flush(directory: Path) -> None:
    """Flush every file to disk before the rename makes it visible."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
