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
    """What credit needs of a batch of turns, one entry a turn.

    Attributes:
        group: which prompt group the turn belongs to, as an integer code.
        trajectory: which trajectory it belongs to, as an integer code; unique over groups.
        turn: its index in the trajectory, from 0.
        score: s_t; read only where `valid`.
        returns: R_t = sum over i >= t of gamma^(i-t) s_i; NaN where a later score is missing.
        valid: false where the turn has no score that the policy earned (an infrastructure failure).
        penalty: what was taken off `score`, 0 where there is none; None where nothing was taken off any.
    """

    group: Keys
    trajectory: Keys
    turn: Keys
    score: Values
    returns: Values
    valid: Flags
    penalty: Values | None = None

    def __len__(self) -> int:
        return len(self.group)

    def trajectories(self) -> Iterator[Keys]:
        """Yield the rows of each trajectory in the order of its turns."""
        order = np.lexsort((self.turn, self.trajectory))
        borders = np.flatnonzero(np.diff(self.trajectory[order])) + 1
        yield from (rows for rows in np.split(order, borders) if len(rows))


@dataclass(frozen=True)
class Samples:
    """What an estimator makes of the turns: the value to compare, and with whom.

    Attributes:
        value: what each turn is judged by; NaN where it is unknown.
        group: the baseline group of each turn, as an integer code.
        unit: turns of one unit share one value and count once in the baseline.
    """

    value: Values
    group: Keys
    unit: Keys


@dataclass(frozen=True)
class Credit:
    """Advantages, one for each turn, and counts of the groups.

    Attributes:
        advantage: 0 where `counted` is false.
        counted: true for turns whose value is known.
        groups: baseline groups with at least one known value.
        flat_groups: those of one member or of no spread; their advantages are 0.
        members: known values behind each turn's baseline, its own among them; 0 where `counted` is false.
        value: what a value function said of each turn; None without one.
        target: what it is to say, NaN where `counted` is false; None without one.
    """

    advantage: Values
    counted: Flags
    groups: int
    flat_groups: int
    members: Keys
    value: Values | None = None
    target: Values | None = None
