"""From a checkpoint to a Hugging Face directory, without the ranks that wrote it."""

from pathlib import Path

from warpsmith.trainer import checkpoint
from warpsmith.trainer.errors import CheckpointError


def consolidate(source: Path, target: Path) -> Path:
    """Write the weights of a checkpoint, of any ZeRO stage and number of ranks, as a Hugging Face directory.

    Args:
        source: a checkpoint, or a run's directory (its newest checkpoint is taken).
        target: the directory to make; it must not exist or be empty.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    path = source if (source / checkpoint.STATE).is_file() else checkpoint.latest(source)
    state = checkpoint.read_state(path)
    from warpsmith.policy.loading import Policy

    policy = Policy.load(state["config"]["policy"]["path"], dtype=state["config"]["policy"]["dtype"])
    if state["progress"]["step"] == 0:
        return policy.save(target)
    policy.model.load_state_dict(_weights(path, state["config"]["zero"]["stage"]), strict=False)
    return policy.save(target)


def _weights(path: Path, stage: int) -> "dict[str, object]":
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    try:
        if stage == 0:
            return dict(torch.load(path / "zero" / "mp_rank_00_model_states.pt", weights_only=False)["module"])
        return dict(get_fp32_state_dict_from_zero_checkpoint(str(path), tag="zero"))
    except (OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.", "Export an older checkpoint.") from error
