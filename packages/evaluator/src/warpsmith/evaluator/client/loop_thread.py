"""An event loop in its own thread, which callers with and without a loop share."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from warpsmith.evaluator.errors import EvaluatorError

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread, so that callers with and without a loop share one implementation.

    Args:
        name: what it works for, in the thread's name and in the error of a call after `close`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether it takes work; false after `close`, and in a process that was forked from the owner."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return the result; call it from any thread except the loop's."""
        self._check(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Await from another loop; cancelling the wait cancels the work."""
        self._check(work)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        if not self.runs:
            work.close()
            raise EvaluatorError(f"This {self._name} is closed.", "Make a new one.")

    def close(self) -> None:
        """Cancel all running work and end the thread."""

        async def cancelled() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancelled())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
