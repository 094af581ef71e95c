"""Run as several ranks: rows that they share against whole ones; ends with an error if they differ.

Usage: split_worker.py RANK WORLD STORE, STORE a file that does not exist
"""

import sys

import pytest
import torch
from torch import distributed as dist
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from warpsmith.policy import attention
from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.logprobs import token_figures
from warpsmith.policy.packing import check_split
from warpsmith.policy.sequence_parallel import Split

CPU = torch.device("cpu")
FAMILIES = {
    "qwen3": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    # One key head for both ranks.
    "llama": {"num_key_value_heads": 1},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 5},
}


def model_of(family: str, **settings: object) -> PreTrainedModel:
    """A small random model whose every token matters to the next ones."""
    small = {
        "vocab_size": 100, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**small, **settings})
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention.VARLEN)


def compare(model: nn.Module, split: Split, seed: int) -> None:
    """Compare figures and gradients of random rows, padded or packed, with values and likeliest tokens."""
    rng = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=rng)

    rows, width = (1 if seed % 2 else int(draw(1, 4, 1))), int(draw(2, 40, 1))
    ids = draw(1, 100, rows, width)
    mask = (torch.arange(width) < draw(2, width + 1, rows, 1)).long() if rows > 1 else torch.ones_like(ids)
    starts = torch.rand(rows, width, generator=rng) < 0.2
    starts[:, 0] = True
    index = torch.arange(width)
    positions = (index - torch.where(starts, index, 0).cummax(1).values) if rows == 1 else None
    chosen = (torch.rand(rows, width, generator=rng) < 0.7).long()
    weight = torch.randn(3, rows, width, generator=rng)
    head = nn.Linear(32, 1)
    nn.init.constant_(head.weight, 0.1)
    results, gradients = [], []
    for shared in (None, split):
        model.zero_grad()
        found = token_figures(
            model, ids, mask, 0.7, positions, select_BT=chosen, value_head=head, greedy=True, split=shared
        )
        results.append(found)
        sum((each * part).sum() for each, part in zip(found[:3], weight, strict=True)).backward()
        given = [p.grad.clone() if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
        if shared is not None:
            for gradient in given:
                dist.all_reduce(gradient)
        gradients.append(given)
    for whole, part in zip(results[0], results[1], strict=True):
        torch.testing.assert_close(part, whole, atol=2e-5, rtol=2e-5)
    largest = max(float(gradient.abs().max()) for gradient in gradients[0])
    for whole, part in zip(*gradients, strict=True):
        assert float((whole - part).abs().max()) <= 2e-6 * largest + 1e-7


class Mixing(nn.Module):
    """A layer that looks at the token before, as a convolution does."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(states) + states.roll(1, dims=1)
        return found


def main() -> None:
    rank, world = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    attention.register()
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=world)
    split = Split(dist.group.WORLD, world, rank)
    for family, settings in FAMILIES.items():
        model = model_of(family, **settings)
        for seed in range(6):
            compare(model, split, seed)
        model.train()
        check_split(model, CPU, split)
        assert model.training
    model.model.layers[0].mlp = Mixing(model.model.layers[0].mlp)
    with pytest.raises(UnsupportedModelError, match="gives other log-probabilities where 2 ranks share a row"):
        check_split(model, CPU, split)
    plain = model_of("llama")
    plain.set_attn_implementation("sdpa")
    with pytest.raises(UnsupportedModelError, match='"varlen"'):
        check_split(plain, CPU, split)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
