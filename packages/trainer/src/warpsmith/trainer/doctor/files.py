"""Checks of what a run reads and writes: its directory, policy, reference policy, adapters, data, disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.policy import adapters
from warpsmith.policy.config import NEW, LoraSettings, PolicyConfig
from warpsmith.policy.loading import check_directory, check_weights, count_parameters, read_config, token_ids
from warpsmith.rollout.config import ServerEvaluation
from warpsmith.rollout.environments.registry import max_turns
from warpsmith.rollout.rewards.config import PresetRewardConfig
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.samplers.vllm.model_length import check_model_length
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.data.sources import check_sources
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning.disk import DiskNeed, disk_need
from warpsmith.trainer.planning.shapes import read_shape
from warpsmith.trainer.planning.sizes import in_words
from warpsmith.trainer.runs.run_directory import refuse_used
from warpsmith.trainer.weights import checkpoint

Config = SftConfig | TrainerConfig


def directory(config: Config, resume: bool) -> Iterator[Finding]:
    """Check that the run's directory can be started, or resumed under this configuration.

    Raises:
        ConfigError: it already holds a run.
        CheckpointError: there is nothing to resume, or its configuration differs.
    """
    if resume:
        newest = checkpoint.latest(config.run.dir)
        state = checkpoint.read_state(newest)
        checkpoint.refuse_changes(newest, state["config"], config.model_dump(mode="json"))
    else:
        refuse_used(config.run)
    yield Finding("run directory", "ok", f"{config.run.dir} can be {'resumed' if resume else 'used'}")


def environment(config: TrainerConfig) -> Iterator[Finding]:
    """Import the environment; RegistryError if this fails."""
    max_turns(config.rollout)
    yield Finding("environment", "ok", config.rollout.environment.type)


def reward(config: TrainerConfig) -> Iterator[Finding]:
    """Load the reward function and try it on examples; BadRewardError if it cannot be used."""
    name = scorer_for(config.rollout.reward).name
    chosen = config.rollout.reward
    seen = f"preset {chosen.preset}" if isinstance(chosen, PresetRewardConfig) else f"{name} scores every example"
    yield Finding("reward", "ok", seen)


def policy_files(config: Config) -> Iterator[Finding]:
    """Check the policy's directory and weights; policy's CheckpointError if there is no model in it."""
    check_weights(check_directory(config.policy.path))
    yield Finding("policy's files", "ok", str(config.policy.path))


def base(config: Config) -> Iterator[Finding]:
    """Check that the policy is the one that the checkpoint's adapters were trained on."""
    newest = checkpoint.latest(config.run.dir)
    checkpoint.check_base(newest, checkpoint.read_state(newest), config.policy)
    yield Finding("base of the checkpoint", "ok", str(newest))


def model_length(config: TrainerConfig) -> Iterator[Finding]:
    """Compare `max_model_len` with the model's own length; ModelTooShortError if vLLM would not start."""
    sampler = config.rollout.sampler
    found = check_model_length(config.policy.path, sampler)
    seen = "no length" if found is None else f"{found.tokens} ({found.source})"
    yield Finding("model length", "ok", f"max_model_len {sampler.max_model_len}; the model has {seen}")


def reference_of(config: Config) -> Path | None:
    """Return the directory of a separately named reference policy that the run loads; None if there is none."""
    if isinstance(config, SftConfig) or config.algorithm.kl is None:
        return None
    return config.algorithm.kl.reference


def reference(named: Path, policy: Path) -> Iterator[Finding]:
    """Check that a reference policy supports the policy's tokens.

    Raises:
        policy's CheckpointError: there is no model in its directory.
        ConfigError: its tokens differ.
    """
    check_weights(check_directory(named))
    sizes = [_vocabulary(directory) for directory in (named, policy)]
    if sizes[0] != sizes[1]:
        seen = f"has a vocabulary of {sizes[0]} tokens, the policy {policy} one of {sizes[1]}"
    elif token_ids(named) != token_ids(policy):
        seen = f"assigns other ids to tokens than the policy {policy} in tokenizer.json"
    else:
        yield Finding("reference policy", "ok", str(named))
        return
    raise ConfigError(
        f"algorithm.kl.reference: {named} {seen}.",
        "Use a model with the policy's tokenizer, or remove the key to use the run's initial policy.",
    )


def split(config: Config) -> Iterator[Finding]:
    """Check that ranks can share the layers or rows of the policy and of its reference; ConfigError if not."""
    parallel, named = config.parallel, reference_of(config)
    for directory in (config.policy.path, *([] if named is None else [named])):
        parallel.check_model(read_config(directory), directory)
    seen = f"{parallel.tensor} ranks share each layer, {parallel.sequence} each row"
    yield Finding("split over ranks", "ok", seen)


def _vocabulary(directory: Path) -> int | None:
    """Return vocab_size of config.json, which multimodal models have in the table of their text model."""
    config = read_config(directory)
    size: int | None = config.get("text_config", config).get("vocab_size")
    return size


def adapter_layers(policy: PolicyConfig, lora: LoraSettings) -> Iterator[Finding]:
    """Check that the model has layers for adapters, and that those that agents start from were trained on it.

    Raises:
        AdapterError: peft is not installed, or an adapter cannot be used.
        BaseMismatchError: an adapter was trained on other weights.
        ConfigError: the model has no such layers.
    """
    adapters.require_peft()
    count = adapters.count_parameters(policy.path, lora)
    if not count:
        raise ConfigError(
            f"policy.lora.target_modules: {policy.path} has no layer named {', '.join(lora.target_modules)}.",
            "Name linear layers of the model, such as q_proj or down_proj.",
        )
    starts = [start for start in policy.adapters.values() if start != NEW]
    for start in starts:
        adapters.read_adapter(start, policy.path, lora)
    of_agents = f" each, for {', '.join(policy.adapters)}" if policy.adapters else ""
    yield Finding("adapters", "ok", f"{count:,} parameters{of_agents}")


def disk(config: Config, resume: bool) -> Iterator[Finding]:
    """Compare the disk with the checkpoints that are kept, one being written, and the final model.

    Raises:
        ConfigError: it has less space. A resumed run's old checkpoints make room for the new ones.
    """
    need, folder = _need(config, resume), _nearest(config.run.dir)
    free = shutil.disk_usage(folder).free
    wanted = (
        f"{need.checkpoints} checkpoints of {in_words(need.checkpoint)} and a final model of {in_words(need.model)}"
    )
    if free < need.total:
        raise ConfigError(
            f"{folder} has {in_words(free)} free; {wanted} of {config.policy.path} take about {in_words(need.total)}.",
            "Free space, lower checkpoint.keep or keep_best, or put run.dir on another disk.",
        )
    yield Finding("disk", "ok", f"{folder} has {in_words(free)} free; {wanted}")


def _need(config: Config, resume: bool) -> DiskNeed:
    lora, whole = config.policy.lora, count_parameters(config.policy.path)
    each = max(1, len(config.policy.adapters))
    trained = whole if lora is None else each * adapters.count_parameters(config.policy.path, lora)
    if config.parallel.tensor > 1:
        # Each of the ranks that share layers writes what it has, and each has everything but the projections.
        trained += (config.parallel.tensor - 1) * (whole - read_shape(config.policy.path).projected)
    # The one of step 0 has no weights.
    there = sum(checkpoint.read_state(path)["progress"]["step"] > 0 for path in _written(config, resume))
    return disk_need(
        config.checkpoint, config.zero, config.policy.dtype, trained=trained, whole=each * whole, there=there
    )


def _written(config: Config, resume: bool) -> list[Path]:
    return checkpoint.complete(config.run.dir) if resume else []


def _nearest(path: Path) -> Path:
    """Return `path` or its nearest existing parent."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def sources(config: SftConfig) -> Iterator[Finding]:
    """Check that the files and runs to learn from exist; DataError, NoRecordsError if they do not."""
    check_sources(config.data)
    yield Finding("sources", "ok", ", ".join(config.data.labels))


def servers(evaluation: ServerEvaluation, evaluator: EvaluatorConfig) -> Iterator[Finding]:
    """Check the evaluation servers; ServerError, IsolationUnavailableError if none can be used."""
    from warpsmith.rollout.evaluators.servers import ServerEvaluator

    with ServerEvaluator(evaluation, evaluator):
        yield Finding("evaluation servers", "ok", ", ".join(evaluation.servers))
