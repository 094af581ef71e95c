"""What the routes share: admission, the device, and the way from a request to a verdict."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from warpsmith.evaluator.client import Evaluator
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.server.admission import Admission, Place
from warpsmith.evaluator.server.devices import MEMORY_FAULTS, Device
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.metrics import Metrics
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import Verdict, invalid

T = TypeVar("T")

SHUT_DOWN: Final = "The server was shut down before this evaluation ended."


class _ShutDownError(Exception):
    """The time that evaluations under way get at a shutdown is over."""


@dataclass(frozen=True)
class Ask:
    """One evaluation as asked for."""

    name: str
    problem: str
    candidate: str
    trials: int | None = None
    seed: int | None = None
    timeout_s: float | None = None


class Service:
    """Evaluates what is asked, at most as many at once as the evaluator has slots. For one event loop.

    Args:
        evaluator: running.
        settings: bounds.
        tier: the containment that workers get here, as `/health` tells it.
    """

    def __init__(self, evaluator: Evaluator, settings: ServerSettings, tier: str) -> None:
        self.settings = settings
        self.config = evaluator.config
        self.tier = tier
        self.admission = Admission(evaluator.config.slots, settings.queue)
        self.metrics = Metrics(self.admission)
        self.devices = [Device(0, evaluator)]
        self.draining = False
        self._secret = secrets.token_bytes(32)
        self._over = asyncio.Event()
        self._running: set[asyncio.Task[Verdict]] = set()

    def admit(self, count: int = 1) -> list[Place]:
        """Return places in the queue; RefusalError 429 when it is full, 503 while the server shuts down."""
        if self.draining:
            raise RefusalError(503, "shutting_down", SHUT_DOWN, "Ask another server.", retry_after_s=5)
        return self.admission.admit(count)

    async def judge(self, ask: Ask, place: Place) -> Verdict:
        """Return the verdict. Cancelled while it waits, it gives its place up at once.

        An evaluation that runs holds its slot until it ends, also when nobody waits for it any more: the slot is truly
        taken until then.

        Raises:
            EvaluatorError: the problem is bad, or the judge cannot run.
        """
        try:
            problem = await asyncio.to_thread(Problem.from_source, ask.problem, ask.name)
            waited = await self._unless_over(self._waited(place))
            task = asyncio.ensure_future(self._evaluated(problem, ask, place))
        except _ShutDownError:
            place.leave()
            return self._counted(invalid(SHUT_DOWN))
        except BaseException:
            place.leave()
            raise
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            verdict = await self._unless_over(asyncio.shield(task))
            seconds = replace(verdict.seconds, wait=verdict.seconds.wait + waited)
            return self._counted(replace(verdict, seconds=seconds))
        except _ShutDownError:
            return self._counted(invalid(SHUT_DOWN))

    def end_soon(self) -> None:
        """Take nothing new; what is under way gets `drain_s`, then ends as `invalid`."""
        self.draining = True
        asyncio.get_running_loop().call_later(self.settings.drain_s, self._over.set)

    def end_now(self) -> None:
        """End what is under way as `invalid`."""
        self._over.set()

    async def _waited(self, place: Place) -> float:
        """Wait for a slot; return the seconds that took."""
        began = time.monotonic()
        await place.turn()
        waited = time.monotonic() - began
        self.metrics.wait_seconds.observe(waited)
        return waited

    async def _evaluated(self, problem: Problem, ask: Ask, place: Place) -> Verdict:
        began = time.monotonic()
        seed = None if ask.seed is None else self._secret_seed(ask.seed)
        try:
            return await self.devices[0].evaluate(
                problem, ask.candidate, trials=ask.trials, seed=seed, timeout_s=ask.timeout_s
            )
        finally:
            place.leave()
            self.admission.took(time.monotonic() - began)
            self.metrics.slot_seconds.observe(time.monotonic() - began)

    def _ended(self, task: "asyncio.Task[Verdict]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Looked at, also where nobody waits any more.
            task.exception()

    def _secret_seed(self, seed: int) -> int:
        """Return what the judge draws from: the same for the same seed, and known to nobody outside this process.

        Clients of other servers send 42. A candidate that can foresee its inputs can hold their answers.
        """
        digest = hmac.digest(self._secret, str(seed).encode(), hashlib.sha256)
        return int.from_bytes(digest[:7], "little")

    def _counted(self, verdict: Verdict) -> Verdict:
        self.metrics.verdicts.labels(verdict.status).inc()
        if verdict.error_category in MEMORY_FAULTS:
            self.metrics.faults.inc()
        return verdict

    async def _unless_over(self, awaitable: Awaitable[T]) -> T:
        """Return what is awaited, or raise _ShutDownError once the server gives up."""
        work = asyncio.ensure_future(awaitable)
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise _ShutDownError
            return work.result()
        finally:
            over.cancel()
            work.cancel()
