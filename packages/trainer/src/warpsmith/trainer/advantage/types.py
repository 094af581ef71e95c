"""Inputs and outputs of credit, as columns; N is the number of turns in a batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Values = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Turns:
    """The inputs of credit for a batch of turns, one entry per turn.

    Attributes:
        group: the turn's prompt group, as an integer code.
        trajectory: the turn's trajectory, as an integer code; unique across groups.
        turn: its index in the trajectory, from 0.
        score: s_t; read only where `valid`.
        returns: R_t = sum over i >= t of gamma^(i-t) s_i; NaN if a later score is missing.
        valid: false if the policy did not earn the turn's outcome (an infrastructure failure).
        penalty: subtracted from `score` so far, 0 without a score; None if nothing was subtracted.
        agent: who took the turn, as an integer code from 0; None where there are no agents. Turns of different agents
            are never compared.
    """

    group: Keys
    trajectory: Keys
    turn: Keys
    score: Values
    returns: Values
    valid: Flags
    penalty: Values | None = None
    agent: Keys | None = None

    def __len__(self) -> int:
        return len(self.group)

    @property
    def compared(self) -> Keys:
        """The turns that may be compared: a code of the prompt group and the agent."""
        return self._with_agent(self.group)

    @property
    def chain(self) -> Keys:
        """The turns whose returns follow from each other: a code of the trajectory and the agent."""
        return self._with_agent(self.trajectory)

    @property
    def own_turn(self) -> Keys:
        """The turn's index among those of its agent in the trajectory, from 0."""
        if self.agent is None:
            return self.turn
        found = self.turn.copy()
        for rows in self.trajectories():
            agents = self.agent[rows]
            found[rows] -= [np.count_nonzero(agents[:place] != one) for place, one in enumerate(agents)]
        return found

    def _with_agent(self, keys: Keys) -> Keys:
        if self.agent is None or not len(self.agent):
            return keys
        return keys * (int(self.agent.max()) + 1) + self.agent

    def trajectories(self) -> Iterator[Keys]:
        """Yield the rows of each trajectory, ordered by turn."""
        order = np.lexsort((self.turn, self.trajectory))
        borders = np.flatnonzero(np.diff(self.trajectory[order])) + 1
        yield from (rows for rows in np.split(order, borders) if len(rows))


@dataclass(frozen=True)
class Samples:
    """Output of an estimator: the value of each turn, and the group it is compared with.

    Attributes:
        value: value of each turn; NaN if unknown.
        group: the baseline group of each turn, as an integer code.
        unit: turns of one unit share one value and count once in the baseline.
    """

    value: Values
    group: Keys
    unit: Keys


@dataclass(frozen=True)
class Credit:
    """Advantages, one per turn, and counts of the groups.

    Attributes:
        advantage: 0 where `counted` is false.
        counted: true for turns whose value is known.
        groups: baseline groups with at least one known value.
        flat_groups: groups of one member or without spread; their advantages are 0.
        members: known values behind each turn's baseline, including its own; 0 where `counted` is false.
        value: the value head's output for each turn; None without a value head.
        target: its training target, NaN where `counted` is false; None without a value head.
    """

    advantage: Values
    counted: Flags
    groups: int
    flat_groups: int
    members: Keys
    value: Values | None = None
    target: Values | None = None
