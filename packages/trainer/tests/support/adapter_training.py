"""Adapters on the tiny model in training, for the tests of one adapter and of one for each agent."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from warpsmith.policy.config import DTypeName, LoraSettings, PolicyConfig
from warpsmith.policy.loading import Policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.rows import PaddedRows, Row, pad_rows
from warpsmith.trainer.distributed.trained_policy import load_to_train
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.weights import checkpoint

LORA = LoraSettings(rank=4, alpha=8.0)
IDS = list(range(5, 45))
CPU = torch.device("cpu")


def rows(device: torch.device = CPU) -> PaddedRows:
    return pad_rows([Row(np.array(IDS, np.int64), np.ones(len(IDS), np.int64))], device)


class Training:
    """Adapters on the tiny model in training under one stage."""

    def __init__(
        self,
        base: Path,
        ranks: Ranks,
        stage: int,
        lora: LoraSettings | None = LORA,
        dtype: DTypeName = "float32",
        eps: float = 1e-8,
    ) -> None:
        attention = "sdpa" if ranks.rows is None else "varlen"
        self.config = PolicyConfig(path=base, dtype=dtype, lora=lora, attention=attention)
        self.zero = ZeroSection(stage=stage)
        self.ranks = ranks
        self.norms: list[float] = []
        self.policy = load_to_train(self.config, 0)
        self.engine = ZeroEngine(
            self.policy.model, zero=self.zero, optimizer=OptimizerSection(lr=1e-2, eps=eps), ranks=ranks, dtype=dtype,
            lora=lora,
        )  # fmt: skip

    def train(self, steps: int = 2) -> "Training":
        self.engine.train()
        for _ in range(steps):
            logprobs_BT, _ = self.engine.logprobs(rows(self.ranks.device), 1.0)
            # Every team has the same row, and the engine adds up what they have.
            self.engine.accumulate(-logprobs_BT.mean() / self.ranks.teams, last=True)
            self.norms.append(self.engine.step(1e-2))
        return self

    def weights(self) -> dict[str, Tensor]:
        return dict(self.engine.weights(1 << 12))

    def logprobs(self) -> Tensor:
        self.engine.train(False)
        with torch.no_grad():
            return self.engine.logprobs(rows(self.ranks.device), 1.0)[0][0].cpu()

    def factors(self) -> dict[str, Tensor]:
        return dict(self.engine.adapter_weights(1 << 12))

    def save(self, run: Path, step: int = 2, score: float | None = None) -> Path:
        config = {
            "run": {"seed": 0}, "policy": self.config.model_dump(mode="json"),
            "zero": {"stage": self.zero.stage}, "optimizer": {"schedule": {"type": "constant"}},
            "parallel": self.ranks.parallel.model_dump(),
        }  # fmt: skip
        return checkpoint.save(
            run, self.engine, self.ranks, checkpoint.Progress(step=step, update=step), config=config, keep=3,
            score=score, base=checkpoint.base_of(self.config),
        )  # fmt: skip


def elements(tree: object) -> int:
    """Return how many elements the tensors in a checkpoint's file have."""
    if isinstance(tree, Tensor):
        return tree.numel()
    values = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return sum(elements(value) for value in values)


def plain_logprobs(policy: Policy) -> Tensor:
    with torch.no_grad():
        return token_logprobs(policy.model, torch.tensor([IDS]), torch.ones(1, len(IDS), dtype=torch.long))[0][0]
