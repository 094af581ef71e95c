"""Discounted returns of the turns of one episode, of one agent or several."""

from collections.abc import Hashable, Sequence

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


def discounted_by_agent(
    scores: Sequence[float], agents: Sequence[Hashable], gamma: float, handover_gamma: float = 0.0
) -> list[float]:
    """Return R_t = s_t + d_t R_(t+1) for every turn t; d_t is gamma within the turns of one agent.

    With one agent these are the returns of `discounted`, number for number.

    Args:
        scores: s_0 .. s_T, the scores of the turns in order.
        agents: who took each turn.
        gamma: discount from a turn to the next one of the same agent, in [0, 1].
        handover_gamma: d_t of an agent's last turn before another agent's first; with 0 each agent's turns are a chain
            of their own, and no score of the later agent is credited to the earlier one.
    """
    returns: list[float] = []
    following, next_agent = 0.0, agents[-1] if agents else None
    for score, agent in zip(reversed(scores), reversed(agents), strict=True):
        discount = gamma if agent == next_agent else handover_gamma
        # An unknown (NaN) return of another agent leaves a chain of its own known.
        following = score if agent != next_agent and not discount else score + discount * following
        returns.append(following)
        next_agent = agent
    return returns[::-1]
