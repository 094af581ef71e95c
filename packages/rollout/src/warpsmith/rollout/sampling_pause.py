"""A pause of sampling between turns, so that weights change while no completion is sampled. For one event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SamplingPause:
    """Lets completions run, or blocks new ones until those in flight have ended.

    All tokens of one completion are then of one weight version. Evaluations continue during a pause.
    """

    def __init__(self) -> None:
        self._allowed, self._idle = asyncio.Event(), asyncio.Event()
        self._allowed.set()
        self._idle.set()
        self._in_flight = 0

    @asynccontextmanager
    async def sampling(self) -> AsyncIterator[None]:
        """Wait until there is no pause, and count as in flight while the block lasts."""
        while not self._allowed.is_set():
            await self._allowed.wait()
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def pause(self) -> None:
        """Block new completions, and wait until none is in flight."""
        self._allowed.clear()
        await self._idle.wait()

    def resume(self) -> None:
        """End the pause."""
        self._allowed.set()
