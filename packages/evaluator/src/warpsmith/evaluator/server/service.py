"""What the routes share: admission, the devices, and the way from a request to a verdict."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.fingerprint import HEADER, conditions_of, name_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.server.admission import Admission, Lane, Place
from warpsmith.evaluator.server.cache import Asked, VerdictCache
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
    """One evaluation as asked for. `cache` None leaves it to the server whether a kept verdict will do."""

    name: str
    problem: str
    candidate: str
    trials: int | None = None
    seed: int | None = None
    timeout_s: float | None = None
    preferred_device: int | None = None
    cache: bool | None = None


class Service:
    """Evaluates what is asked, at most as many at once as the devices have slots. For one event loop.

    Args:
        evaluators: one a device, all with the same settings but the device.
        settings: bounds.
        tier: the containment that workers get here, as `/health` tells it.

    Attributes:
        conditions: what verdicts hang on here, as `/health` tells it.
        headers: what every answer carries to say so.
    """

    def __init__(self, evaluators: Sequence[Evaluator], settings: ServerSettings, tier: str) -> None:
        self.settings = settings
        self.config = evaluators[0].config
        self.conditions = conditions_of(self.config)
        self.headers = {HEADER: name_of(self.conditions)}
        self.tier = tier
        on_gpus = self.config.device_kind.is_numbered
        lanes = [
            Lane(evaluator.config.gpu if on_gpus else number, evaluator.config.slots)
            for number, evaluator in enumerate(evaluators)
        ]
        self.admission = Admission(lanes, settings.queue)
        self.devices = {
            lane.number: Device(lane, evaluator, self.admission, settings.max_failures, settings.max_timeout_s)
            for lane, evaluator in zip(lanes, evaluators, strict=True)
        }
        self.cache = VerdictCache(settings.cache_entries, self.config)
        self.metrics = Metrics(self.admission, self.cache)
        self.draining = False
        self._secret = secrets.token_bytes(32)
        self._over = asyncio.Event()
        self._running: set[asyncio.Task[Verdict]] = set()

    async def open(self) -> None:
        """Probe every device.

        Raises:
            JudgeUnavailableError: none passed.
        """
        await asyncio.gather(*(device.open() for device in self.devices.values()))
        if not self.admission.size:
            causes = " ".join(f"Device {device.number}: {device.cause}" for device in self.devices.values())
            raise JudgeUnavailableError(
                f"No device can be served. {causes}",
                "Look at the driver (nvidia-smi, dmesg), and try `warpsmith-evaluator check` on one device.",
            )

    async def close(self) -> None:
        """End every evaluator."""
        await asyncio.gather(*(device.close() for device in self.devices.values()))

    def device(self, number: int) -> Device:
        """Return a device by its number; RefusalError 400 where there is no such device."""
        found = self.devices.get(number)
        if found is None:
            there = ", ".join(map(str, self.devices))
            raise RefusalError(400, "no_such_device", f"Invalid device ID: {number}.", f"The devices are: {there}.")
        return found

    def admit(self, count: int = 1) -> list[Place]:
        """Return places in the queue; RefusalError 429 when it is full, 503 while the server shuts down."""
        if self.draining:
            raise RefusalError(503, "shutting_down", SHUT_DOWN, "Ask another server.", retry_after_s=5)
        return self.admission.admit(count)

    async def judge(self, ask: Ask, place: Place) -> Verdict:
        """Return the verdict. Cancelled while it waits, it gives its place up at once.

        An evaluation that runs holds its slot until it ends, also when nobody waits for it any more: the slot is truly
        taken until then. One that a device loses is begun again on another, where there is one.

        Raises:
            EvaluatorError: the problem is bad, or no judge can run.
        """
        try:
            problem = await asyncio.to_thread(Problem.from_source, ask.problem, ask.name)
            return self._counted(await self._judged(problem, ask, place))
        except _ShutDownError:
            return self._counted(replace(invalid(SHUT_DOWN), isolation_tier=self.tier))
        finally:
            place.leave()

    def end_soon(self) -> None:
        """Take nothing new; what is under way gets `drain_s`, then ends as `invalid`."""
        self.draining = True
        asyncio.get_running_loop().call_later(self.settings.drain_s, self._over.set)

    def end_now(self) -> None:
        """End what is under way as `invalid`."""
        self._over.set()

    async def _judged(self, problem: Problem, ask: Ask, place: Place) -> Verdict:
        """Return the first verdict that a device gives, from each of them once at most."""
        waited = 0.0
        avoided: set[int] = set()
        while True:
            lane, seconds = await self._turn(ask, place, avoided)
            waited += seconds
            avoided.add(lane.number)
            try:
                verdict = await self._shielded(problem, ask, place, lane)
            except JudgeUnavailableError:
                if not self.admission.serves_other_than(avoided):
                    raise
            else:
                if verdict.status != "invalid" or not self.admission.serves_other_than(avoided):
                    return replace(verdict, seconds=replace(verdict.seconds, wait=verdict.seconds.wait + waited))
            self.metrics.moved.inc()

    async def _turn(self, ask: Ask, place: Place, avoided: set[int]) -> tuple[Lane, float]:
        """Wait for a device; return its lane and the seconds that took."""
        began = time.monotonic()
        try:
            lane = await self._unless_over(place.turn(ask.preferred_device, avoided))
        except BaseException:
            place.step_back()  # a lane that came in the same moment
            raise
        waited = time.monotonic() - began
        self.metrics.wait_seconds.observe(waited)
        return lane, waited

    async def _shielded(self, problem: Problem, ask: Ask, place: Place, lane: Lane) -> Verdict:
        """Return what the evaluation gives, which goes on to its end whoever stops waiting."""
        task = asyncio.ensure_future(self._evaluated(problem, ask, place, self.devices[lane.number]))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            return await self._unless_over(asyncio.shield(task))
        except asyncio.CancelledError:
            task.add_done_callback(self._count_abandoned)
            raise

    async def _evaluated(self, problem: Problem, ask: Ask, place: Place, device: Device) -> Verdict:
        began = time.monotonic()
        seed = None if ask.seed is None else self._secret_seed(ask.seed)
        try:
            verdict = await device.evaluate_async(
                problem, ask.candidate, trials=ask.trials, seed=seed, timeout_s=ask.timeout_s
            )
        finally:
            place.step_back()
            self.admission.took(time.monotonic() - began)
            self.metrics.slot_seconds.observe(time.monotonic() - began)
            self.metrics.judges_lost.inc(device.newly_lost())
        if verdict.error_category in MEMORY_FAULTS:
            self.metrics.faults.inc()
        self.cache.put(self._asked(ask), device.facts, verdict)
        return verdict

    def _ended(self, task: "asyncio.Task[Verdict]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Looked at, also where nobody waits any more.
            task.exception()

    def _count_abandoned(self, task: "asyncio.Task[Verdict]") -> None:
        """Count a verdict that nobody waited for."""
        if not task.cancelled() and task.exception() is None:
            self._counted(task.result())

    def kept(self, ask: Ask) -> Verdict | None:
        """Return a kept verdict for a request that takes one; None where there is none, or the server shuts down."""
        if self.draining or not (self.settings.cache if ask.cache is None else ask.cache):
            return None
        preferred = self.devices.get(-1 if ask.preferred_device is None else ask.preferred_device)
        asked_of = [preferred] if preferred else self.devices.values()
        found = self.cache.get(self._asked(ask), list(dict.fromkeys(device.facts for device in asked_of)))
        self.metrics.cache.labels("miss" if found is None else "hit").inc()
        return None if found is None else self._counted(found)

    def _asked(self, ask: Ask) -> Asked:
        return Asked(
            ask.problem,
            ask.candidate,
            self.config.trials if ask.trials is None else ask.trials,
            ask.seed,
            self.config.timeout_s if ask.timeout_s is None else ask.timeout_s,
        )

    def _secret_seed(self, seed: int) -> int:
        """Return what the judge draws from: the same for the same seed, and known to nobody outside this process.

        Clients of other servers send 42. A candidate that can foresee its inputs can hold their answers.
        """
        digest = hmac.digest(self._secret, str(seed).encode(), hashlib.sha256)
        return int.from_bytes(digest[:7], "little")

    def _counted(self, verdict: Verdict) -> Verdict:
        self.metrics.verdicts.labels(verdict.status).inc()
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
