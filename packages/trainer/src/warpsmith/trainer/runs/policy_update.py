# ruff: noqa: N815  the suffix is the tensor's shape
"""Policy updates over a batch of turns: micro-batches, loss, gradient, metrics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.micro_batches import dealt_to, micro_batches_of
from warpsmith.trainer.distributed.optimizer import learning_rate
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import Reference
from warpsmith.trainer.distributed.rows import Floats, PaddedRows, pad, pad_rows
from warpsmith.trainer.distributed.value_head import first_marked_value
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.loss.aggregations import row_weights
from warpsmith.trainer.loss.aggregations.token_mean import TokenMean
from warpsmith.trainer.loss.metrics import (
    CRITIC_SUMS,
    ROW_SUMS,
    SUMS,
    critic_figures,
    critic_sums,
    figures,
    row_figures,
    row_sums,
    token_sums,
)
from warpsmith.trainer.loss.objective_spec import ObjectiveSpec
from warpsmith.trainer.loss.policy_loss import MicroBatch, policy_loss
from warpsmith.trainer.loss.value_loss import ValueBatch
from warpsmith.trainer.rollouts.batch import TrainingTurns

_LARGEST = ROW_SUMS.index("ratio_max")


@dataclass(frozen=True)
class Plan:
    """One rank's share of one update: micro-batches as lists of row indices; an empty one is run with padding only.

    Attributes:
        mine: this rank's micro-batches.
        weights_N: weight of each completion token of a row.
        turn_weights_N: weight of each row in the value's loss, which counts turns.
    """

    mine: Sequence[Sequence[int]]
    weights_N: NDArray[np.float64]
    turn_weights_N: NDArray[np.float64]


@dataclass(frozen=True)
class Updated:
    """Results of the updates of a batch.

    Attributes:
        made: number of updates made; one without a gradient does not count.
        figures: over the whole batch: loss, grad_norm, learning_rate, `loss.metrics.figures` and, with a value head,
            `loss.metrics.critic_figures`; for a batch without an update only `updates`, which is 0.
        rows: `loss.metrics.row_figures` of each of the N turns; NaN for a turn that was not run through the policy,
            because it does not count or its advantage is 0.
    """

    made: int
    figures: Mapping[str, float]
    rows: Mapping[str, NDArray[np.float64]]


class _Sums:
    """Sums over this rank's micro-batches of a batch of N turns."""

    def __init__(self, turns: int) -> None:
        self.batch = torch.zeros(len(SUMS) + 1, dtype=torch.float64)
        self.critic = torch.zeros(len(CRITIC_SUMS), dtype=torch.float64)
        self.rows_NF = torch.zeros((turns, len(ROW_SUMS)), dtype=torch.float64)

    def add(self, batch: MicroBatch, spec: ObjectiveSpec, numbers: Sequence[int], loss: Tensor) -> None:
        """Add a micro-batch with the turns `numbers`; without turns its one row is padding."""
        self.batch[:-1] += token_sums(batch, spec).cpu()
        self.batch[-1] += float(loss.detach())
        if batch.critic is not None:
            self.critic += critic_sums(batch.critic).cpu()
        if numbers:
            self._add_rows(list(numbers), row_sums(batch, spec).cpu())

    def _add_rows(self, numbers: list[int], sums_BF: Tensor) -> None:
        """Add the sums of rows; over epochs the maximum is kept."""
        largest_B = torch.maximum(self.rows_NF[numbers, _LARGEST], sums_BF[:, _LARGEST])
        self.rows_NF[numbers] += sums_BF
        self.rows_NF[numbers, _LARGEST] = largest_B


class PolicyUpdate:
    """Trains an engine on batches of turns.

    Args:
        engine: the policy.
        reference: the frozen reference policy; None without a divergence term.
        ranks: the processes.
        config: the run's configuration; `[algorithm]`, `[optimizer]` and `[zero]` are read.
    """

    def __init__(self, engine: ZeroEngine, reference: Reference | None, ranks: Ranks, config: TrainerConfig) -> None:
        self.engine = engine
        self.ranks = ranks
        self.algorithm = config.algorithm
        self.spec = config.algorithm.objective
        # If the divergence is in the reward, it was computed before.
        self._reference_in_loss = reference if self.spec.kl_coefficient else None
        self.optimizer = config.optimizer
        self.zero = config.zero
        self.step_updates = config.algorithm.updates_per_step * config.algorithm.epochs_per_step
        self.total_updates = config.run.steps * self.step_updates
        self._agents: tuple[str | None, ...] = engine.agents or (None,)

    def run(self, turns: TrainingTurns, done: int, progress: Callable[[int, int], None] | None = None) -> Updated:
        """Make the batch's updates; collective.

        With an adapter for each agent, each adapter gets its own update, on its agent's turns only: normalised over
        them, clipped separately, with this adapter's optimizer state. One without turns is unchanged.

        The learning rate depends on an update's place in the run's plan, so that its schedule ends as planned although
        updates without a gradient are skipped.

        Args:
            turns: the batch, the same on every rank.
            done: steps of the run so far.
            progress: called with (micro-batches done, of how many) of an update.
        """
        old = self.recomputed(turns) if self.algorithm.old_logprobs == "recompute" else list(turns.sampler)
        self.engine.train()
        sums = _Sums(len(turns.rows))
        norms: list[float] = []
        rate = 0.0
        for place, number in enumerate(self._updates(), start=done * self.step_updates):
            for agent in self._agents:
                plan = self._plan(turns, turns.counted & (turns.update == number), agent)
                if plan is None:
                    continue
                rate = learning_rate(self.optimizer, place, self.total_updates)
                self.engine.act_as(agent)
                self._accumulate(turns, plan, old, sums, progress)
                norms.append(self.engine.step(rate, agent))
        return Updated(len(norms), self._figures(sums, norms, rate), self._row_figures(sums))

    def _updates(self) -> Iterator[int]:
        """Yield the part of the batch that each update takes."""
        for _ in range(self.algorithm.epochs_per_step):
            yield from range(self.algorithm.updates_per_step)

    def _figures(self, sums: _Sums, norms: Sequence[float], rate: float) -> dict[str, float]:
        totals = self.ranks.total(sums.batch)
        if not norms:
            return {"updates": 0.0}
        found = {**figures(totals[:-1]), **critic_figures(self.ranks.total(sums.critic))}
        found |= {"loss": float(totals[-1]) / len(norms), "learning_rate": rate, "updates": float(len(norms))}
        if self._reference_in_loss is None:
            found.pop("kl_reference", None)
        return found | {"grad_norm": float(np.mean(norms)), "grad_norm_max": max(norms)}

    def _row_figures(self, sums: _Sums) -> Mapping[str, NDArray[np.float64]]:
        return row_figures(self.ranks.total(sums.rows_NF), reference=self._reference_in_loss is not None)

    def _plan(self, turns: TrainingTurns, counted: NDArray[np.bool_], agent: str | None) -> Plan | None:
        """Return this rank's share of an update of an agent's adapter, or None if no row has a gradient."""
        if agent is not None:
            counted = counted & (turns.agent == agent)
        weights = row_weights(turns.lengths, counted, self.algorithm.aggregation)
        useful = weights > 0
        if not self.spec.needs_every_row:
            # Such rows have a gradient of exactly 0. They still count in the normalisation.
            useful &= turns.advantage != 0
        rows = np.flatnonzero(useful)
        if not len(rows):
            return None
        lengths = [len(turns.rows[row]) for row in rows]
        batches = micro_batches_of(lengths, self.zero, self.ranks)
        named = [[int(rows[i]) for i in batch] for batch in batches]
        turn_weights = row_weights(np.ones_like(turns.lengths), counted & (turns.lengths > 0), TokenMean())
        return Plan(dealt_to(self.ranks, named), weights, turn_weights)

    def _accumulate(
        self,
        turns: TrainingTurns,
        plan: Plan,
        old: Sequence[Floats],
        sums: _Sums,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Accumulate the gradient and the sums of this rank's micro-batches."""
        for done, numbers in enumerate(plan.mine, start=1):
            batch = self._micro_batch(turns, plan, old, numbers)
            loss = policy_loss(batch, self.spec)
            self.engine.accumulate(loss, last=done == len(plan.mine))
            sums.add(batch, self.spec, numbers, loss)
            if progress is not None:
                progress(done, len(plan.mine))

    def _micro_batch(
        self, turns: TrainingTurns, plan: Plan, old: Sequence[Floats], numbers: Sequence[int]
    ) -> MicroBatch:
        padded = pad_rows([turns.rows[i] for i in numbers], self.ranks.device)
        reference_BT = None
        if self._reference_in_loss is not None:
            # Before the policy's own pass: the reference can be the same model without its adapters.
            reference_BT = self._reference_in_loss.logprobs(padded, turns.temperature)
        found = self.engine.figures(padded, turns.temperature)
        mask_BT = padded.mask_BT.to(found.logprobs_BT.dtype)
        return MicroBatch(
            logprobs_BT=found.logprobs_BT,
            entropy_BT=found.entropy_BT,
            old_BT=self._aligned(old, numbers, padded),
            sampler_BT=self._aligned(turns.sampler, numbers, padded),
            reference_BT=reference_BT,
            mask_BT=mask_BT,
            advantage_B1=self._column(turns.advantage, numbers),
            weight_B1=self._column(plan.weights_N, numbers),
            critic=self._critic(turns, plan, numbers, found.value_BT, padded),
        )

    def _critic(
        self,
        turns: TrainingTurns,
        plan: Plan,
        numbers: Sequence[int],
        value_BT: Tensor | None,
        padded: PaddedRows,
    ) -> ValueBatch | None:
        """Return the inputs of the value head's loss; None without a value head."""
        if turns.value is None or turns.target is None:
            return None
        return ValueBatch(
            value_B1=first_marked_value(value_BT, padded.mask_BT),
            old_B1=self._column(turns.value, numbers),
            target_B1=self._column(turns.target, numbers),
            weight_B1=self._column(plan.turn_weights_N, numbers),
        )

    def _aligned(self, values: Sequence[Floats], numbers: Sequence[int], padded: PaddedRows) -> Tensor:
        if not numbers:
            return torch.zeros_like(padded.ids_BT, dtype=torch.float32)
        return pad([values[i] for i in numbers], padded.ids_BT.shape[1], self.ranks.device)

    def _column(self, values: NDArray[np.float64], numbers: Sequence[int]) -> Tensor:
        chosen = values[list(numbers)] if numbers else np.zeros(1)
        return torch.from_numpy(chosen.astype(np.float32)).to(self.ranks.device)[:, None]

    def recomputed(self, turns: TrainingTurns) -> list[Floats]:
        """Return the policy's own log-probabilities before the first update; each rank computes its share.

        In evaluation mode, as in the sampler: dropout would add noise to every ratio. A rank needs only the rows that
        it will train on, which are the same in every update's plan.
        """
        old: list[Floats] = [np.zeros(len(row), np.float32) for row in turns.rows]
        self.engine.train(False)
        with torch.no_grad():
            for number, agent in product(range(self.algorithm.updates_per_step), self._agents):
                plan = self._plan(turns, turns.counted & (turns.update == number), agent)
                self.engine.act_as(agent)
                for numbers in plan.mine if plan else ():
                    padded = pad_rows([turns.rows[i] for i in numbers], self.ranks.device)
                    logprobs_BT, _ = self.engine.logprobs(padded, turns.temperature)
                    for row, values_T in zip(numbers, logprobs_BT.cpu().numpy(), strict=False):
                        old[row] = values_T[: len(turns.rows[row])]
        return old
