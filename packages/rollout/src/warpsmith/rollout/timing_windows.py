"""Windows in which an evaluator times on the GPU that also samples: sampling is paused while one is open.

Loading, compiling and the trials of candidates continue during sampling. Only their timings wait, and are gathered, so
that one pause serves several.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from warpsmith.evaluator.client.interface import WindowRequest
from warpsmith.rollout.errors import DeadlinePassedError, SamplerError

_LOG = logging.getLogger(__name__)

GATHER_S: Final = 0.25
"""How long a timing waits for others before sampling is paused for it."""
LOOK_S: Final = 0.02
"""How often it is checked meanwhile whether anything is sampled at all."""
WINDOW_S: Final = 60.0
"""Longest window. A timing takes tenths of a second; one that is not done by then is discarded by the judge."""
LATE_S: Final = 5.0
"""How much longer sampling stays paused for a judge that does not say that its window has ended."""


class PausableSampler(Protocol):
    """What samples on the evaluator's GPU: `SamplerPool`."""

    @property
    def in_flight(self) -> int:
        """Completions in progress."""

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Keep everything still while the block lasts."""


@dataclass(frozen=True)
class Window:
    """A window that has ended. Times are by `time.monotonic`.

    Attributes:
        wanted: when its first timing began to wait.
        began: when sampling began to be paused for it.
        opened, ended: the window itself; sampling stands still in between.
        resumed: when sampling went on.
        timed: when the judge used the device alone.
    """

    wanted: float
    began: float
    opened: float
    ended: float
    resumed: float
    timed: Sequence[tuple[float, float]]


class TimingWindows:
    """Opens windows for one evaluator, which calls it from its own thread; see `WindowKeeper`.

    A window is opened when as many timings wait as the evaluator has slots, when one has waited for `GATHER_S`, or when
    nothing is sampled. It ends with the last timing in it, with the judge, or at its deadline.

    Args:
        sampler: what is paused.
        pause_timeout_s: deadline of a pause; a sampler that restarts is waited for.
        on_window: called with each window that has ended.
    """

    def __init__(
        self,
        sampler: PausableSampler,
        *,
        pause_timeout_s: float,
        on_window: Callable[[Window], None] = lambda window: None,
    ) -> None:
        self._sampler, self._pause_timeout_s, self._on_window = sampler, pause_timeout_s, on_window
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._request: WindowRequest | None = None
        self._wanted_at = 0.0
        self._timed: Sequence[tuple[float, float]] | None = None

    # Called by the evaluator's thread --------------------------------------------------------------------------------

    def wanted(self, request: WindowRequest) -> None:
        """See `WindowKeeper.wanted`."""
        self._post(partial(self._note_wanted, request, time.monotonic()))

    def ended(self, timed: Sequence[tuple[float, float]]) -> None:
        """See `WindowKeeper.ended`."""
        self._post(partial(self._note_end, [(begin, end) for begin, end in timed]))

    def lost(self) -> None:
        """See `WindowKeeper.lost`."""
        self._post(partial(self._note_end, []))

    def _post(self, note: Callable[[], None]) -> None:
        self._inbox.put(note)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take_notes)

    # In the event loop -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Open windows while the block lasts. At its end an open one is waited for; later requests wait for the next.

        So nothing is timed while weights are trained, sent or probed, between two collections.
        """
        self._loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._take_notes()
        serving = asyncio.create_task(self._serve(stop))
        try:
            yield
        finally:
            stop.set()
            self._changed.set()
            await serving

    async def _serve(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            request = self._due()
            if request is not None:
                await self._window(request)
                continue
            try:
                async with asyncio.timeout(None if self._request is None else LOOK_S):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()

    def _due(self) -> WindowRequest | None:
        """Return the request, if it is time to open a window for it."""
        request = self._request
        if request is None:
            return None
        waited = time.monotonic() - self._wanted_at
        full = request.waiting >= request.slots
        return request if full or waited >= GATHER_S or not self._sampler.in_flight else None

    async def _window(self, request: WindowRequest) -> None:
        wanted, began, self._request = self._wanted_at, time.monotonic(), None
        async with AsyncExitStack() as pause:
            try:
                async with asyncio.timeout(self._pause_timeout_s):
                    await pause.enter_async_context(self._sampler.paused())
            except (SamplerError, DeadlinePassedError, TimeoutError) as error:
                reason = f"sampling on its GPU could not be paused: {error or 'it did not stop in time'}"
                _LOG.warning("No candidate is timed: %s", reason)
                await asyncio.to_thread(request.refuse, reason)
                return
            opened = time.monotonic()
            timed = await self._opened(request, opened + WINDOW_S)
            ended = time.monotonic()
        self._on_window(Window(wanted, began, opened, ended, time.monotonic(), timed))

    async def _opened(self, request: WindowRequest, until: float) -> Sequence[tuple[float, float]]:
        """Open the window, and return what was timed once it has ended."""
        self._timed = None
        await asyncio.to_thread(request.open, until)
        try:
            async with asyncio.timeout(until + LATE_S - time.monotonic()):
                while self._timed is None:
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            _LOG.warning("The judge did not end its timings within %g s; what is late is discarded.", WINDOW_S)
        return self._timed or []

    def _take_notes(self) -> None:
        while True:
            try:
                note = self._inbox.get_nowait()
            except Empty:
                return
            note()
            self._changed.set()

    def _note_wanted(self, request: WindowRequest, moment: float) -> None:
        if self._request is None:
            self._wanted_at = moment
        self._request = request

    def _note_end(self, timed: Sequence[tuple[float, float]]) -> None:
        # What was requested before is in the window that has ended; the judge asks again for those that came too late.
        self._timed, self._request = timed, None
