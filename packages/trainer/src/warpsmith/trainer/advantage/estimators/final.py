"""Final credit: the value of every turn is the score of the trajectory's last turn."""

from typing import Literal

import numpy as np

from warpsmith.trainer.advantage.estimators.base import Critic, Estimator
from warpsmith.trainer.advantage.types import Samples, Turns


class FinalScore(Estimator):
    """s_T for every turn, grouped by prompt group; a trajectory counts once in the baseline.

    With agents, the score of the agent's last turn, grouped by agent as well.

    Only the last turn must be valid for its score to be known; invalid earlier turns are excluded. Penalties of earlier
    turns are subtracted from s_T too, undiscounted, because earlier scores do not count otherwise.
    """

    type: Literal["final"] = "final"

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """See `Estimator.samples`."""
        value = np.full(len(turns), np.nan)
        for chain in np.unique(turns.chain):
            rows = np.flatnonzero(turns.chain == chain)
            last = rows[np.argmax(turns.turn[rows])]
            if turns.valid[last]:
                earlier = 0.0 if turns.penalty is None else turns.penalty[rows].sum() - turns.penalty[last]
                value[rows] = np.where(turns.valid[rows], turns.score[last] - earlier, np.nan)
        return Samples(value=value, group=turns.compared, unit=turns.chain)
