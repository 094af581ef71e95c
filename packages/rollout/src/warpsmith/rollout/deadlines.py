"""Waits with a deadline and an error that names what was awaited."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from warpsmith.rollout.errors import DeadlinePassedError

T = TypeVar("T")


class QueueState:
    """Whether an awaited evaluation is running or queued; None until its evaluator says so. For one event loop."""

    def __init__(self) -> None:
        self.running: bool | None = None
        self.changed = asyncio.Event()

    def set(self, running: bool) -> None:
        """Set the state; setting the same state again has no effect."""
        if running != self.running:
            self.running = running
            self.changed.set()


async def within_phases(wait_s: float, work_s: float, state: QueueState, awaitable: Awaitable[T], what: str) -> T:
    """Return the result, or cancel it and raise DeadlinePassedError.

    Args:
        wait_s: maximum seconds in the queue, over all waits.
        work_s: maximum seconds of work; time in the queue does not count.
        state: set by the evaluator. While it is None, the sum of both limits applies.
        awaitable: what is awaited.
        what: names it in the error.
    """
    left = {None: wait_s + work_s, False: wait_s, True: work_s}
    waiting = asyncio.ensure_future(awaitable)
    try:
        while left[state.running] > 0:
            running, begin = state.running, time.monotonic()
            if await _done_or_changed(waiting, state, left[running]):
                return await waiting
            left[running] -= time.monotonic() - begin
    except asyncio.CancelledError:
        waiting.cancel()
        raise
    waiting.cancel()
    if state.running is False:
        remedy = "Give the evaluator more slots, or find what blocks the ones in use."
        raise _passed(wait_s, f"a free slot for {what}", remedy)
    seconds = work_s if state.running else wait_s + work_s
    raise _passed(seconds, what, "Raise the deadline, or find what blocks it.")


async def _done_or_changed(waiting: "asyncio.Future[T]", state: QueueState, seconds: float) -> bool:
    """Wait for the result or another phase, but not longer; return whether the result is ready."""
    state.changed.clear()
    changed = asyncio.ensure_future(state.changed.wait())
    either: set[asyncio.Future[Any]] = {waiting, changed}
    try:
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        changed.cancel()
    return waiting.done()


def _passed(seconds: float, what: str, remedy: str) -> DeadlinePassedError:
    return DeadlinePassedError(f"Waited {seconds:g} s for {what}; it did not come.", remedy)


async def within(seconds: float, awaitable: Awaitable[T], what: str) -> T:
    """Return the result, or cancel it and raise DeadlinePassedError naming `what`."""
    waiting = asyncio.ensure_future(awaitable)
    done, _ = await _waited(waiting, seconds)
    if not done:
        waiting.cancel()
        raise _passed(seconds, what, "Raise the deadline, or find what blocks it.")
    return await waiting


async def _waited(
    waiting: "asyncio.Future[T]", seconds: float
) -> tuple[set["asyncio.Future[T]"], set["asyncio.Future[T]"]]:
    try:
        return await asyncio.wait({waiting}, timeout=seconds)
    except asyncio.CancelledError:
        waiting.cancel()
        raise
