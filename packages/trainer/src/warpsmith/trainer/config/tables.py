"""Checks that SFT and GRPO files share."""

from typing import Protocol, TypeVar

from warpsmith.policy.config import PolicyConfig
from warpsmith.trainer.config.parallel import ParallelSection
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection


class TrainingFile(Protocol):
    """A file with the tables `[policy]`, `[optimizer]`, `[zero]` and `[parallel]`."""

    @property
    def policy(self) -> PolicyConfig:
        """What is trained."""
        ...

    @property
    def optimizer(self) -> OptimizerSection:
        """What moves the weights."""
        ...

    @property
    def zero(self) -> ZeroSection:
        """How its state is spread."""
        ...

    @property
    def parallel(self) -> ParallelSection:
        """How ranks share layers and rows."""
        ...


T = TypeVar("T", bound=TrainingFile)


def trainable(config: T) -> T:
    """Refuse what this trainer would train incorrectly or not at all."""
    if config.policy.dtype == "float16":
        raise ValueError('policy.dtype: float16 needs loss scaling, which is missing; use "bfloat16" or "float32"')
    if config.policy.dtype == "bfloat16" and config.zero.stage == 0:
        raise ValueError(
            "zero.stage: stage 0 has no fp32 gradients for bfloat16 weights; use stage 1, which costs no more"
        )
    _check_offload(config.zero, config.optimizer)
    if config.policy.lora is not None and config.policy.lora.bits is not None:
        _check_quantized(config)
    _check_split(config)
    return config


def _check_offload(zero: ZeroSection, optimizer: OptimizerSection) -> None:
    """Refuse what DeepSpeed would refuse only after everything has started, and what it silently ignores."""
    if zero.offload_optimizer and zero.stage == 0:
        raise ValueError("zero.offload_optimizer: stage 0 keeps its state where it trains; use zero.stage = 1, 2 or 3")
    if zero.offload_parameters and zero.stage < 3:
        raise ValueError("zero.offload_parameters: only stage 3 takes parameters apart; use zero.stage = 3")
    if zero.offload_optimizer != (optimizer.implementation == "cpu"):
        raise ValueError(
            "zero.offload_optimizer: state in host memory takes the optimizer that is made for it; "
            'set optimizer.implementation = "cpu" and zero.offload_optimizer = true, or neither'
        )


def _check_quantized(config: TrainingFile) -> None:
    if config.policy.dtype != "bfloat16":
        raise ValueError('policy.lora.bits: 4-bit weights compute in bfloat16; set policy.dtype = "bfloat16"')
    if config.zero.stage == 3:
        raise ValueError("policy.lora.bits: ZeRO stage 3 cannot spread 4-bit weights; use zero.stage = 2")


def _check_split(config: TrainingFile) -> None:
    """Refuse what ranks that share layers or rows would compute wrongly, or were never tested to compute correctly."""
    policy, zero = config.policy, config.zero
    if config.parallel.sequence > 1 and policy.attention != "varlen":
        raise ValueError(
            f'parallel.sequence: "{policy.attention}" attention would see only a rank\'s part of a row; '
            'set policy.attention = "varlen"'
        )
    obstacles = {
        "[policy.lora]: AutoTP splits plain linear layers, and would leave adapters whole": policy.lora is not None,
        "zero.stage = 3: weights would be spread in two ways at once; set 0, 1 or 2": zero.stage == 3,
        "zero.offload_optimizer, which was not tested with it": zero.offload_optimizer,
        'policy.kernels = "liger", which was not tested with it': policy.kernels != "torch",
    }
    for obstacle, holds in obstacles.items():
        if config.parallel.tensor > 1 and holds:
            raise ValueError(f"parallel.tensor cannot be combined with {obstacle}")
