"""Runs the checks of `doctor.checks` before a run starts or writes anything, and stops at errors."""

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.doctor.check import stop_at_errors
from warpsmith.trainer.doctor.checks import checks_with_torch, checks_without_torch


def preflight(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Reject a run whose checks fail; starts no process of the run and writes nothing.

    Raises:
        the errors of `check_files`.
        policy's TokenizerError, TemplateError: the directory of the policy or its reference cannot be used for chats.
        QuantizationError: 4-bit weights are not available here.
        KernelsError: liger-kernel is not available here, or does not support the policy or its reference.
        DatasetError, PromptsError: problems cannot be read, or do not fit their token budget.
    """
    check_files(config, resume)
    stop_at_errors(checks_with_torch(config))


def check_files(config: SftConfig | TrainerConfig, resume: bool) -> None:
    """Run the checks that need no torch, whose import takes longer than all of them.

    Raises:
        CheckpointError: there is nothing to resume, or its configuration differs.
        ConfigError: the run's directory holds a run, its disk has no room for the checkpoints, or the tokens of policy
            and reference policy differ.
        policy's CheckpointError: there is no model in its directory, or none in that of the reference policy.
        ModelTooShortError: the policy's context is shorter than the sampler's.
        DataError, NoRecordsError: sources of an SFT run are missing.
        AdapterError: peft is not installed.
        ServerError, IsolationUnavailableError: no evaluation server answers, or one isolates workers too weakly.
        ContainmentError: this machine contains candidates too weakly.
        RegistryError, BadRewardError: the environment or the reward cannot be imported or used.
        RayTokenError, WandbError, TracingError, PackagesError: Ray, W&B, exporters of spans or installed packages
            cannot be used.
        UnfitRunError: several of these.
    """
    stop_at_errors(checks_without_torch(config, resume))
