"""The bounded queue of the server."""

import asyncio

import pytest

from warpsmith.evaluator.server.admission import Admission
from warpsmith.evaluator.server.errors import RefusalError


def test_who_finds_no_place_is_told_when_to_come_again():
    admission = Admission(slots=2, queue=1)
    admission.admit(3)
    with pytest.raises(RefusalError) as refused:
        admission.admit()
    assert (refused.value.status, refused.value.kind) == (429, "overloaded")
    assert 1 <= refused.value.retry_after_s <= 60


def test_the_longer_evaluations_take_the_later_one_is_to_come_again():
    quick, slow = Admission(1, 0), Admission(1, 0)
    quick.admit()
    slow.admit()
    for _ in range(100):
        quick.took(0.1)
        slow.took(40.0)
    assert quick.retry_after_s(1) == 1
    assert 35 <= slow.retry_after_s(1) <= 40


def test_a_batch_gets_all_its_places_or_none():
    admission = Admission(slots=2, queue=2)
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
        admission = Admission(slots=1, queue=3)
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
        places[0].leave()
        await tasks[2]
        assert (admission.running, admission.waiting, order) == (1, 0, [0, 2])
        places[2].leave()
        assert (admission.admitted, admission.running) == (0, 0)

    asyncio.run(go())
