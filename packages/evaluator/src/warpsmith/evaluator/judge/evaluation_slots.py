"""The slots of a judge: how many evaluations it runs at a time. Further requests wait in order."""

from collections.abc import Callable
from typing import Any

from warpsmith.evaluator.system.threads import started_executor


class EvaluationSlots:
    """One thread per slot. Create it before the judge says that it is ready: its threads start at once.

    A thread that cannot start later, for lack of memory, might never report that.
    """

    def __init__(self, count: int) -> None:
        self._threads = started_executor(count, "slot")

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run `work` in the next free slot."""
        self._threads.submit(work, *arguments)

    def drop(self) -> None:
        """Drop waiting requests, and do not wait for running ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)
