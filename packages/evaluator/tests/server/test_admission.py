"""The bounded queue of the server."""

import asyncio
from types import SimpleNamespace

import pytest

from warpsmith.evaluator.server import admission as admission_module
from warpsmith.evaluator.server.admission import FULL_QUEUES, Admission, Lane
from warpsmith.evaluator.server.errors import RefusalError


def one(slots, queue):
    """An admission in front of one device."""
    return Admission([Lane(0, slots)], queue)


def refusal_of(admission, count=1, client=""):
    with pytest.raises(RefusalError) as refused:
        admission.admit(count, client)
    return refused.value


def test_who_finds_no_place_learns_when_to_come_again():
    admission = one(2, 1)
    admission.admit(3)
    with pytest.raises(RefusalError) as refused:
        admission.admit()
    assert (refused.value.status, refused.value.kind) == (429, "overloaded")
    assert 1 <= refused.value.retry_after_s <= 60


def test_the_longer_evaluations_take_the_later_one_is_to_come_again():
    quick, slow = one(1, 0), one(1, 0)
    quick.admit()
    slow.admit()
    for _ in range(100):
        quick.record_duration(0.1)
        slow.record_duration(40.0)
    assert refusal_of(quick).retry_after_s == 1
    assert 35 <= refusal_of(slow).retry_after_s <= 40


def test_a_batch_gets_all_its_places_or_none():
    admission = one(2, 2)
    (first,) = admission.admit()
    with pytest.raises(RefusalError, match="1 wait") as refused:
        admission.admit(4)
    assert refused.value.status == 429
    with pytest.raises(RefusalError, match="at most 4") as refused:
        admission.admit(5)
    assert refused.value.status == 413
    first.leave()
    assert len(admission.admit(4)) == 4


def test_places_are_left_once_and_slots_go_to_whoever_waits_longest():
    async def go():
        admission = one(1, 3)
        places = admission.admit(3)
        order = []

        async def run(number):
            await places[number].turn()
            order.append(number)

        tasks = [asyncio.ensure_future(run(n)) for n in range(3)]
        await asyncio.sleep(0)
        assert (admission.running, admission.waiting, order) == (1, 2, [0])
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        places[1].leave()
        places[1].leave()
        assert (admission.running, admission.waiting) == (1, 1)
        places[0].leave()
        assert (admission.running, admission.admitted) == (1, 2), "what runs holds its place until it ends"
        places[0].step_back()
        places[0].step_back()
        await tasks[2]
        assert (admission.running, admission.waiting, order) == (1, 0, [0, 2])
        places[2].step_back()
        assert (admission.running, admission.waiting) == (0, 1), "it may run again elsewhere"
        places[2].leave()
        assert (admission.admitted, admission.running) == (0, 0)

    asyncio.run(go())


def test_each_goes_to_the_least_busy_device_or_to_the_one_it_prefers():
    async def go():
        admission = Admission([Lane(3, 2), Lane(5, 2)], queue=4)
        places = admission.admit(6)
        assert [(await place.turn()).number for place in places[:2]] == [3, 5]
        assert [(await place.turn(preferred=5)).number for place in places[2:3]] == [5]
        prefers_the_full_one = asyncio.ensure_future(places[3].turn(preferred=5))
        assert (await places[4].turn()).number == 3, "who does not mind passes who waits for one device"
        await asyncio.sleep(0)
        assert not prefers_the_full_one.done()
        places[2].step_back()
        assert (await asyncio.wait_for(prefers_the_full_one, 5)).number == 5

    asyncio.run(go())


def test_a_device_in_trouble_is_taken_last():
    async def go():
        troubled, well = Lane(0, 2, troubles=1), Lane(1, 2)
        places = Admission([troubled, well], queue=0).admit(3)
        assert [(await place.turn()).number for place in places] == [1, 1, 0]

    asyncio.run(go())


def test_who_waits_for_a_device_that_goes_out_moves_to_another_and_is_refused_where_none_is_left():
    async def go():
        first, second = Lane(0, 1), Lane(1, 1)
        admission = Admission([first, second], queue=4)
        places = admission.admit(4)
        assert [(await place.turn()).number for place in places[:2]] == [0, 1]
        waiting = [asyncio.ensure_future(place.turn(preferred=0)) for place in places[2:]]
        await asyncio.sleep(0)
        admission.set_state(first, "restarting")
        places[1].step_back()
        assert (await asyncio.wait_for(waiting[0], 5)).number == 1
        admission.set_state(first, "out")
        assert admission.size == 1
        admission.set_state(second, "out")
        with pytest.raises(RefusalError) as refused:
            await asyncio.wait_for(waiting[1], 5)
        assert (refused.value.status, refused.value.kind) == (503, "no_device")
        with pytest.raises(RefusalError, match="quarantined"):
            admission.admit()

    asyncio.run(go())


def test_who_lost_a_device_is_first_in_line_for_another():
    async def go():
        admission = Admission([Lane(0, 1), Lane(1, 1)], queue=4)
        lost, other, late = admission.admit(3)
        assert ((await lost.turn()).number, (await other.turn()).number) == (0, 1)
        waiting = asyncio.ensure_future(late.turn(preferred=1))
        await asyncio.sleep(0)
        lost.step_back()
        again = asyncio.ensure_future(lost.turn(avoided={0}))
        await asyncio.sleep(0)
        other.step_back()
        assert (await asyncio.wait_for(again, 5)).number == 1
        assert not waiting.done()
        lost.step_back()
        await waiting

    asyncio.run(go())


def test_a_lane_given_to_somebody_who_just_left_goes_to_the_next():
    async def go():
        admission = one(1, 2)
        places = admission.admit(3)
        await places[0].turn()
        gone, stays = (asyncio.ensure_future(place.turn()) for place in places[1:])
        await asyncio.sleep(0)
        places[0].step_back()
        gone.cancel()
        await asyncio.wait_for(stays, 5)
        assert (gone.cancelled(), admission.running) == (True, 1)

    asyncio.run(go())


# Several clients -----------------------------------------------------------------------------------------------------


async def order_of(clock, places):
    """Return the names of places in the order in which one slot serves them, each a second each."""
    order, tasks = [], []

    async def run(name, place):
        await place.turn()
        order.append(name)
        clock[0] += 1.0
        place.step_back()
        place.leave()

    for name, place in places:
        tasks.append(asyncio.ensure_future(run(name, place)))
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    return "".join(order)


@pytest.fixture
def clock(monkeypatch):
    """The seconds that the queue sees; a list of one."""
    seconds = [0.0]
    monkeypatch.setattr(admission_module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def test_a_client_that_floods_delays_itself_alone(clock):
    async def go():
        admission = one(1, 20)
        (running,) = admission.admit(1, "other")
        await running.turn()
        flood = [("a", place) for place in admission.admit(20, "a")]
        few = [("b", place) for place in admission.admit(3, "b")]
        waiting = asyncio.ensure_future(order_of(clock, flood + few))
        await asyncio.sleep(0.01)
        running.step_back()
        running.leave()
        order = await waiting
        assert order.rindex("b") <= 6
        assert admission.share.clients == admission.admitted == 0

    asyncio.run(go())


def test_a_full_queue_of_one_client_leaves_the_others_theirs():
    admission = one(1, 4)
    admission.admit(5, "a")
    assert "5 of them this client's; at most 4" in refusal_of(admission, client="a").message
    places = admission.admit(5, "b")
    for place in places:
        place.leave()
    for name in range(FULL_QUEUES - 1):
        admission.admit(4, f"c{name}")
    assert refusal_of(admission, 2, "d").status == 429, "memory is bounded, whatever the number of clients"


def test_seconds_are_shared_not_turns(clock):
    async def go():
        admission = one(1, 200)
        seconds = {"long": 10.0, "short": 1.0}
        used = dict.fromkeys(seconds, 0.0)
        waiting = {}
        for name in seconds:
            for place in admission.admit(100, name):
                waiting[asyncio.ensure_future(place.turn())] = (name, place)
        for _ in range(60):
            await asyncio.sleep(0)
            (turn,) = [turn for turn in waiting if turn.done()]
            name, place = waiting.pop(turn)
            clock[0] += seconds[name]
            used[name] += seconds[name]
            place.step_back()
            place.leave()
        for turn in waiting:
            turn.cancel()
        assert abs(used["long"] - used["short"]) <= 20.0

    asyncio.run(go())


def test_a_newcomer_waits_for_what_runs_alone(clock):
    async def go():
        admission = one(1, 64)
        flood = admission.admit(20, "flood")
        turns = [asyncio.ensure_future(place.turn()) for place in flood]
        await asyncio.sleep(0)
        assert turns[0].done()
        (place,) = admission.admit(1, "new")
        turn = asyncio.ensure_future(place.turn())
        await asyncio.sleep(0)
        clock[0] += 0.4
        flood[0].step_back()
        flood[0].leave()
        await asyncio.sleep(0)
        assert turn.done() and not turns[1].done()
        for waiting in turns[1:]:
            waiting.cancel()

    asyncio.run(go())
