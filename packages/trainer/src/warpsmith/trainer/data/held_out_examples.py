"""Chooses held-out examples: whole problems, by a hash, so that adding data never moves one into training."""

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


def held_out(problem: npt.NDArray[np.uint64], count: int, seed: int) -> Bools:
    """Return (E,) True for the held-out examples: at least `count`, from as few problems as possible.

    A problem is held out if its hash, mixed with the seed, is among the lowest. The choice depends on nothing else: an
    added problem displaces at most one.

    Args:
        problem: (E,) hash of each example's problem.
        count: number of examples to hold out.
        seed: seed of the run.
    """
    if not count or not len(problem):
        return np.zeros(len(problem), dtype=np.bool_)
    place = _mixed(problem, seed)
    last = np.partition(place, min(count, len(place)) - 1)[min(count, len(place)) - 1]
    return np.asarray(place <= last)


def _mixed(values: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Return the values in an order that depends on the seed: splitmix64, a bijection for a given seed."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(seed % 2**64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))
