"""Models with adapters of a given seed, and what they give tokens, for the tests of samplers that take adapters."""

import torch

from warpsmith.policy import adapters, lowrank
from warpsmith.policy.config import LoraSettings
from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs

LORA = LoraSettings(rank=4, alpha=8.0)
IDS = list(range(3, 60))
LONG = [3 + number % 90 for number in range(200)]
"""More than a block of the prefix cache, which is 128 tokens on a CPU."""


def adapted(base, seed):
    """A model with adapters of a given seed, and their factors as they are sent."""
    policy = load_policy(base)
    adapters.attach(policy, LORA, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    named = [(name, value) for name, value in policy.model.named_parameters() if lowrank.is_factor(name)]
    with torch.no_grad():
        for name, value in named:
            if "lora_B" in name:
                value.normal_(std=0.1, generator=generator)
    return policy.model, {lowrank.file_name(name): value for name, value in named}


def reference(model, ids):
    with torch.no_grad():
        return token_logprobs(model, torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))[0][0].tolist()
