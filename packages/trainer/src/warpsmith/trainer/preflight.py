"""What a run needs before anything starts or is written: policy, chat template, room on the disk, servers."""

import shutil
from pathlib import Path

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.loading import check_directory, check_weights, count_parameters, load_chat
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
        CheckpointError: there is nothing to resume, or it is of another configuration.
        ConfigError: the run's directory holds a run, or its disk has no room for the checkpoints.
        policy's CheckpointError, TokenizerError, TemplateError: the policy's directory cannot be used.
        DataError, NoRecordsError: files or runs that an SFT run is to learn from are not there.
        ServerError, IsolationUnavailableError: no evaluation server answers, or one contains workers too weakly.
    """
    check_run(config, resume)
    check_policy(config)
    check_room(config)
    if not resume:
        check_data(config)
    check_servers(config)


def check_run(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Refuse a directory that holds another run, or nothing to resume; errors as for `preflight`."""
    if not resume:
        refuse_used(config.run)
        return
    newest = checkpoint.latest(config.run.dir)
    checkpoint.refuse_changes(newest, checkpoint.read_state(newest)["config"], config.model_dump(mode="json"))


def check_policy(config: SftConfig | TrainerConfig) -> ChatFormat:
    """Return the policy's chat format, after a look at directory, weights and template; errors as for `preflight`."""
    directory = check_directory(config.policy.path)
    check_weights(directory)
    return load_chat(directory, config.policy.template_kwargs)


def check_room(config: SftConfig | TrainerConfig) -> tuple[int, int]:
    """Return the bytes that the checkpoints and the last model take, and those that the disk has.

    The checkpoints are those that are kept, and one that is being written.

    Raises:
        ConfigError: the disk cannot hold them.
    """
    policy = config.policy.path
    kept = config.checkpoint.keep + config.checkpoint.keep_best + 1
    needed = count_parameters(policy) * (kept * _STATE_BYTES + 4)
    folder = nearest_directory(config.run.dir)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigError(
            f"{folder} has {free / _GIB:.2f} GiB free; {kept} checkpoints and the final model "
            f"of {policy} take about {needed / _GIB:.2f} GiB.",
            "Make room, lower checkpoint.keep or keep_best, or put run.dir on another disk.",
        )
    return int(needed), free


def nearest_directory(path: Path) -> Path:
    """Return `path`, or the directory above it that is there already."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def check_data(config: SftConfig | TrainerConfig) -> None:
    """Look for the files and runs that an SFT run is to learn from; errors as for `preflight`."""
    if isinstance(config, SftConfig):
        check_sources(config.data)


def check_servers(config: SftConfig | TrainerConfig) -> None:
    """Ask the evaluation servers where they judge; errors as for `preflight`."""
    if not isinstance(config, TrainerConfig) or config.rollout.evaluation.where != "server":
        return
    from warpsmith.rollout.server_judge import ServerJudge

    with ServerJudge(config.rollout.evaluation, config.evaluator):
        return
