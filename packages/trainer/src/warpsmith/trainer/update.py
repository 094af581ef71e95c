# ruff: noqa: N815  the suffix is the tensor's shape
"""One policy update after another over a batch of turns: micro-batches, loss, gradient, figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.engine.optimizer import learning_rate
from warpsmith.trainer.engine.plan import deal, micro_batches
from warpsmith.trainer.engine.ranks import Ranks
from warpsmith.trainer.engine.reference import Reference
from warpsmith.trainer.engine.rows import Floats, PaddedRows, pad, pad_rows
from warpsmith.trainer.engine.zero import ZeroEngine
from warpsmith.trainer.objective.aggregate import row_weights
from warpsmith.trainer.objective.loss import MicroBatch, policy_loss
from warpsmith.trainer.objective.metrics import ROW_SUMS, SUMS, figures, row_figures, row_sums, token_sums
from warpsmith.trainer.objective.spec import ObjectiveSpec
from warpsmith.trainer.turns import TrainingTurns


@dataclass(frozen=True)
class Plan:
    """One rank's share of one update: micro-batches as lists of row numbers; an empty one is done without rows."""

    mine: Sequence[Sequence[int]]
    weights_N: NDArray[np.float64]


@dataclass(frozen=True)
class Updated:
    """What the updates of a batch came to.

    Attributes:
        made: how many updates were made; one without a gradient is none.
        figures: over the whole batch: loss, grad_norm, learning_rate and `objective.metrics.figures`.
        rows: of each of the N turns, `objective.metrics.row_figures`; NaN for a turn that was not passed through the
            policy, because it did not count or its advantage is 0.
    """

    made: int
    figures: Mapping[str, float]
    rows: Mapping[str, NDArray[np.float64]]


class _Sums:
    """What the micro-batches of a batch of N turns add up to, on this rank."""

    def __init__(self, turns: int) -> None:
        self.batch = torch.zeros(len(SUMS) + 1, dtype=torch.float64)
        self.rows_NF = torch.zeros((turns, len(ROW_SUMS)), dtype=torch.float64)

    def add(self, batch: MicroBatch, spec: ObjectiveSpec, numbers: Sequence[int], loss: Tensor) -> None:
        """Add a micro-batch that holds the turns `numbers`; without turns its one row is padding."""
        self.batch[:-1] += token_sums(batch, spec).cpu()
        self.batch[-1] += float(loss.detach())
        if numbers:
            self.rows_NF[list(numbers)] += row_sums(batch, spec).cpu()


class PolicyUpdate:
    """Trains an engine on batches of turns.

    Args:
        engine: the policy.
        reference: the frozen reference policy; None where there is no divergence term.
        ranks: the processes.
        config: the run's configuration; `[algorithm]`, `[optimizer]` and `[zero]` are read.
    """

    def __init__(self, engine: ZeroEngine, reference: Reference | None, ranks: Ranks, config: TrainerConfig) -> None:
        self.engine = engine
        self.reference = reference
        self.ranks = ranks
        self.algorithm = config.algorithm
        self.spec = config.algorithm.objective
        self.optimizer = config.optimizer
        self.zero = config.zero
        self.total_updates = config.run.steps * config.algorithm.updates_per_step

    def run(self, turns: TrainingTurns, done: int, progress: Callable[[int, int], None] | None = None) -> Updated:
        """Make the batch's updates; collective.

        Args:
            turns: the batch, the same on every rank.
            done: updates of the run so far.
            progress: called with (micro-batches done, of how many) of an update.
        """
        self.engine.train()
        old = self._recomputed(turns) if self.algorithm.old_logprobs == "recompute" else list(turns.sampler)
        sums = _Sums(len(turns.rows))
        made, norms, rate = 0, [], 0.0
        for number in range(self.algorithm.updates_per_step):
            plan = self._plan(turns, turns.counted & (turns.update == number))
            if plan is None:
                continue
            rate = learning_rate(self.optimizer, done + made, self.total_updates)
            self._accumulate(turns, plan, old, sums, progress)
            norms.append(self.engine.step(rate))
            made += 1
        totals = self.ranks.total(sums.batch)
        rows = row_figures(self.ranks.total(sums.rows_NF), reference=self.reference is not None)
        found = dict(figures(totals[:-1]))
        found |= {"loss": float(totals[-1]) / max(made, 1), "learning_rate": rate, "updates": float(made)}
        return Updated(made, found | ({"grad_norm": float(np.mean(norms))} if norms else {}), rows)

    def _plan(self, turns: TrainingTurns, counted: NDArray[np.bool_]) -> Plan | None:
        """Return this rank's share of an update, or None where no row has a gradient."""
        weights = row_weights(turns.lengths, counted, self.algorithm.aggregation, self.algorithm.constant_length)
        useful = weights > 0
        if not self.spec.needs_every_row:
            # Such rows have a gradient of exactly 0. They stay in the normalisation.
            useful &= turns.advantage != 0
        rows = np.flatnonzero(useful)
        if not len(rows):
            return None
        lengths = [len(turns.rows[row]) for row in rows]
        zero, world = self.zero, self.ranks.world
        batches = micro_batches(lengths, zero.micro_batch_tokens, packed=zero.packing, world=world)
        named = [[int(rows[i]) for i in batch] for batch in batches]
        return Plan(deal(named, world)[self.ranks.rank], weights)

    def _accumulate(
        self,
        turns: TrainingTurns,
        plan: Plan,
        old: Sequence[Floats],
        sums: _Sums,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Add up the gradient and the sums of this rank's micro-batches."""
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
        logprobs_BT, entropy_BT = self.engine.logprobs(padded, turns.temperature)
        reference_BT = None
        if self.reference is not None:
            reference_BT = self.reference.logprobs(padded, turns.temperature)
        mask_BT = padded.mask_BT.to(logprobs_BT.dtype)
        return MicroBatch(
            logprobs_BT=logprobs_BT,
            entropy_BT=entropy_BT,
            old_BT=self._aligned(old, numbers, padded),
            sampler_BT=self._aligned(turns.sampler, numbers, padded),
            reference_BT=reference_BT,
            mask_BT=mask_BT,
            advantage_B1=self._column(turns.advantage, numbers),
            weight_B1=self._column(plan.weights_N, numbers),
        )

    def _aligned(self, values: Sequence[Floats], numbers: Sequence[int], padded: PaddedRows) -> Tensor:
        if not numbers:
            return torch.zeros_like(padded.ids_BT, dtype=torch.float32)
        return pad([values[i] for i in numbers], padded.ids_BT.shape[1], self.ranks.device)

    def _column(self, values: NDArray[np.float64], numbers: Sequence[int]) -> Tensor:
        chosen = values[list(numbers)] if numbers else np.zeros(1)
        return torch.from_numpy(chosen.astype(np.float32)).to(self.ranks.device)[:, None]

    def _recomputed(self, turns: TrainingTurns) -> list[Floats]:
        """Return the policy's own log-probabilities before the first update; each rank computes its share's.

        A rank needs only the rows that it will train on, which are the same rows in every update's plan.
        """
        old: list[Floats] = [np.zeros(len(row), np.float32) for row in turns.rows]
        with torch.no_grad():
            for number in range(self.algorithm.updates_per_step):
                plan = self._plan(turns, turns.counted & (turns.update == number))
                for numbers in plan.mine if plan else ():
                    padded = pad_rows([turns.rows[i] for i in numbers], self.ranks.device)
                    logprobs_BT, _ = self.engine.logprobs(padded, turns.temperature)
                    for row, values_T in zip(numbers, logprobs_BT.cpu().numpy(), strict=False):
                        old[row] = values_T[: len(turns.rows[row])]
        return old
