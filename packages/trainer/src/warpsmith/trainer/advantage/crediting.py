"""Computes the credit of a batch of turns: penalties, the value head, the estimator. Collective."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsmith.trainer.advantage import Critic, assign
from warpsmith.trainer.advantage.penalties import overlong, shaped
from warpsmith.trainer.advantage.types import Credit
from warpsmith.trainer.config.algorithm import OverlongSection
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.forward_passes import reference_divergence, state_values
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import Reference
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.loss.objective_spec import Divergence
from warpsmith.trainer.rollouts.batch import credit_columns, sampled_logprobs, state_rows, temperature_of, token_rows

Figures = dict[str, float]


@dataclass(frozen=True)
class Crediting:
    """Computes the credit of a run's batches.

    Attributes:
        config: the configuration; `[algorithm]`, `[zero]` and the discounts of `[rollout]` are read.
        engine: the policy.
        reference: the frozen reference policy; None without a divergence.
        ranks: the processes.
    """

    config: TrainerConfig
    engine: ZeroEngine
    reference: Reference | None
    ranks: Ranks

    def credit(self, batch: pa.Table) -> tuple[Credit, Figures]:
        """Return the credit of a table of TURNS, and the mean penalties on its scores."""
        algorithm, rollout = self.config.algorithm, self.config.rollout
        discounts = rollout.gamma, rollout.handover_gamma
        turns = credit_columns(batch)
        figures: Figures = {}
        if algorithm.overlong is not None:
            penalty = self._overlong(batch, algorithm.overlong)
            turns = shaped(turns, penalty, *discounts)
            figures["overlong_penalty_mean"] = _mean(penalty[turns.valid])
        if self.reference is not None and algorithm.kl is not None and algorithm.kl.add_to == "reward":
            divergence = self.divergence(self.reference, batch, algorithm.kl.type)
            turns = shaped(turns, algorithm.kl.coefficient * divergence, *discounts)
            figures |= _divergence_figures(divergence, batch, algorithm.kl.coefficient)
        critic = self._critic(batch) if algorithm.has_value_head else None
        return assign(turns, algorithm.estimator, algorithm.normalisation, critic), figures

    def _overlong(self, batch: pa.Table, section: OverlongSection) -> NDArray[np.float64]:
        lengths, limits = (
            np.asarray(column.to_numpy(), np.int64)
            for column in (
                pc.list_value_length(batch["completion_ids"]), pc.struct_field(batch["sampling"], "max_tokens"),
            )
        )  # fmt: skip
        return section.penalty * overlong(lengths, limits, section.share)

    def divergence(self, reference: Reference, batch: pa.Table, kind: Divergence) -> NDArray[np.float64]:
        """Return each turn's divergence from the reference policy, summed over its tokens, (N,); 0 without tokens."""
        found = reference_divergence(
            reference, token_rows(batch), sampled_logprobs(batch), kind,
            temperature=temperature_of(batch), ranks=self.ranks, zero=self.config.zero,
        )  # fmt: skip
        return np.nan_to_num(found, nan=0.0)

    def _critic(self, batch: pa.Table) -> Critic:
        values = state_values(self.engine, state_rows(batch), self.ranks, self.config.zero)
        return Critic(values, self.config.rollout.gamma, self.config.rollout.handover_gamma)


def _divergence_figures(divergence: NDArray[np.float64], batch: pa.Table, coefficient: float) -> Figures:
    tokens = pc.sum(pc.list_value_length(batch["completion_ids"])).as_py() or 1
    return {"kl_penalty_mean": coefficient * _mean(divergence), "kl_reference": float(divergence.sum()) / tokens}


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0
