"""Run by a launcher: one update's gradient under each ZeRO stage and micro-batch budget, written by rank 0.

Usage: gradient_worker.py MODEL OUT.pt [STAGE:BUDGET:LAYOUT:PRESET ...], LAYOUT packed or padded
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from warpsmith.policy.config import AttentionName, DTypeName
from warpsmith.policy.loading import load_policy
from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, TrainerConfig
from warpsmith.trainer.config.sections import OptimizerSection, RunSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks, join, leave
from warpsmith.trainer.distributed.reference_policy import FrozenModel
from warpsmith.trainer.distributed.rows import Row
from warpsmith.trainer.distributed.tensor_parallel import joined, shard_of
from warpsmith.trainer.distributed.value_head import ValueHead, attach
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.rollouts.batch import TrainingTurns
from warpsmith.trainer.runs.policy_update import PolicyUpdate

Gradients = dict[str, torch.Tensor]


class Recording(ZeroEngine):
    """Keeps the reduced gradient that a step is about to apply."""

    gradients: Gradients

    def step(self, lr: float, agent: str | None = None) -> float:
        from deepspeed.utils import safe_get_full_grad

        self.gradients = {}
        for name, parameter in self.module.named_parameters():
            found = safe_get_full_grad(parameter)
            gradient = parameter.grad if found is None else found.float()
            shard, layers = shard_of(parameter), self.ranks.layers
            split = shard is not None and layers is not None
            self.gradients[name] = joined(gradient.view_as(parameter), shard, layers) if split else gradient.clone()
        return super().step(lr, agent)


def turns() -> TrainingTurns:
    """Seven turns of uneven lengths, one of them without advantage and one that does not count."""
    rng = np.random.default_rng(0)
    shapes = [(4, 6), (9, 8), (3, 9), (12, 18), (2, 7), (5, 5), (3, 3)]
    rows = [
        Row(rng.integers(3, 250, p + c), np.concatenate([np.zeros(p, np.int64), np.ones(c, np.int64)]))
        for p, c in shapes
    ]
    sampler = [np.where(row.mask == 1, -rng.random(len(row)) * 6, 0).astype(np.float32) for row in rows]
    advantage = np.array([1.0, -0.5, 0.7, -1.2, 0.3, 0.0, 0.9])
    return TrainingTurns(
        rows=rows,
        sampler=sampler,
        lengths=np.array([c for _, c in shapes]),
        advantage=advantage,
        counted=np.array([True] * 6 + [False]),
        update=np.zeros(7, np.int64),
        temperature=0.8,
        agent=np.full(len(rows), ""),
        value=np.array([0.1, -0.2, 0.4, 0.0, 0.3, 0.2, np.nan]),
        target=np.array([1.0, 0.3, -0.5, 0.2, 0.0, 0.7, np.nan]),
    )


def turns_of(seed: int) -> TrainingTurns:
    """Turns of random lengths, from an answer of one token on."""
    rng = np.random.default_rng(seed)
    shapes = [(int(p), int(c)) for p, c in rng.integers(1, 24, (int(rng.integers(1, 8)), 2))]
    rows = [
        Row(rng.integers(3, 250, p + c), np.concatenate([np.zeros(p, np.int64), np.ones(c, np.int64)]))
        for p, c in shapes
    ]
    # Tools' words in the middle of an answer do not count.
    for row in rows:
        row.mask[1:] *= rng.random(len(row) - 1) < 0.8
        row.mask[-1] = 1
    count = len(rows)
    return TrainingTurns(
        rows=rows,
        sampler=[np.where(row.mask == 1, -rng.random(len(row)) * 6, 0).astype(np.float32) for row in rows],
        lengths=np.array([int(row.mask.sum()) for row in rows]),
        advantage=rng.normal(size=count),
        counted=np.full(count, True),
        update=np.zeros(count, np.int64),
        temperature=0.8,
        agent=np.full(count, ""),
        value=rng.normal(size=count),
        target=rng.normal(size=count),
    )


def tilted_head(policy: torch.nn.Module) -> ValueHead:
    """A value head that says something: one of zeros would send no gradient into the policy."""
    width = policy.config.hidden_size
    head = attach(policy, width, detached=False)
    with torch.no_grad():
        head.weight.copy_(torch.linspace(-0.1, 0.1, width)[None])
    return head


def gradient(
    model: Path,
    ranks: Ranks,
    stage: int,
    budget: int,
    kl: float = 0.05,
    *,
    packing: bool = False,
    preset: str = "dapo",
    attention: AttentionName = "sdpa",
    dtype: DTypeName = "float32",
    batch: TrainingTurns | None = None,
) -> tuple[Gradients, dict[str, float]]:
    """Return the gradient and the figures of one update."""
    zero = ZeroSection(stage=stage, micro_batch_tokens=budget, packing=packing)
    config = TrainerConfig(
        run=GrpoRunSection(dir=Path("unused")),
        policy={"path": model, "dtype": dtype},
        algorithm=AlgorithmSection(
            type=preset, kl={"coefficient": kl} if kl else None, entropy_coefficient=0.01 if kl else 0.0
        ),
        optimizer=OptimizerSection(lr=1e-3, max_grad_norm=0.0),
        zero=zero,
    )
    policy = load_policy(model, dtype, attention=attention).model
    batch = batch or turns()
    batch = batch if preset == "ppo" else replace(batch, value=None, target=None)
    engine = Recording(
        policy, zero=zero, optimizer=config.optimizer, ranks=ranks, dtype=dtype,
        value_head=tilted_head(policy) if preset == "ppo" else None,
    )  # fmt: skip
    reference = (
        FrozenModel(load_policy(model, dtype, attention=attention).model, zero=zero, ranks=ranks, dtype=dtype)
        if kl
        else None
    )
    done = PolicyUpdate(engine, reference, ranks, config).run(batch, 0)
    assert done.made == 1
    ratios = {
        f"ratio_mean/{row}": float(value) for row, value in enumerate(done.rows["ratio_mean"]) if np.isfinite(value)
    }
    return engine.gradients, {**done.figures, **ratios}


def main() -> None:
    model, out, *cases = sys.argv[1:]
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection())
    found = {}
    for case in cases:
        stage, budget, layout, preset = case.split(":")
        packing = layout == "packed"
        found[case] = gradient(Path(model), ranks, int(stage), int(budget), packing=packing, preset=preset)
    if ranks.drives:
        torch.save(found, out)
    ranks.barrier()
    leave()


if __name__ == "__main__":
    main()
