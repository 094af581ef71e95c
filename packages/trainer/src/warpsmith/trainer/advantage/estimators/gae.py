"""Generalised advantage estimation over turns: a value function is the baseline, not the other samples of the group.

A turn is one action. Its state is the turn's prompt, which holds the earlier turns and their verdicts, so an episode
of T turns is a decision process of T steps:

    delta_t = s_t + gamma V_(t+1) - V_t,  A_t = sum over l >= 0 of (gamma lambda)^l delta_(t+l)

Source: GAE, arXiv 1506.02438, equations 11 to 16. An episode always ends by its own rules, so V is 0 after
its last turn and nothing is bootstrapped.
"""

from dataclasses import dataclass

import numpy as np

from warpsmith.trainer.advantage.types import Samples, Turns, Values


@dataclass(frozen=True)
class Critic:
    """What a value function says of N turns.

    Attributes:
        value: V of each turn's prompt, (N,).
        gamma: discount of the next turn.
        lam: lambda, from 0 (one step, the most bias) to 1 (whole returns, the most variance).
    """

    value: Values
    gamma: float
    lam: float


def samples(turns: Turns, critic: Critic) -> Samples:
    """Return A_t for every turn, all turns of the batch in one baseline group; NaN where a later score is missing.

    Centring and scaling one group is the whitening of advantages over the batch that PPO's implementations do.
    """
    advantage = np.full(len(turns), np.nan)
    for rows in turns.trajectories():
        following, ahead = 0.0, 0.0
        for row in reversed(rows):
            score = turns.score[row] if turns.valid[row] else np.nan
            following = score + critic.gamma * ahead - critic.value[row] + critic.gamma * critic.lam * following
            ahead = float(critic.value[row])
            advantage[row] = following
    return Samples(value=advantage, group=np.zeros(len(turns), np.int64), unit=np.arange(len(turns), dtype=np.int64))
