"""Enters a context manager in a thread, so that whatever it starts can start during other work."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class EnteredInBackground(Generic[T]):
    """A context manager around another: entering returns at once, leaving waits for both.

    Args:
        manager: entered in a thread, left in that of the caller. Its entry needs its own deadline.

    Attributes:
        began, ended: when its entry did, by `time.time`.
    """

    def __init__(self, manager: AbstractContextManager[T]) -> None:
        self._manager = manager
        self._entry: Future[T]
        self.began = self.ended = time.time()

    def __enter__(self) -> Self:
        threads = ThreadPoolExecutor(1, "entry")
        self.began = time.time()
        self._entry = threads.submit(self._enter)
        threads.shutdown(wait=False)
        return self

    def _enter(self) -> T:
        try:
            return self._manager.__enter__()
        finally:
            self.ended = time.time()

    def result(self) -> T:
        """Wait until it is entered; raises what its entry raised."""
        return self._entry.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An entry that failed leaves nothing to close, and `result` has reported it.
        with suppress(Exception):
            self._entry.result()
        if not self._entry.exception():
            self._manager.__exit__(kind, error, trace)
