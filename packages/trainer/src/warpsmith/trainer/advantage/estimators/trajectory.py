"""Trajectory credit: the value of every turn is the whole trajectory's return R_0, with agents that of its agent."""

from typing import Literal

import numpy as np

from warpsmith.trainer.advantage.estimators.base import Critic, Estimator
from warpsmith.trainer.advantage.types import Samples, Turns


class TrajectoryReturn(Estimator):
    """R_0 for every turn, grouped by prompt group; a trajectory counts once in the baseline.

    With agents, the return of the agent's first turn, grouped by agent as well.

    A trajectory with an invalid turn has no known R_0, so all its turns are excluded.
    """

    type: Literal["trajectory"] = "trajectory"

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """See `Estimator.samples`."""
        value = np.full(len(turns), np.nan)
        for chain in np.unique(turns.chain):
            rows = np.flatnonzero(turns.chain == chain)
            first = rows[np.argmin(turns.turn[rows])]
            if turns.valid[rows].all():
                value[rows] = turns.returns[first]
        return Samples(value=value, group=turns.compared, unit=turns.chain)
