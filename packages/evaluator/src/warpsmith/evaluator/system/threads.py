"""Threads that run before they are needed, so that a machine without free threads fails at the start."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

START_S: Final = 60.0


def started_executor(count: int, name: str) -> ThreadPoolExecutor:
    """Return an executor whose threads all run, so that `submit` starts none.

    Args:
        count: number of threads.
        name: prefix of their names.

    Raises:
        RuntimeError: the machine, or a limit, allows no more threads.
    """
    executor = ThreadPoolExecutor(count, name)
    # Each task waits for all others, so that no thread can take two of them.
    all_run = threading.Barrier(count)
    try:
        tasks = [executor.submit(all_run.wait, START_S) for _ in range(count)]
    except RuntimeError:
        all_run.abort()
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    for task in tasks:
        task.result()
    return executor
