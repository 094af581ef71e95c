"""Checks that both kinds of file share."""

from typing import Protocol, TypeVar

from warpsmith.policy.config import PolicyConfig


class HasPolicy(Protocol):
    """A file with a `[policy]` table."""

    @property
    def policy(self) -> PolicyConfig:
        """The table."""
        ...


T = TypeVar("T", bound=HasPolicy)


def full_training_only(config: T) -> T:
    """Refuse `[policy.lora]` and float16, which this trainer does not train."""
    if config.policy.lora is not None:
        raise ValueError("policy.lora: this version trains every weight; remove the table [policy.lora]")
    if config.policy.dtype == "float16":
        raise ValueError('policy.dtype: float16 needs loss scaling, which is not there; use "bfloat16" or "float32"')
    return config
