"""Generalised advantage estimation over turns: the baseline is a value function, not the group's other samples.

A turn is one action. Its state is the turn's prompt, which includes the earlier turns and their verdicts, so an
episode of T turns is a decision process of T steps:

    delta_t = s_t + gamma V_(t+1) - V_t,  A_t = sum over l >= 0 of (gamma lambda)^l delta_(t+l)

Source: GAE, arXiv 1506.02438, equations 11 to 16. An episode always ends by its own rules, so V is 0 after
its last turn and nothing is bootstrapped.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from warpsmith.trainer.advantage.estimators.base import Critic
from warpsmith.trainer.advantage.estimators.value import ValueEstimator
from warpsmith.trainer.advantage.types import Samples, Turns


class Gae(ValueEstimator):
    """A_t for every turn, all turns of the batch in one baseline group; NaN where a later score is missing.

    With agents, one group per agent, and an agent's process ends with its last turn unless `handover_gamma` couples it.

    Centring and scaling one group is the whitening of advantages over the batch in PPO's implementations.
    """

    type: Literal["gae"] = "gae"
    lam: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="Lambda: 0 looks one turn ahead (most bias), 1 takes whole returns (most variance). Gamma is "
        "rollout.gamma.",
    )

    def samples(self, turns: Turns, critic: Critic | None) -> Samples:
        """See `Estimator.samples`."""
        if critic is None:
            raise AssertionError("an estimator with a value head needs its values")
        advantage = np.full(len(turns), np.nan)
        agents = np.zeros(len(turns), np.int64) if turns.agent is None else turns.agent
        for rows in turns.trajectories():
            following, ahead, later = 0.0, 0.0, rows[-1]
            for row in reversed(rows):
                score = turns.score[row] if turns.valid[row] else np.nan
                if agents[row] == agents[later]:
                    gamma = critic.gamma
                else:
                    gamma = critic.handover_gamma
                    # An unknown (NaN) value of another agent leaves a process of its own known.
                    following, ahead = (following, ahead) if gamma else (0.0, 0.0)
                following = score + gamma * ahead - critic.value[row] + gamma * self.lam * following
                ahead, later = float(critic.value[row]), row
                advantage[row] = following
        return Samples(value=advantage, group=agents, unit=np.arange(len(turns), dtype=np.int64))
