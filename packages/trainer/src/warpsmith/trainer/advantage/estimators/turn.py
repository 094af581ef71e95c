"""Turn credit: each turn is its own sample, with the value R_t, compared with the same turn of its prompt group."""

from typing import Literal

import numpy as np

from warpsmith.trainer.advantage.estimators.base import Critic, Estimator
from warpsmith.trainer.advantage.types import Samples, Turns


class TurnReturn(Estimator):
    """R_t = sum over i >= t of gamma^(i-t) s_i, grouped by prompt group, agent and index among the agent's turns.

    Source: Kevin, arXiv 2507.11948 (each turn a sample with its own return); grouping by turn index as well,
    because R_t of different turns have different distributions: Dr.Kernel, arXiv 2602.05885.
    """

    type: Literal["turn"] = "turn"

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """See `Estimator.samples`."""
        own_turn = turns.own_turn
        stride = int(own_turn.max()) + 1 if len(turns) else 1
        return Samples(
            value=np.where(turns.valid, turns.returns, np.nan),
            group=turns.compared * stride + own_turn,
            unit=np.arange(len(turns), dtype=np.int64),
        )
