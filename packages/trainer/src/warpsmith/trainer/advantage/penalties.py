"""Penalties subtracted from scores before credit: for long completions, and for divergence from the reference."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warpsmith.rollout.returns import discounted_by_agent
from warpsmith.trainer.advantage.types import Turns, Values


def overlong(lengths: NDArray[np.int64], limits: NDArray[np.int64], share: float) -> Values:
    """Return the penalty of each answer, from 0 to 1.

    0 up to L_max - L_cache tokens, (|y| - (L_max - L_cache)) / L_cache beyond, 1 at L_max. Source: soft overlong
    punishment, DAPO, arXiv 2503.14476, equation 13, whose reward is the negative of this.

    Args:
        lengths: |y|, completion tokens.
        limits: L_max, the maximum number of tokens.
        share: L_cache / L_max, in (0, 1].
    """
    cache = share * limits
    return np.clip((lengths - (limits - cache)) / cache, 0.0, 1.0)


def shaped(turns: Turns, penalty: Values, gamma: float, handover_gamma: float = 0.0) -> Turns:
    """Return the turns with s_t - penalty_t as their scores, and the returns of those scores.

    R_t as in `warpsmith.rollout.returns.discounted_by_agent`; NaN up to the last turn without a score. Penalties
    accumulate in `penalty`, which is 0 for a turn without a score.
    """
    score = np.where(turns.valid, turns.score - penalty, np.nan)
    returns = np.full(len(turns), np.nan)
    agents = np.zeros(len(turns), np.int64) if turns.agent is None else turns.agent
    for rows in turns.trajectories():
        returns[rows] = discounted_by_agent(score[rows].tolist(), agents[rows].tolist(), gamma, handover_gamma)
    taken_off = np.where(turns.valid, penalty, 0.0)
    if turns.penalty is not None:
        taken_off += turns.penalty
    return replace(turns, score=score, returns=returns, penalty=taken_off)
