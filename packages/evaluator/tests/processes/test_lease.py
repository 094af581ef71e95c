"""Who may use the device beside whom. Every wait here is for a condition, with a deadline."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext

import pytest

from warpsmith.evaluator.processes.device_lock import DeviceLock
from warpsmith.evaluator.processes.lease import MOST_IN_A_ROW, Lease

DEADLINE_S = 20


class Holder:
    """A thread that takes a lease in one way and holds it until it is asked to let go."""

    def __init__(self, lease: Lease, way: str) -> None:
        self.holds, self._go = threading.Event(), threading.Event()
        self.ended: Future[None] = Future()
        self._take = getattr(lease, way)
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()

    def _hold(self) -> None:
        try:
            with self._take():
                self.holds.set()
                assert self._go.wait(DEADLINE_S)
            self.ended.set_result(None)
        except BaseException as error:
            self.ended.set_exception(error)

    def held(self) -> "Holder":
        assert self.holds.wait(DEADLINE_S)
        return self

    def release(self) -> None:
        self._go.set()
        self.ended.result(DEADLINE_S)


class Watched(Lease):
    """A lease that tells when a thread waits in it."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self._waiting = 0
        wait_for = self._state.wait_for

        def counted(predicate, timeout=None):
            """Called with the lock held, which is let go of only once this thread is among those to be notified."""
            self._waiting += not predicate()
            self._state.notify_all()
            return wait_for(predicate, timeout)

        self._state.wait_for = counted
        self._wait_for = wait_for

    def await_waiting(self, count: int) -> None:
        with self._state:
            assert self._wait_for(lambda: self._waiting >= count, DEADLINE_S)


@pytest.fixture
def lease() -> Watched:
    return Watched()


@contextmanager
def holding(lease: Lease, *ways: str) -> Iterator[list[Holder]]:
    with ExitStack() as stack:
        holders = [Holder(lease, way) for way in ways]
        for holder in holders:
            stack.callback(holder.release)
        yield [holder.held() for holder in holders]


def test_many_share_at_once(lease):
    with holding(lease, *["shared"] * 5) as holders:
        assert all(holder.holds.is_set() for holder in holders)


@pytest.mark.parametrize(
    ("first", "then"),
    [("shared", "alone"), ("alone", "shared"), ("alone", "alone"), ("starting", "alone"), ("alone", "starting")],
)
def test_nobody_is_beside_one_that_is_alone(lease, first, then):
    with holding(lease, first) as (holder,):
        later = Holder(lease, then)
        lease.await_waiting(1)
        assert not later.holds.is_set()
        holder.release()
        later.held().release()


def test_the_last_that_shares_lets_one_be_alone(lease):
    with holding(lease, "shared", "shared") as (one, two):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        one.release()
        # One more that waits has had the lock after the first let go: were that enough, this would tell.
        newcomer = Holder(lease, "shared")
        lease.await_waiting(2)
        assert not alone.holds.is_set()
        two.release()
        alone.held().release()
        newcomer.held().release()


def test_who_wants_it_alone_is_waited_for_by_newcomers(lease):
    with holding(lease, "shared") as (holder,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        newcomer = Holder(lease, "shared")
        lease.await_waiting(2)
        assert not newcomer.holds.is_set()
        holder.release()
        alone.held()
        assert not newcomer.holds.is_set()
        alone.release()
        newcomer.held().release()


def test_while_a_process_starts_others_share_although_one_wants_to_be_alone(lease):
    with holding(lease, "starting") as (start,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        sharer = Holder(lease, "shared").held()
        next_start = Holder(lease, "starting")
        lease.await_waiting(2)
        assert not next_start.holds.is_set()
        start.release()
        lease.await_waiting(3)
        newcomer = Holder(lease, "shared")
        lease.await_waiting(4)
        assert not (alone.holds.is_set() or newcomer.holds.is_set())
        sharer.release()
        alone.held()
        assert not (next_start.holds.is_set() or newcomer.holds.is_set())
        alone.release()
        next_start.held().release()
        newcomer.held().release()


def test_as_many_starts_as_go_together_join_although_one_wants_to_be_alone():
    lease = Watched(starts_together=3)
    with holding(lease, "starting") as (first,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        second = Holder(lease, "starting").held()
        first.release()
        third = Holder(lease, "starting").held()
        fourth = Holder(lease, "starting")
        lease.await_waiting(2)
        assert not (fourth.holds.is_set() or alone.holds.is_set())
        second.release()
        third.release()
        alone.held()
        assert not fourth.holds.is_set()
        alone.release()
        fourth.held().release()


def test_no_start_joins_where_none_is_under_way():
    lease = Watched(starts_together=3)
    with holding(lease, "shared") as (sharer,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        start = Holder(lease, "starting")
        lease.await_waiting(2)
        assert not start.holds.is_set()
        sharer.release()
        alone.held().release()
        start.held().release()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("within", ["nothing", "released", "driving"])
@pytest.mark.parametrize("way", ["shared", "driving", "alone"])
def test_what_a_thread_enqueued_is_complete_before_it_gives_the_device_up(way, within, beside):
    """Who is alone next would find it on the device."""
    settled = []
    lease = Lease(driver_beside=beside, settle=lambda: settled.append(lease.held_here()))
    with getattr(lease, way)():
        held = lease.held_here()
        with {"nothing": nullcontext, "released": lease.released, "driving": lease.driving}[within]():
            given_up = lease.held_here() != held
            assert settled == [held] * given_up
    assert settled[-1:] == ([held] if held else [])
    assert settled.count(held) == (1 + given_up) * bool(held)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("way", ["shared", "driving", "alone"])
def test_a_device_that_cannot_settle_is_given_up_all_the_same(way, beside):
    lease = Lease(driver_beside=beside, settle=lambda: 1 / 0)
    with nullcontext() if beside and way == "driving" else pytest.raises(ZeroDivisionError), getattr(lease, way)():
        pass
    assert not lease.held_here()
    lease._settle = lambda: None
    with lease.alone():
        pass


@pytest.mark.parametrize("way", ["shared", "driving"])
@pytest.mark.parametrize("within", ["released", "driving", "give_way"])
def test_a_device_that_cannot_settle_in_the_midst_of_a_use_is_held_as_often_as_it_is_given_up(way, within):
    lease = Watched(settle=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError), getattr(lease, way)():
        if within == "give_way":
            lease.give_way()
        else:
            with getattr(lease, within)():
                pass
    lease._settle = lambda: None
    with holding(lease, way) as (holder,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        assert not alone.holds.is_set()
        holder.release()
        alone.held().release()


# What the driver does alone ---------------------------------------------------------------------------------------


def test_nobody_is_alone_while_the_driver_works(lease):
    with holding(lease, "driving") as (driver,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        assert not alone.holds.is_set()
        driver.release()
        alone.held()
        later = Holder(lease, "driving")
        lease.await_waiting(2)
        assert not later.holds.is_set()
        alone.release()
        later.held().release()


def test_while_the_driver_works_others_share_although_one_wants_to_be_alone(lease):
    """They lose no time, and it would not be alone sooner; but no more of the driver's work begins."""
    with holding(lease, "driving") as (driver,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        sharer = Holder(lease, "shared").held()
        more = Holder(lease, "driving")
        lease.await_waiting(2)
        assert not more.holds.is_set()
        driver.release()
        sharer.release()
        alone.held()
        assert not more.holds.is_set()
        alone.release()
        more.held().release()


def test_the_driver_works_beside_a_start_that_is_waited_for_in_any_case(lease):
    with holding(lease, "starting") as (start,):
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        driver = Holder(lease, "driving").held()
        start.release()
        assert not alone.holds.is_set()
        driver.release()
        alone.held().release()


def test_the_driver_that_may_works_beside_one_that_is_alone_and_what_runs_on_the_device_waits():
    lease = Watched(driver_beside=True)
    with holding(lease, "driving") as (before,), holding(lease, "alone") as (alone,):
        with lease.driving() as must_borrow:
            assert must_borrow
            borrower = Holder(lease, "shared")
            lease.await_waiting(1)
            assert not borrower.holds.is_set()
        before.release()
        alone.release()
        borrower.held().release()


@pytest.mark.parametrize("beside", [False, True])
def test_a_thread_that_shares_leaves_the_device_while_the_driver_works(beside):
    lease, let_in = Watched(driver_beside=beside), []
    with lease.shared():
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        assert not alone.holds.is_set()
        # Whoever waits to be alone is let in before the driver works, or meanwhile.
        pool = ThreadPoolExecutor(1)
        letting_go = pool.submit(lambda: alone.held().release())
        with lease.driving() as must_borrow:
            let_in.append(alone.holds.is_set())
            if beside:
                letting_go.result(DEADLINE_S)
            with lease.shared():
                assert lease.held_here() == ("shared" if beside else "driving")
        letting_go.result(DEADLINE_S)
        assert (must_borrow, lease.held_here()) == (beside, "shared")
        pool.shutdown()
    assert beside or let_in == [True]


@pytest.mark.parametrize("beside", [False, True])
def test_who_is_alone_stays_alone_while_the_driver_works(beside):
    lease = Watched(driver_beside=beside)
    with lease.alone():
        with lease.driving() as must_borrow, lease.driving(), lease.released():
            newcomer = Holder(lease, "shared")
            lease.await_waiting(1)
            assert not (must_borrow or newcomer.holds.is_set())
        assert lease.held_here() == "alone"
    newcomer.held().release()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("sharing", [False, True])
def test_an_error_of_the_driver_leaves_what_was_held_before(beside, sharing):
    lease = Lease(driver_beside=beside)
    with lease.shared() if sharing else nullcontext():
        with pytest.raises(ZeroDivisionError), lease.driving():
            _ = 1 / 0
        assert lease.held_here() == ("shared" if sharing else "")
    with lease.alone():
        pass


def test_while_a_thread_waits_for_a_worker_the_driver_holds_nobody_up(lease):
    with lease.driving(), lease.released():
        Holder(lease, "alone").held().release()
    with lease.alone():
        pass


@pytest.mark.parametrize("way", ["shared", "driving"])
def test_who_waited_while_many_were_alone_in_a_row_is_let_in_before_the_next(way):
    """A row ends after some; without a turn that is theirs, whoever shares could lose each race with the next."""
    for _ in range(20):
        lease, order = Watched(), []

        def use(how, lease=lease, order=order):
            with getattr(lease, how)():
                order.append(how)

        with ThreadPoolExecutor(2 * MOST_IN_A_ROW + 1) as pool:
            with lease.alone():
                waiting = [pool.submit(use, way)]
                lease.await_waiting(1)
                waiting += [pool.submit(use, "alone") for _ in range(2 * MOST_IN_A_ROW)]
                lease.await_waiting(1 + 2 * MOST_IN_A_ROW)
            for done in waiting:
                done.result(DEADLINE_S)
        assert order.index(way) == MOST_IN_A_ROW - 1, order


def test_nobody_gives_way_to_one_that_waits_for_a_start(lease):
    gone_on = threading.Event()

    def share():
        with lease.shared():
            shared.set()
            assert asked.wait(DEADLINE_S)
            lease.give_way()
            gone_on.set()
            assert done.wait(DEADLINE_S)

    shared, asked, done = threading.Event(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool, holding(lease, "starting") as (start,):
        sharing = pool.submit(share)
        assert shared.wait(DEADLINE_S)
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        asked.set()
        assert gone_on.wait(DEADLINE_S)
        assert not alone.holds.is_set()
        start.release()
        done.set()
        sharing.result(DEADLINE_S)
        alone.held().release()


def test_one_that_shares_gives_way_to_one_that_wants_it_alone(lease):
    gone_on = threading.Event()

    def share():
        with lease.shared():
            shared.set()
            assert asked.wait(DEADLINE_S)
            lease.give_way()
            gone_on.set()
            assert lease.held_here() == "shared"

    shared, asked = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        sharing = pool.submit(share)
        assert shared.wait(DEADLINE_S)
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        asked.set()
        alone.held()
        lease.await_waiting(2)
        assert not gone_on.is_set()
        alone.release()
        sharing.result(DEADLINE_S)
    assert gone_on.is_set()


@pytest.mark.parametrize("way", ["shared", "alone", "none"])
def test_giving_way_changes_nothing_where_nobody_waits(lease, way):
    with {"shared": lease.shared, "alone": lease.alone, "none": nullcontext}[way]():
        before = lease.held_here()
        lease.give_way()
        assert lease.held_here() == before


def test_one_that_is_alone_gives_way_to_nobody(lease):
    with ExitStack() as stack, lease.alone():
        later = Holder(lease, "alone")
        stack.callback(later.release)
        lease.await_waiting(1)
        lease.give_way()
        assert not later.holds.is_set()


def test_who_shares_already_shares_again_while_another_wants_it_alone(lease):
    with lease.shared():
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        with lease.shared(), lease.shared():
            pass
        assert not alone.holds.is_set()
    alone.held().release()


def test_sharing_within_sharing_ends_with_the_outer_one(lease):
    with lease.shared():
        with lease.shared():
            pass
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        assert not alone.holds.is_set()
    alone.held().release()


def test_who_is_alone_may_share_and_stays_alone(lease):
    with lease.alone():
        with lease.shared():
            pass
        newcomer = Holder(lease, "shared")
        lease.await_waiting(1)
        assert not newcomer.holds.is_set()
    newcomer.held().release()


@pytest.mark.parametrize("way", ["shared", "alone"])
def test_who_holds_it_cannot_wait_to_be_alone(lease, way):
    with holding_here(lease, way), pytest.raises(RuntimeError, match="already"), lease.alone():
        pass
    with lease.alone():
        pass


@contextmanager
def holding_here(lease: Lease, way: str) -> Iterator[None]:
    with {"shared": lease.shared, "alone": lease.alone}[way]():
        yield


@pytest.mark.parametrize("way", ["shared", "alone"])
def test_an_exception_lets_go(lease, way):
    with pytest.raises(ZeroDivisionError), holding_here(lease, way):
        _ = 1 / 0
    with holding(lease, "alone"):
        pass
    with lease.alone():
        pass


def test_a_wait_that_is_broken_off_holds_nobody_up():
    lease = Lease()
    with holding(lease, "shared"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Condition, "wait_for", interrupted)
            with pytest.raises(KeyboardInterrupt), lease.alone():
                pass
        with holding(lease, "shared"):
            pass


def interrupted(condition, predicate, timeout=None):
    raise KeyboardInterrupt


def test_threads_of_a_pool_never_stand_still(lease):
    """Two that share and one that is alone, over and over, with faults: what was counted shows who was beside whom."""
    using = {"shared": 0, "alone": 0}
    lock = threading.Lock()

    def use(number):
        way = "alone" if number % 3 == 0 else "shared"
        with holding_here(lease, way):
            with lock:
                using[way] += 1
                assert using["alone"] == (way == "alone")
                assert not (way == "alone" and using["shared"])
            # Long enough for others to come in, were they let in.
            time.sleep(1e-4)
            with lease.shared(), lock:
                using[way] -= 1
            if number % 5 == 0:
                raise ZeroDivisionError

    with ThreadPoolExecutor(8) as threads:
        done = [threads.submit(use, number) for number in range(600)]
        faults = [future.exception(DEADLINE_S) for future in done]
    assert [type(fault) for fault in faults[::5]] == [ZeroDivisionError] * 120
    assert sum(fault is None for fault in faults) == 480


def test_who_leaves_it_lets_another_be_alone_and_shares_again_after(lease):
    with lease.shared(), lease.shared():
        alone = Holder(lease, "alone")
        lease.await_waiting(1)
        assert not alone.holds.is_set()
        with lease.released():
            alone.held().release()
        another = Holder(lease, "alone")
        lease.await_waiting(2)
        assert not another.holds.is_set()
    another.held().release()


def test_who_left_it_comes_back_only_once_nobody_is_alone(lease):
    left, back = threading.Event(), threading.Event()

    def leave() -> None:
        with lease.shared(), lease.released():
            left.set()
            assert back.wait(DEADLINE_S)

    with ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(leave)
        assert left.wait(DEADLINE_S)
        alone = Holder(lease, "alone").held()
        back.set()
        lease.await_waiting(1)
        assert not leaving.done()
        alone.release()
        leaving.result(DEADLINE_S)
    with holding(lease, "alone"):
        pass


def test_who_is_alone_or_holds_nothing_leaves_nothing(lease):
    with lease.released():
        pass
    with lease.alone(), lease.released():
        newcomer = Holder(lease, "shared")
        lease.await_waiting(1)
        assert not newcomer.holds.is_set()
    newcomer.held().release()


@pytest.mark.parametrize("beside", [False, True])
def test_whatever_many_threads_do_none_is_beside_one_that_is_alone_and_all_come_to_an_end(beside):
    """Sharers that give way, starts, the driver and timings, by twenty threads; each ends before a deadline."""
    lease, ended = Lease(starts_together=4, driver_beside=beside), []
    held = {"shared": 0, "starting": 0, "driving": 0, "alone": 0}
    guard = threading.Lock()

    @contextmanager
    def counted(way):
        with guard:
            held[way] += 1
            seen = dict(held)
        yield seen
        with guard:
            held[way] -= 1

    def live(seed):
        rng = random.Random(seed)
        for _ in range(60):
            way = rng.choice(["shared", "shared", "starting", "driving", "alone"])
            with getattr(lease, way)(), counted(way) as seen:
                if way == "alone":
                    assert (seen["alone"], seen["shared"], seen["starting"]) == (1, 0, 0)
                    assert beside or not seen["driving"]
                elif way != "driving" or not beside:
                    assert not seen["alone"]
                if way == "driving":
                    with lease.shared(), counted("shared") as lent:
                        assert not lent["alone"]
                for _ in range(rng.randrange(3) if way == "shared" else 0):
                    with guard:
                        held["shared"] -= 1
                    lease.give_way()
                    with lease.released():
                        pass
                    with guard:
                        assert not held["alone"], "it shares again"
                        held["shared"] += 1
        ended.append(seed)

    with ThreadPoolExecutor(20) as threads:
        for done in [threads.submit(live, seed) for seed in range(20)]:
            done.result(DEADLINE_S)
    assert len(ended) == 20
    assert held == dict.fromkeys(held, 0)


class Failing(DeviceLock):
    """A lock whose first wait fails once it is let go on."""

    def __init__(self, folder) -> None:
        super().__init__("GPU-1", folder)
        self.waits, self.goes_on = threading.Event(), threading.Event()

    def block_starts(self) -> None:
        if not self.goes_on.is_set():
            self.waits.set()
            assert self.goes_on.wait(DEADLINE_S)
            raise OSError("no locks are left")
        super().block_starts()


def test_after_a_wait_for_other_judges_that_failed_the_next_thread_waits_for_them_itself(tmp_path):
    lock, other = Failing(tmp_path), DeviceLock("GPU-1", tmp_path)
    lease = Watched(others=lock)
    first = Holder(lease, "alone")
    assert lock.waits.wait(DEADLINE_S)
    second = Holder(lease, "alone")
    lease.await_waiting(1)
    lock.goes_on.set()
    with pytest.raises(OSError, match="no locks are left"):
        first.release()
    second.held()
    assert not other.try_start(joins=False)
    assert not other.try_share()
    second.release()
    assert other.try_start(joins=False)
