"""AdamW over a model's parameters, and the course of its learning rate."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from warpsmith.trainer.config.sections import OptimizerSection


def make_optimizer(model: nn.Module, section: OptimizerSection) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices alone (norms and biases are left as they are)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": section.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    common = {"lr": section.lr, "betas": section.betas, "eps": section.eps}
    return _adamw([group for group in groups if group["params"]], section.implementation, common)


def _adamw(groups: Iterable[dict[str, Any]], implementation: str, common: dict[str, Any]) -> torch.optim.Optimizer:
    if implementation == "fused":
        from deepspeed.ops.adam import FusedAdam

        return FusedAdam(groups, adam_w_mode=True, **common)  # type: ignore[no-any-return]
    if implementation == "cpu":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return DeepSpeedCPUAdam(groups, adamw_mode=True, **common)  # type: ignore[no-any-return]
    return torch.optim.AdamW(groups, fused=True, **common)


def learning_rate(section: OptimizerSection, update: int, updates: int) -> float:
    """Return the learning rate of `update` (from 0) of `updates`.

    A pure function of the update's number, so that a resumed run has nothing to restore. Linear warm-up, then
    constant, linear, or cosine (arXiv 1608.03983) down to `min_lr_ratio` of the peak.
    """
    if update < section.warmup_steps:
        return section.lr * (update + 1) / section.warmup_steps
    if section.schedule == "constant":
        return section.lr
    length = max(1, updates - section.warmup_steps - 1)
    progress = min(1.0, (update - section.warmup_steps) / length)
    fall = 1.0 - progress if section.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return section.lr * (section.min_lr_ratio + (1.0 - section.min_lr_ratio) * fall)
