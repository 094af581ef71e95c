"""An event loop in its own thread, so that rollouts continue while the main thread trains."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """An event loop that several threads submit work to, each waiting only for its own; a context manager.

    `run` is like that of `asyncio.Runner`, but threads do not block each other.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout-loop", daemon=True)
        self._lock = threading.Lock()
        self._awaited: dict[threading.Thread, Future[Any]] = {}
        self._cut_off: set[threading.Thread] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; it is cancelled if the wait for it ends early.

        Raises:
            CancelledError: this thread was cut off.
        """
        me = threading.current_thread()
        future = self._submit(me, work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            with self._lock:
                del self._awaited[me]

    def _submit(self, me: threading.Thread, work: Coroutine[Any, Any, T]) -> "Future[T]":
        with self._lock:
            if me in self._cut_off:
                work.close()
                raise CancelledError
            self._awaited[me] = future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future

    def call(self, function: Callable[[], None]) -> None:
        """Schedule a function call on the loop."""
        self._loop.call_soon_threadsafe(function)

    def cut_off(self, thread: threading.Thread) -> None:
        """Cancel what `thread` waits for, and reject its later work."""
        with self._lock:
            self._cut_off.add(thread)
            if thread in self._awaited:
                self._awaited[thread].cancel()


async def _end_others() -> None:
    """Cancel every other task of this loop and wait for them to end, as `asyncio.Runner` does."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
