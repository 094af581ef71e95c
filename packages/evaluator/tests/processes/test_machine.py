"""What a judge runs on: threads that take workers, and starts of workers beside those that want the device alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

from warpsmith.evaluator.processes.machine import Machine

DEADLINE_S = 60


def test_a_thread_that_waits_for_a_worker_lets_another_have_the_device_alone(machine: Machine):
    """Its worker starts once the other is done: were the device not released, all three would wait for each other."""
    taken, had_it_alone = [], threading.Event()

    def wait_alone():
        with machine.lease.alone():
            had_it_alone.set()

    def take_more_than_are_ready():
        with machine.lease.shared():
            waiting = threads.submit(wait_alone)
            while not machine.lease._wanted:
                assert not waiting.done()
            for _ in range(machine.config.slots * machine.config.ready_workers + 2):
                taken.append(machine.take("candidate", DEADLINE_S))
            assert machine.lease.held_here() == "shared"
        waiting.result(DEADLINE_S)

    try:
        with ThreadPoolExecutor(2) as threads:
            threads.submit(take_more_than_are_ready).result(DEADLINE_S)
    finally:
        for worker in taken:
            worker.close()
    assert had_it_alone.is_set()
    assert len({worker.pid for worker in taken}) == len(taken)
