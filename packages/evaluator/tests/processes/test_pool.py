"""When a pool makes workers, and how many together. Every wait here is for a condition, with a deadline."""

import threading
from collections.abc import Callable

import pytest

from warpsmith.evaluator.processes.pool import Pool

DEADLINE_S = 20


class Ready:
    """What a pool needs of a worker that is ready."""

    alive = True

    def answers(self, timeout_s: float) -> bool:
        return True

    def mark_taken(self) -> None:
        """Nothing to measure."""

    def close(self) -> None:
        """Nothing to end."""


class Starts:
    """Counts the starts that have begun, and lets them end."""

    def __init__(self) -> None:
        self.state, self.begun, self.let = threading.Condition(), 0, 0

    def fork(self, role: str) -> Ready:
        with self.state:
            self.begun += 1
            number = self.begun
            self.state.notify_all()
            assert self.state.wait_for(lambda: self.let >= number, DEADLINE_S)
        return Ready()

    def end(self, count: int) -> None:
        """Let so many more starts end."""
        with self.state:
            self.let += count
            self.state.notify_all()

    def await_begun(self, count: int) -> None:
        with self.state:
            assert self.state.wait_for(lambda: self.begun >= count, DEADLINE_S), (self.begun, count)


@pytest.fixture
def pool_of():
    made: list[tuple[Pool, Starts]] = []

    def make(size: int, at_once: int, *, grouped: bool) -> tuple[Pool, Starts]:
        starts = Starts()
        pool = Pool("candidate", size, starts.fork, at_once, grouped=grouped)
        made.append((pool, starts))
        starts.end(size)
        starts.await_begun(size)
        wait_for(lambda: pool._ready.qsize() == size)
        return pool, starts

    yield make
    for pool, starts in made:
        starts.end(1000)
        pool.close()


def wait_for(condition: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(DEADLINE_S * 100):
        if condition():
            return
        moment.wait(0.01)
    raise AssertionError("it did not come about before the deadline")


def test_workers_are_made_together_while_half_of_the_pool_is_ready(pool_of):
    pool, starts = pool_of(8, 4, grouped=True)
    for _ in range(3):
        pool.take(DEADLINE_S)
    assert starts.begun == 8
    pool.take(DEADLINE_S)
    starts.await_begun(12)
    assert starts.begun == 12


def test_where_fewer_than_half_are_ready_what_was_held_back_is_made_at_once(pool_of):
    pool, starts = pool_of(4, 4, grouped=True)
    for taken, begun in ((1, 4), (2, 4), (3, 7)):
        pool.take(DEADLINE_S)
        starts.await_begun(begun)
        assert starts.begun == begun, taken


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("size", "at_once"), [(1, 1), (2, 2), (3, 2), (6, 4)])
def test_a_pool_is_never_empty_for_good(pool_of, size, at_once, grouped):
    pool, starts = pool_of(size, at_once, grouped=grouped)
    starts.end(1000)
    for _ in range(10 * size):
        pool.take(DEADLINE_S)
    wait_for(lambda: pool._ready.qsize() >= size - pool._held_back)
    assert pool._held_back < max(at_once, 2)


def test_others_are_made_one_for_one(pool_of):
    pool, starts = pool_of(4, 2, grouped=False)
    for number in range(1, 4):
        pool.take(DEADLINE_S)
        starts.end(1)
        starts.await_begun(4 + number)
    assert starts.begun == 7


def test_what_is_given_back_is_not_made_again(pool_of):
    pool, starts = pool_of(4, 4, grouped=True)
    worker = pool.take(DEADLINE_S)
    pool.give_back(worker)
    for _ in range(2):
        pool.take(DEADLINE_S)
    assert starts.begun == 4
    assert pool._held_back == 2
