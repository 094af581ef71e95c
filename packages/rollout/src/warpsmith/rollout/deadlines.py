"""Waits that end: each has a deadline and says what it waited for."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from warpsmith.rollout.errors import DeadlinePassedError

T = TypeVar("T")


async def within(seconds: float, awaitable: Awaitable[T], what: str) -> T:
    """Return the result, or raise DeadlinePassedError naming `what`; what was awaited is cancelled then."""
    waiting = asyncio.ensure_future(awaitable)
    done, _ = await _waited(waiting, seconds)
    if not done:
        waiting.cancel()
        raise DeadlinePassedError(
            f"Waited {seconds:g} s for {what}; it did not come.", "Raise the deadline, or look at what holds it up."
        )
    return await waiting


async def _waited(
    waiting: "asyncio.Future[T]", seconds: float
) -> tuple[set["asyncio.Future[T]"], set["asyncio.Future[T]"]]:
    try:
        return await asyncio.wait({waiting}, timeout=seconds)
    except asyncio.CancelledError:
        waiting.cancel()
        raise
