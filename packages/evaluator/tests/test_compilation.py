"""The compile service on real workers: one compilation at a time for a candidate, given up as soon as nobody waits."""

from concurrent.futures import CancelledError

import pytest

from warpsmith.evaluator.compilation import CompileRun, CompileService
from warpsmith.evaluator.errors import WireError

ENDLESS = """\
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, TIMES: tl.constexpr):
    x = 0.0
    for _ in tl.static_range(TIMES):
        x = x + 1.0
    tl.store(out_ptr, x)
"""


QUICK, ENDLESS_TIMES = 2, 100_000_000


def launch(times: int) -> dict:
    arguments = {"out_ptr": ["tensor", "float32", True], "TIMES": ["value", times]}
    return {"kernel": "kernel", "arguments": arguments, "options": {}}


@pytest.fixture
def service(machine):
    running = CompileService(machine)
    yield running
    running.close()


def failed(future) -> bool:
    try:
        return future.exception(timeout=30) is not None
    except CancelledError:
        return True


def test_launches_are_compiled_once_and_known_then(service):
    first = service.start(ENDLESS, [launch(QUICK)])
    assert first.future.result(timeout=60).ok
    again = service.start(ENDLESS, [launch(QUICK)])
    assert again.future.result(timeout=0).cached


def test_what_nobody_waits_for_ends_and_is_forgotten(service):
    job = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    same = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    assert same is job
    service.give_up(same)
    assert not job.future.done()
    service.give_up(job)
    assert failed(job.future)
    renewed = service.start(ENDLESS, [launch(ENDLESS_TIMES)])
    assert renewed is not job
    service.give_up(renewed)
    assert failed(renewed.future)


def test_launches_that_come_later_replace_the_compilation_under_way(service):
    run = CompileRun(service, ENDLESS)
    run.start([launch(ENDLESS_TIMES)])
    run.settle([launch(QUICK), launch(QUICK + 1)])
    assert run.result().ok
    run.settle([launch(number) for number in range(9)])
    assert run.result().ok
    run.close()


def test_launches_that_cannot_be_handed_over_are_the_sources_failure(service):
    deep: list = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(WireError):
        service.start(ENDLESS, [{"kernel": deep}])
    many = [launch(0) | {"options": {"n": [None] * 1000, "i": number}} for number in range(300)]
    found = service.start(ENDLESS, many).future.result(timeout=60)
    assert (found.ok, found.category) == (False, "triton_compilation_error")
