"""Rows of made-up log-probabilities, and the loss and gradients that this package makes of them."""

from typing import Any

import numpy as np
import torch

from warpsmith.trainer.advantage import Critic, Turns, assign
from warpsmith.trainer.config.grpo import AlgorithmSection
from warpsmith.trainer.loss.aggregations import row_weights
from warpsmith.trainer.loss.policy_loss import MicroBatch, policy_loss
from warpsmith.trainer.loss.value_loss import ValueBatch

Row = dict[str, Any]
LENGTH = 7


def made_rows(seed: int, *, groups: int = 3, samples: int = 4, wide: float = 0.3) -> list[Row]:
    """Trajectories of one or two turns in groups, one row a turn, with log-probabilities of every kind."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for trajectory in range(groups * samples):
        for turn in range(1 + int(rng.integers(2))):
            size = int(rng.integers(1, 6))
            old = -rng.random(size) * 3
            new = old + wide * rng.standard_normal(size)
            rows.append(
                {
                    "trajectory": trajectory, "turn": turn, "reward": float(rng.choice([0.0, 0.1, 0.3, 1.7])),
                    "group": (trajectory // samples) * 2 + turn, "old": old.tolist(), "new": new.tolist(),
                    "frozen": new.tolist(), "sampler": (old + 0.2 * rng.standard_normal(size)).tolist(),
                    "reference": (old + 0.3 * rng.standard_normal(size)).tolist(),
                    "old_value": float(rng.normal()), "value": float(rng.normal()),
                    "entropy": (2 * rng.random(size)).tolist(),
                }
            )  # fmt: skip
    # A turn whose group has one member would make the others' mean undefined for RLOO.
    counts = {group: sum(row["group"] == group for row in rows) for group in {row["group"] for row in rows}}
    return [row for row in rows if row["turn"] == 0 or counts[row["group"]] > 1]


def turns_of(rows: list[Row]) -> Turns:
    """The credit's columns; the return of a turn is its own reward, so that the papers' R_i is each row's reward."""
    reward = np.array([row["reward"] for row in rows])
    return Turns(
        group=np.array([row["group"] // 2 for row in rows]),
        trajectory=np.array([row["trajectory"] for row in rows]),
        turn=np.array([row["turn"] for row in rows]),
        score=reward,
        returns=reward,
        valid=np.ones(len(rows), bool),
    )


def padded(rows: list[Row], name: str) -> torch.Tensor:
    width = max(len(row["new"]) for row in rows) + 1
    return torch.tensor([row[name] + [9.0] * (width - len(row[name])) for row in rows], dtype=torch.float64)


def column(values: np.ndarray | list[float]) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))[:, None]


def loss_of(rows: list[Row], algorithm: AlgorithmSection) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the loss that this package makes of the rows, and its gradients: by each token, by each value."""
    critic = Critic(np.array([row["old_value"] for row in rows]), 0.4) if algorithm.has_value_head else None
    credit = assign(turns_of(rows), algorithm.estimator, algorithm.normalisation, critic)
    lengths = np.array([len(row["new"]) for row in rows])
    weights = row_weights(lengths, credit.counted, algorithm.aggregation)
    new = padded(rows, "new").requires_grad_()
    value = column([row["value"] for row in rows]).requires_grad_()
    mask = (torch.arange(new.shape[1])[None] < torch.from_numpy(lengths)[:, None]).double()
    values = None
    if credit.target is not None and credit.value is not None:
        values = ValueBatch(value, column(credit.value), column(credit.target), torch.full_like(value, 1 / len(rows)))
    loss = policy_loss(
        MicroBatch(
            logprobs_BT=new, entropy_BT=padded(rows, "entropy"), old_BT=padded(rows, "old"),
            sampler_BT=padded(rows, "sampler"), reference_BT=padded(rows, "reference"), mask_BT=mask,
            advantage_B1=column(credit.advantage), weight_B1=column(weights), critic=values,
        ),
        algorithm.objective,
    )  # fmt: skip
    loss.backward()
    assert new.grad is not None
    gradient = np.concatenate([new.grad[i, : lengths[i]].numpy() for i in range(len(rows))])
    return loss.item(), gradient, np.zeros(0) if value.grad is None else value.grad[:, 0].numpy()
