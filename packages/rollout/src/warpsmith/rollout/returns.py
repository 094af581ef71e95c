"""Discounted returns of the turns of one episode."""

from collections.abc import Sequence

GAMMA = 0.4


def discounted(scores: Sequence[float], gamma: float = GAMMA) -> list[float]:
    """Return R_t = sum over i >= t of gamma^(i-t) * s_i for every turn t.

    Args:
        scores: s_0 .. s_T, the scores of the turns in order.
        gamma: discount in [0, 1]; 0.4 as in Kevin (arXiv 2507.11948).
    """
    returns: list[float] = []
    following = 0.0
    for score in reversed(scores):
        following = score + gamma * following
        returns.append(following)
    return returns[::-1]
