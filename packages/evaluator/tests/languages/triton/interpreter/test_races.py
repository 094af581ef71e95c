import numpy as np
import pytest
import torch
from triton.runtime import interpreter

from warpsmith.evaluator.languages.triton.interpreter.races import (
    OF_BLOCK,
    Exchanges,
    Lanes,
    Launch,
    Memory,
    RaceError,
    UnseenOrderError,
    are_distinct,
)
from warpsmith.evaluator.languages.triton.interpreter.tracing import Access, LaunchMonitor

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


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        ("atomic", "atomic", False),
        (OF_BLOCK, OF_BLOCK, True),
        (OF_BLOCK, "atomic", True),
        ("atomic", OF_BLOCK, True),
        (OF_BLOCK, "load", True),
        ("load", OF_BLOCK, True),
        (OF_BLOCK, "store", True),
    ],
)
def test_an_operation_in_the_scope_of_a_block_is_atomic_within_one_program_alone(first, second, races):
    for program, expected in ((1, False), (2, races)):
        memory = Memory(START, 64)
        memory.touched(first, 1, at(3, 3), 4)
        assert (memory.touched(second, program, at(3), 4) is not None) is expected


def test_addresses_that_rise_are_distinct():
    assert are_distinct(at(1, 2, 5))
    assert are_distinct(at(3))
    assert not are_distinct(at(1, 2, 2))


def launched(sizes, body, seed=0):
    """Run `body(launch, place)` for each program of a launch; `place` is where the last one was placed."""
    places = []
    launch = Launch(
        sizes,
        lambda *place: places.append(place),
        lambda: body(launch, places[-1]),
        np.random.default_rng(seed),
    )
    launch.run()


def test_each_program_runs_once_and_in_another_order_each_time():
    orders = set()
    for seed in range(8):
        order = []
        launched((2, 3, 4), lambda launch, place, order=order: order.append((launch.program, place)), seed)
        assert sorted(number for number, _ in order) == list(range(1, 25))
        assert all(place == ((n - 1) // 12, (n - 1) // 4 % 3, (n - 1) % 4) for n, place in order)
        orders.add(tuple(number for number, _ in order))
    assert len(orders) > 1


def test_others_come_between_two_atomic_operations_and_then_the_program_goes_on():
    between, ran = [], []

    def body(launch, place):
        own, moment = launch.program, launch.moment
        before = len(ran)
        launch.interrupt()
        assert (launch.program, launch.moment) == (own, moment)
        between.append(len(ran) - before)
        ran.append(own)

    for seed in range(4):
        launched((64, 1, 1), body, seed)
    assert sorted(ran) == sorted([*range(1, 65)] * 4)
    assert max(between) > 0
    assert between.count(0) > 32


def test_the_place_of_an_interrupted_program_is_given_back():
    places = []

    def body(launch, place):
        launch.interrupt()
        assert places[-1] == (launch.program - 1, 0, 0)

    launch = Launch((32, 1, 1), lambda *at: places.append(at), lambda: body(launch, None), np.random.default_rng(1))
    launch.run()
    assert len(places) > 32


def test_no_two_stretches_between_barriers_are_one_moment():
    moments = []

    def body(launch, _):
        moments.append(launch.moment)
        launch.interrupt()
        launch.pass_barrier()
        moments.append(launch.moment)

    launched((64, 1, 1), body)
    assert len(set(moments)) == len(moments) == 128


def test_an_update_that_rests_on_what_was_read_before_is_lost():
    def total(seed):
        memory = [0]

        def body(launch, _):
            read = memory[0]
            launch.interrupt()
            memory[0] = read + 1

        launched((8, 1, 1), body, seed)
        return memory[0]

    assert sum(total(seed) < 8 for seed in range(32)) > 24


def test_a_loop_that_waits_for_a_program_that_cannot_run_is_not_judged():
    def body(launch, _):
        launch.compared(succeeded=True)
        while True:
            launch.compared(succeeded=False)

    with pytest.raises(UnseenOrderError, match="a lock or a counter can order them"):
        launched((4, 1, 1), body)


def test_a_loop_that_tries_again_until_it_succeeds_is():
    ended = []

    def body(launch, _):
        for _ in range(1000):
            launch.compared(succeeded=False)
            launch.compared(succeeded=True)
        ended.append(launch)

    launched((4, 1, 1), body)
    assert len(ended) == 4


@pytest.fixture
def exchanges():
    return Exchanges(START, 64)


def test_programs_that_exchange_the_same_value_do_not_race(exchanges):
    for program in (1, 2, 3):
        assert not exchanges.exchange(program, at(0, 1), 4, np.array([5, 6], dtype=np.int32)).any()
    assert not exchanges.exchange(3, at(0), 4, np.array([7], dtype=np.int32)).any()


def test_programs_that_exchange_different_values_do(exchanges):
    exchanges.exchange(1, at(0, 1), 4, np.array([5, 6], dtype=np.int32))
    assert exchanges.exchange(2, at(0, 1, 2), 4, np.array([5, 7, 8], dtype=np.int32)).tolist() == [False, True, False]
    numbers = np.array([np.nan, -0.0], dtype=np.float32)
    exchanges.exchange(1, at(4, 5), 4, numbers)
    assert exchanges.exchange(2, at(4, 5), 4, -numbers).tolist() == [False, True]


def test_an_exchange_for_what_another_program_has_updated_meanwhile_races(exchanges):
    value = np.array([5], dtype=np.int32)
    exchanges.update(1, at(0), 4)
    exchanges.update(2, at(0), 4)
    assert exchanges.exchange(1, at(0), 4, value).all()


def test_an_exchange_after_all_updates_does_not_race(exchanges):
    """The last program, identified by a counter, sets the counter back."""
    for program in (1, 2, 3):
        exchanges.update(program, at(0), 4)
    assert not exchanges.exchange(3, at(0), 4, np.array([0], dtype=np.int32)).any()


def judged(accesses):
    """Have each program of a launch make its access to a tensor of eight integers; return how many did."""
    out = torch.zeros(8, dtype=torch.int32)
    monitor = LaunchMonitor(lambda _: None, lambda _: False)
    monitor.launch("kernel", {"out": out}, {})
    address = np.array([out.data_ptr() + 8], dtype=np.uint64)
    builder = interpreter.interpreter_builder
    done = []

    def body(launch, place):
        kind, value = accesses[place[0]]
        values = np.array([value], dtype=np.int32)
        exchanged = values if kind == "exchange" else None
        stored = values if kind == "store" else None
        kind = "atomic" if kind == "exchange" else kind
        monitor.check_access(Access(kind, address, 4, stored, np.array([True]), exchanged=exchanged))
        done.append(place)

    launch = Launch(
        (len(accesses), 1, 1), builder.set_grid_idx, lambda: body(launch, builder.grid_idx), np.random.default_rng()
    )
    builder.set_grid_dim(len(accesses), 1, 1)
    builder.launch = launch
    launch.run()
    return len(done)


@pytest.mark.parametrize(
    "accesses",
    [
        [("exchange", 1), ("exchange", 2)],
        [("store", 1), ("atomic", 0)],
    ],
)
def test_a_race_that_atomics_may_order_cannot_be_judged(accesses):
    with pytest.raises(UnseenOrderError, match=r"^cannot be judged: in kernel kernel .* byte 8 of out") as caught:
        judged(accesses)
    assert "a lock or a counter can order them" in str(caught.value)


def test_a_race_without_atomics_is_a_race():
    with pytest.raises(RaceError, match=r"^a race: in kernel kernel .* byte 8 of out") as caught:
        judged([("store", 1), ("load", 0)])
    assert not isinstance(caught.value, UnseenOrderError)


@pytest.mark.parametrize("accesses", [[("atomic", 0)] * 3, [("exchange", 1)] * 3, [("load", 0)] * 3, [("store", 1)]])
def test_what_does_not_depend_on_the_order_is_judged(accesses):
    assert judged(accesses) == len(accesses)
