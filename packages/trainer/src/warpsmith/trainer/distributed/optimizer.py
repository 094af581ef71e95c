"""AdamW over a model's parameters, and its learning rate."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from warpsmith.policy import lowrank
from warpsmith.trainer.config.sections import OptimizerSection
from warpsmith.trainer.distributed import value_head

ADAPTER, RESTS = "adapter", "rests"
"""Keys of a parameter group: the adapter whose factors it has, and whether it takes no part in a step."""


def make_optimizer(
    model: nn.Module, section: OptimizerSection, value_lr: float | None = None
) -> tuple[torch.optim.Optimizer, list[float]]:
    """Return AdamW with weight decay only on matrices (not on norms, biases and a value head).

    Args:
        model: the model to train.
        section: AdamW's settings.
        value_lr: peak learning rate of the value head, if the model has one; `section.lr` by default.

    Returns:
        The optimizer, and for each of its groups the factor of the policy's learning rate.
    """
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    policy = [(name, parameter) for name, parameter in named if not value_head.belongs(name)]
    faster = 1.0 if value_lr is None or not section.lr else value_lr / section.lr
    groups: list[tuple[dict[str, Any], float]] = [
        (group, 1.0)
        for adapter in dict.fromkeys(lowrank.adapter_of(name) for name, _ in policy)
        for own in [[parameter for name, parameter in policy if lowrank.adapter_of(name) == adapter]]
        for group in (
            {"params": [p for p in own if p.ndim >= 2], "weight_decay": section.weight_decay, ADAPTER: adapter},
            {"params": [p for p in own if p.ndim < 2], "weight_decay": 0.0, ADAPTER: adapter},
        )
    ]
    values = [parameter for name, parameter in named if value_head.belongs(name)]
    groups.append(({"params": values, "weight_decay": 0.0, ADAPTER: None}, faster))
    used = [(group, factor) for group, factor in groups if group["params"]]
    common = {"lr": section.lr, "betas": section.betas, "eps": section.eps}
    return _adamw([group for group, _ in used], section.implementation, common), [factor for _, factor in used]


def _adamw(groups: Iterable[dict[str, Any]], implementation: str, common: dict[str, Any]) -> torch.optim.Optimizer:
    if implementation == "cpu":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return _resting(DeepSpeedCPUAdam)(groups, adamw_mode=True, **common)  # type: ignore[no-any-return]
    return _resting(torch.optim.AdamW)(groups, fused=True, **common)  # type: ignore[no-any-return]


def rest_others(groups: Iterable[dict[str, Any]], adapter: str | None) -> None:
    """Let the next steps of `make_optimizer`'s optimizer change one adapter alone; None lets all groups take part."""
    for group in groups:
        group[RESTS] = adapter is not None and group[ADAPTER] != adapter


def _resting(kind: Any) -> Any:
    """Return a class of optimizers that leave weights and moments of resting groups as they are.

    A gradient of 0 would not: moments decay, and weights go on by momentum.
    """

    class Resting(kind):  # type: ignore[misc]
        param_groups: list[dict[str, Any]]

        def step(self, *args: Any, **kwargs: Any) -> Any:
            groups = self.param_groups
            self.param_groups = [group for group in groups if not group.get(RESTS)]
            try:
                return super().step(*args, **kwargs)
            finally:
                self.param_groups = groups

    return Resting


def learning_rate(section: OptimizerSection, update: int, updates: int) -> float:
    """Return the learning rate of `update` (from 0) of `updates`.

    A pure function of the update's index, so that a resumed run has nothing to restore: linear warm-up, then
    `[optimizer.schedule]`.
    """
    warmup = math.ceil(section.warmup_ratio * updates) if section.warmup_ratio else section.warmup_steps
    if update < warmup:
        return section.lr * (update + 1) / warmup
    return section.lr * section.schedule.share(update, updates, warmup)
