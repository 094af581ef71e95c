"""Where an evaluation's time goes."""

import threading

import pytest

from warpsmith.evaluator.processes import phases
from warpsmith.evaluator.processes.lease import USES, Lease
from warpsmith.evaluator.processes.phases import PHASES, PhaseClock, in_phase


@pytest.fixture
def clock(monkeypatch):
    """A clock whose hands the test moves: `clock.now`."""
    made = PhaseClock()
    made.now = 0.0
    monkeypatch.setattr(phases.time, "monotonic", lambda: made.now)
    return made


def test_each_second_counts_for_the_innermost_phase(clock):
    clock.now = 5.0
    with clock.phase("correctness"):
        clock.now += 1
        with clock.phase("lease"):
            clock.now += 2
            with clock.phase("correctness"):
                clock.now += 4
        clock.now += 8
    clock.now += 16
    assert clock.take() == {**dict.fromkeys(PHASES, 0.0), "correctness": 13.0, "lease": 2.0}
    assert set(clock.take().values()) == {0.0}


def test_a_phase_that_ends_in_an_error_is_left(clock):
    with pytest.raises(KeyError), clock.phase("timing"):
        clock.now += 1
        raise KeyError
    clock.now += 2
    assert clock.take()["timing"] == 1.0


def test_threads_are_counted_apart(clock):
    with clock.phase("timing"):
        clock.now += 1
        other = threading.Thread(target=lambda: clock.phase("workers").__enter__())
        other.start()
        other.join()
        clock.now += 1
    assert (clock.take()["timing"], clock.take()["workers"]) == (2.0, 0.0)


def test_a_method_of_what_has_a_machine_is_counted(clock):
    class Run:
        machine = type("Machine", (), {"clock": clock})

        @in_phase("timing")
        def waits(self, seconds, *, more):
            clock.now += seconds + more
            return "done"

    assert Run().waits(1, more=2) == "done"
    assert clock.take()["timing"] == 3.0


def test_waiting_for_a_device_that_others_use_is_counted(clock, monkeypatch):
    lease, waits, waited = Lease(clock), threading.Event(), []
    wait_for = threading.Condition.wait_for

    def noted(condition, predicate, timeout=None):
        """Called with the lock held: nobody gets on before this thread waits for it."""
        waits.set()
        return wait_for(condition, predicate, timeout)

    monkeypatch.setattr(threading.Condition, "wait_for", noted)

    def shares():
        with lease.shared():
            waited.append(clock.take()["lease"])

    with lease.alone():
        waits.clear()
        waiter = threading.Thread(target=shares)
        waiter.start()
        assert waits.wait(60)
        clock.now += 3
    waiter.join()
    assert waited == [3.0]


@pytest.mark.parametrize("beside", [False, True])
def test_each_second_counts_for_one_use_of_the_device(monkeypatch, beside):
    now = [0.0]
    monkeypatch.setattr(phases.time, "monotonic", lambda: now[0])
    lease = Lease(driver_beside=beside)
    now[0] += 1
    with lease.shared():
        now[0] += 2
        with lease.driving() as must_borrow:
            now[0] += 4
            with lease.shared():
                now[0] += 8
            now[0] += 16
        with lease.released():
            now[0] += 32
        now[0] += 64
    with lease.alone():
        now[0] += 128
        with lease.shared(), lease.driving():
            now[0] += 256
    now[0] += 512
    lent = 8 if must_borrow else 0
    expected = {"shared": 66 + lent, "driver": 28 - lent, "without": 32, "alone": 384}
    assert lease.uses.take() == {**dict.fromkeys(USES, 0.0), **expected}
    assert must_borrow == beside


def test_a_verdict_says_where_its_time_went(evaluator, add_problem, add_candidate):
    spent = evaluator.evaluate(add_problem, f"{add_candidate}\n# phases\n").seconds
    parts = [getattr(spent, name) for name in PHASES]
    assert min(parts) >= 0.0
    assert spent.correctness > 0.0
    assert 0.0 < sum(parts) <= spent.evaluate + 1e-3
    assert (spent.timing, spent.age) == (0.0, 0.0)
    assert (spent.alone, spent.alone_wait) == (0.0, 0.0)
    assert min(spent.shared, spent.driver) > 0.0
    assert spent.shared + spent.driver + spent.lease < spent.evaluate
