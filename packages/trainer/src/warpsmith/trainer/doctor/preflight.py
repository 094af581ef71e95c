"""Runs the checks of `doctor.checks` before a run starts or writes anything, and stops at errors."""

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.doctor.check import stop_at_errors
from warpsmith.trainer.doctor.checks import checks_with_torch, checks_without_torch


def preflight(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Refuse a run whose checks fail; starts no process of the run and writes nothing.

    Raises:
        what `check_files` raises.
        policy's TokenizerError, TemplateError: the directory of the policy or its reference cannot be used for chats.
        QuantizationError: there are no 4-bit weights here.
        KernelsError: liger-kernel cannot be had here, or is not for the policy or its reference.
        DatasetError, PromptsError: problems cannot be read, or do not fit their token budget.
    """
    check_files(config, resume)
    stop_at_errors(checks_with_torch(config))


def check_files(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Refuse what can be refused without torch, whose import takes longer than all of this.

    Raises:
        CheckpointError: there is nothing to resume, or it is of another configuration.
        ConfigError: the run's directory holds a run, its disk has no room for the checkpoints, or policy and reference
            policy have other tokens.
        policy's CheckpointError: there is no model in its directory, or none in that of the reference policy.
        ModelTooShortError: the policy reads fewer tokens than its sampler is to take.
        DataError, NoRecordsError: files or runs that an SFT run is to learn from are not there.
        AdapterError: peft is not installed.
        ServerError, IsolationUnavailableError: no evaluation server answers, or one contains workers too weakly.
        ContainmentError: this machine contains them too weakly.
        RegistryError, BadRewardError: the environment or the reward cannot be imported or used.
        RayTokenError, WandbError, PackagesError: Ray, W&B, or packages beside torch are not as a run needs them.
        UnfitRunError: several of these.
    """
    stop_at_errors(checks_without_torch(config, resume))
