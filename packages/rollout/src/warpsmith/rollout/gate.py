"""A gate between turns: completions run, or new ones wait while those in flight end. For one event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TurnGate:
    """Holds episodes between two completions, so that weights change while nobody samples.

    Every token of a completion that passed the gate is then of one version of the weights. Judging goes on meanwhile.
    """

    def __init__(self) -> None:
        self._is_open, self._is_empty = asyncio.Event(), asyncio.Event()
        self._is_open.set()
        self._is_empty.set()
        self._inside = 0

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[None]:
        """Wait until the gate is open, and count as inside for as long as the block lasts."""
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._inside += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._is_empty.set()

    async def close(self) -> None:
        """Let nobody in any more, and wait until nobody is inside."""
        self._is_open.clear()
        await self._is_empty.wait()

    def open(self) -> None:
        """Let everybody in who waits."""
        self._is_open.set()
