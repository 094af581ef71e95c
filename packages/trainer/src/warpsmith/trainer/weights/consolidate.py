"""Exports a checkpoint as a Hugging Face directory, without the ranks that wrote it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.hub import local_directory
from warpsmith.records.errors import UsageError
from warpsmith.trainer.errors import CheckpointError
from warpsmith.trainer.weights import checkpoint

if TYPE_CHECKING:
    import torch

    from warpsmith.policy.loading import Policy

Form = Literal["model", "adapter"]


def consolidate(source: Path, target: Path, *, form: Form = "model", best: bool = False) -> Path:
    """Write the weights of a checkpoint, of any ZeRO stage and number of ranks, as a Hugging Face directory.

    Args:
        source: a checkpoint, or a run's directory, for its newest checkpoint.
        target: the directory to create; it must be absent or empty.
        form: `model` writes complete weights with adapters added; `adapter` only the adapters, in peft's format. With
            an adapter for each agent, `target` gets a folder for each.
        best: take a run's checkpoint with the highest score instead of the newest.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, or its base's weights have changed.
        UsageError: adapters are requested but there are none, or the best of a single checkpoint.
        QuantizationError: the weights under the adapters were in 4 bits, which are not available here.
    """
    path = chosen_checkpoint(source, best=best)
    state = checkpoint.read_state(path)
    config = PolicyConfig.model_validate(state["config"]["policy"])
    if config.lora is not None:
        checkpoint.check_base(path, state, config)
        return _adapted(path, state, config, target, form)
    if form == "adapter":
        raise UsageError(f"{path} trained every weight; it has no adapter.", "Remove --adapter.")
    from warpsmith.policy.loading import Policy

    policy = Policy.load(local_directory(config.path), dtype=config.dtype, chat_template=config.chat_template)
    if state["progress"]["step"]:
        _load(path, policy.model, trained_weights(path, state), {name for name, _ in policy.model.named_parameters()})
    return policy.save(target)


def chosen_checkpoint(source: Path, *, best: bool = False) -> Path:
    """Return the checkpoint that `consolidate` takes; arguments as there.

    Raises:
        CheckpointError: there is none.
        UsageError: the best of one checkpoint is asked for.
    """
    one = (source / checkpoint.STATE).is_file()
    if one and best:
        raise UsageError(f"{source} is one checkpoint.", "Pass the run's directory for its best one, or remove --best.")
    return source if one else checkpoint.best(source) if best else checkpoint.latest(source)


def _adapted(path: Path, state: Mapping[str, Any], config: PolicyConfig, target: Path, form: Form) -> Path:
    from warpsmith.policy.adapters import write_adapter, write_merged
    from warpsmith.policy.lowrank import ADAPTER
    from warpsmith.trainer.distributed.gathered_weights import factor_parts, merged_parts

    assert config.lora is not None
    # To write only the adapters, a 4-bit base does not have to be in 4 bits.
    lora = config.lora if form == "model" else config.lora.model_copy(update={"bits": None})
    policy = _with_adapters(path, state, config.model_copy(update={"lora": lora}))
    for agent, adapter in [(name, name) for name in config.adapters] or [("", ADAPTER)]:
        factors = {part.name: part.make() for part in factor_parts(policy.model, adapter)}
        if form == "adapter":
            write_adapter(factors, config.lora, target / agent, base=config.path)
        else:
            weights = {part.name: part.make().cpu() for part in merged_parts(policy.model, adapter)}
            write_merged(policy, weights, factors, target / agent)
    return target


def _with_adapters(path: Path, state: Mapping[str, Any], config: PolicyConfig) -> "Policy":
    from warpsmith.policy.lowrank import is_factor
    from warpsmith.trainer.distributed.trained_policy import load_to_train

    policy = load_to_train(config, state["config"]["run"]["seed"])
    if state["progress"]["step"]:
        trained = {name: value for name, value in trained_weights(path, state).items() if is_factor(name)}
        _load(path, policy.model, trained, {name for name in policy.model.state_dict() if is_factor(name)})
    return policy


def _load(path: Path, model: "torch.nn.Module", trained: "dict[str, torch.Tensor]", wanted: set[str]) -> None:
    """Load trained weights into a model; a value head, which exports do not have, is skipped.

    Raises:
        CheckpointError: a weight is missing, has another form, or has no place in the model.
    """
    from warpsmith.trainer.distributed.value_head import belongs

    known = {name: value for name, value in trained.items() if not belongs(name)}
    there = model.state_dict()
    wrong = [f"it lacks {name}" for name in sorted(wanted - known.keys())]
    wrong += [f"{name} has no place in the model" for name in sorted(known.keys() - there.keys())]
    wrong += [
        f"{name} is {list(value.shape)} and not {list(there[name].shape)}"
        for name, value in known.items()
        if name in there and value.shape != there[name].shape
    ]
    if wrong:
        raise CheckpointError(
            f"{path} does not fit the model of its configuration: {wrong[0]}.",
            "Restore the model that policy.path named; if it is unchanged, export an older checkpoint.",
        )
    model.load_state_dict(known, strict=False)


def trained_weights(path: Path, state: Mapping[str, Any]) -> "dict[str, torch.Tensor]":
    """Return the trained weights by their names in the model; frozen weights under adapters are in no checkpoint."""
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    from warpsmith.trainer.distributed.tensor_parallel import joined_states

    frozen = state["config"]["policy"]["lora"] is not None
    try:
        if state["config"]["zero"]["stage"] < 3:
            # Complete, or one part for each rank of those that share layers; in the dtype of computation and export.
            parts = range(state["config"].get("parallel", {}).get("tensor", 1))
            files = [path / "zero" / f"mp_rank_{part:02d}_model_states.pt" for part in parts]
            return joined_states([torch.load(file, map_location="cpu", weights_only=False) for file in files])
        return dict(get_fp32_state_dict_from_zero_checkpoint(str(path), tag="zero", exclude_frozen_parameters=frozen))
    except checkpoint.DAMAGED as error:
        raise CheckpointError(f"{path} cannot be read: {error}.", "Export an older checkpoint.") from error
