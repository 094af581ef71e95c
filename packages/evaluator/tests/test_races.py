import numpy as np
import pytest

from warpsmith.evaluator.languages.triton.interpreter.races import Lanes, are_distinct

START = 1 << 12


def at(*elements):
    return np.array([START + 4 * element for element in elements], dtype=np.uint64)


@pytest.fixture
def lanes():
    """Lanes 0 to 3 have stored elements 0 to 3 at moment 1."""
    found = Lanes(START, 64)
    found.store(1, np.arange(4), at(0, 1, 2, 3), 4)
    return found


def test_a_lane_may_load_what_it_stored_and_what_nobody_stored(lanes):
    assert lanes.exchanged(1, np.arange(6), at(0, 1, 2, 3, 4, 15), 4) is None


def test_a_lane_may_not_load_what_another_stored(lanes):
    assert lanes.exchanged(1, np.arange(4), at(0, 2, 1, 3), 4).tolist() == [False, True, True, False]


def test_after_a_barrier_every_lane_may_load(lanes):
    assert lanes.exchanged(2, np.arange(4), at(3, 2, 1, 0), 4) is None


def test_what_several_lanes_stored_alike_any_may_load(lanes):
    lanes.store(1, np.arange(4), at(7, 7, 7, 8), 4)
    assert lanes.exchanged(1, np.arange(4), at(7, 7, 7, 8), 4) is None
    assert lanes.exchanged(1, np.arange(4), at(8, 7, 7, 7), 4).tolist() == [True, False, False, False]


def test_addresses_that_rise_are_distinct():
    assert are_distinct(at(1, 2, 5))
    assert are_distinct(at(3))
    assert not are_distinct(at(1, 2, 2))
