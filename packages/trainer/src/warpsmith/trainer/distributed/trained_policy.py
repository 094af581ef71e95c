"""Loads the policy to train: the weights of its directory, with adapters if configured."""

from warpsmith.policy.adapters import attach
from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import Policy


def load_to_train(config: PolicyConfig, seed: int) -> Policy:
    """Load what is to be trained; with `[policy.lora]` only the adapters on its model want a gradient.

    Args:
        config: what to load.
        seed: of the adapters, so that every rank and every start has the same.

    Raises:
        policy's CheckpointError, TokenizerError, TemplateError: the directory cannot be used.
        AdapterError, QuantizationError: peft is not installed, no adapter fits, or there are no 4-bit weights here.
        KernelsError: liger-kernel cannot be had here, or is not for this model.
    """
    policy = Policy.from_config(config)
    if config.lora is not None:
        # In place; peft's wrapper around the model is not needed.
        attach(policy, config.lora, seed=seed)
    return policy
