"""Loads the policy to train: the weights of its directory, with adapters if configured."""

from warpsmith.policy.adapters import attach, attach_named
from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import Policy


def load_to_train(config: PolicyConfig, seed: int) -> Policy:
    """Load the policy to train; with `[policy.lora]` only its adapters require a gradient.

    Args:
        config: the policy to load.
        seed: seed of the adapters, so that all ranks and starts have the same.

    Raises:
        policy's CheckpointError, TokenizerError, TemplateError: the directory cannot be used.
        AdapterError, QuantizationError: peft is not installed, no adapter fits, or 4-bit weights are not available.
        KernelsError: liger-kernel is not available here, or does not support this model.
    """
    policy = Policy.from_config(config)
    if config.lora is not None:
        # In place; peft's wrapper around the model is not needed.
        if config.adapters:
            attach_named(policy, config.lora, config.adapters, seed=seed)
        else:
            attach(policy, config.lora, seed=seed)
    return policy
