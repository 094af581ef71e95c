"""What a run needs before anything starts or is written: policy, chat template, room on the disk, servers."""

import shutil
from pathlib import Path

from warpsmith.policy import adapters
from warpsmith.policy.config import LoraSettings, PolicyConfig
from warpsmith.policy.kernels import LIGER, check_kernels
from warpsmith.policy.loading import (
    check_directory,
    check_weights,
    count_parameters,
    load_chat,
    read_config,
    token_ids,
)
from warpsmith.policy.quantization import check_quantization
from warpsmith.rollout.tasks.registry import task_for
from warpsmith.trainer import checkpoint
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.examples.sources import check_sources
from warpsmith.trainer.rundir import refuse_used

_STATE_BYTES = 16
"""Of a parameter in a checkpoint: fp32 weight, two moments, and the weight in the dtype that computes."""

_GIB = 1 << 30


def preflight(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Refuse a run that cannot go well; starts no process and writes nothing.

    Raises:
        what `check_files` raises.
        policy's TokenizerError, TemplateError: the directory of the policy or its reference cannot be used for chats.
        QuantizationError: there are no 4-bit weights here.
        KernelsError: liger-kernel cannot be had here, or is not for the policy or its reference.
    """
    check_files(config, resume)
    if config.policy.lora is not None and config.policy.lora.bits is not None:
        check_quantization()
    load_chat(check_directory(config.policy.path), config.policy.template_kwargs)
    reference = _reference(config)
    if reference is not None:
        load_chat(reference)
    if config.policy.kernels == LIGER:
        for directory in (config.policy.path, *([] if reference is None else [reference])):
            check_kernels(read_config(directory))


def check_files(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Refuse what can be refused without torch, whose import takes longer than all of this.

    Raises:
        CheckpointError: there is nothing to resume, or it is of another configuration.
        ConfigError: the run's directory holds a run, its disk has no room for the checkpoints, or policy and reference
            policy have other tokens.
        policy's CheckpointError: there is no model in its directory, or none in that of the reference policy.
        DataError, NoRecordsError: files or runs that an SFT run is to learn from are not there.
        AdapterError: peft is not installed.
        ServerError, IsolationUnavailableError: no evaluation server answers, or one contains workers too weakly.
        rollout's UnknownTaskError: `rollout.task_type` names no task.
    """
    if isinstance(config, TrainerConfig):
        task_for(config.rollout)
    if resume:
        newest = checkpoint.latest(config.run.dir)
        state = checkpoint.read_state(newest)
        checkpoint.refuse_changes(newest, state["config"], config.model_dump(mode="json"))
    else:
        refuse_used(config.run)
    directory = check_directory(config.policy.path)
    check_weights(directory)
    reference = _reference(config)
    if reference is not None:
        _check_reference(reference, directory)
    if config.policy.lora is not None:
        _check_adapters(config.policy, config.policy.lora)
    if resume:
        checkpoint.check_base(newest, state, config.policy)
    _check_room(config, directory)
    if isinstance(config, SftConfig) and not resume:
        check_sources(config.data)
    if isinstance(config, TrainerConfig) and config.rollout.evaluation.where == "server":
        _check_servers(config)


def _reference(config: SftConfig | TrainerConfig) -> Path | None:
    """Return the directory of a reference policy that the run loads and that is named; None where there is none."""
    if isinstance(config, SftConfig) or not config.algorithm.kl_coefficient:
        return None
    return config.algorithm.reference


def _check_reference(reference: Path, policy: Path) -> None:
    """Refuse a reference policy that cannot judge the policy's tokens."""
    check_weights(check_directory(reference))
    sizes = [_vocabulary(directory) for directory in (reference, policy)]
    if sizes[0] != sizes[1]:
        seen = f"has a vocabulary of {sizes[0]} tokens, the policy {policy} one of {sizes[1]}"
    elif token_ids(reference) != token_ids(policy):
        seen = f"gives other ids to tokens than the policy {policy} in tokenizer.json"
    else:
        return
    raise ConfigError(
        f"algorithm.reference: {reference} {seen}.",
        "Name a model with the policy's tokenizer, or leave the key out for the policy that the run begins with.",
    )


def _vocabulary(directory: Path) -> int | None:
    """Return the vocab_size of config.json, which models of several modalities have in the table of their text."""
    config = read_config(directory)
    size: int | None = config.get("text_config", config).get("vocab_size")
    return size


def _check_room(config: SftConfig | TrainerConfig, policy: Path) -> None:
    """Refuse a disk that cannot hold the checkpoints that are kept, one that is being written, and the last model."""
    kept = config.checkpoint.keep + config.checkpoint.keep_best + 1
    lora, whole = config.policy.lora, count_parameters(policy)
    trained = whole if lora is None else adapters.count_parameters(policy, lora)
    needed = trained * kept * _STATE_BYTES + whole * 4
    folder = _nearest(config.run.dir)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigError(
            f"{folder} has {free / _GIB:.2f} GiB free; {kept} checkpoints and the final model "
            f"of {policy} take about {needed / _GIB:.2f} GiB.",
            "Make room, lower checkpoint.keep or keep_best, or put run.dir on another disk.",
        )


def _check_adapters(policy: PolicyConfig, lora: LoraSettings) -> None:
    adapters.require_peft()
    if not adapters.count_parameters(policy.path, lora):
        raise ConfigError(
            f"policy.lora.target_modules: {policy.path} has no layer named {', '.join(lora.target_modules)}.",
            "Name linear layers of the model, as q_proj or down_proj.",
        )


def _nearest(path: Path) -> Path:
    """Return `path`, or the directory above it that is there already."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _check_servers(config: TrainerConfig) -> None:
    from warpsmith.rollout.server_judge import ServerJudge

    with ServerJudge(config.rollout.evaluation, config.evaluator):
        return
