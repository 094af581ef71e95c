"""State shared by the routes: admission, the devices, and the path from a request to a verdict."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from warpsmith.evaluator.baselines import BaselineName
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.fingerprint import HEADER, conditions_of, name_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.server.admission import Admission, Lane, Place
from warpsmith.evaluator.server.cache import VerdictCache, VerdictInputs
from warpsmith.evaluator.server.devices import MEMORY_FAULTS, Device
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.metrics import Metrics
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records import tracing

T = TypeVar("T")

SHUT_DOWN: Final = "The server was shut down before this evaluation ended."


class _ShutDownError(Exception):
    """The time that running evaluations get at a shutdown is over."""


@dataclass(frozen=True)
class Job:
    """One requested evaluation. `cache`: whether a cached verdict is accepted; None uses the server's setting."""

    name: str
    problem: str
    candidate: str
    trials: int | None = None
    seed: int | None = None
    timeout_s: float | None = None
    operators: OperatorPolicy | None = None
    baseline: tuple[BaselineName, ...] | None = None
    preferred_device: int | None = None
    cache: bool | None = None


class Service:
    """Runs the requested evaluations, at most as many at once as the devices have slots. For one event loop.

    Args:
        evaluators: one per device, with the same settings except the device.
        settings: bounds.
        tier: the containment of workers, as reported by `/health`.

    Attributes:
        conditions: what verdicts depend on here, as reported by `/health`.
        headers: headers of every response, which identify the conditions.
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
            JudgeUnavailableError: no device passed.
        """
        await asyncio.gather(*(device.open() for device in self.devices.values()))
        if not self.admission.size:
            causes = " ".join(f"Device {device.number}: {device.cause}" for device in self.devices.values())
            raise JudgeUnavailableError(
                f"No device can be served. {causes}",
                "Check the driver (nvidia-smi, dmesg), and run `warpsmith-evaluator check` on one device.",
            )

    async def close(self) -> None:
        """End every evaluator."""
        await asyncio.gather(*(device.close() for device in self.devices.values()))

    def device(self, number: int) -> Device:
        """Return a device by its number; RefusalError 400 if there is none."""
        found = self.devices.get(number)
        if found is None:
            numbers = ", ".join(map(str, self.devices))
            raise RefusalError(400, "no_such_device", f"Invalid device ID: {number}.", f"The devices are: {numbers}.")
        return found

    def admit(self, count: int = 1, client: str = "") -> list[Place]:
        """Return places in a client's queue; RefusalError 429 if it is full, 503 while the server shuts down."""
        if self.draining:
            raise RefusalError(503, "shutting_down", SHUT_DOWN, "Use another server.", retry_after_s=5)
        try:
            places = self.admission.admit(count, client)
        except RefusalError:
            self.metrics.clients.add(client, "refused", count)
            raise
        self.metrics.clients.add(client, "admitted", count)
        return places

    async def judge(self, job: Job, place: Place) -> Verdict:
        """Return the verdict. If cancelled while it waits, it releases its place at once.

        A running evaluation holds its slot until it ends, even if no client waits for it any more: the slot is in use.
        An evaluation that a device loses is restarted on another, if there is one.

        Raises:
            EvaluatorError: the problem is bad, or no judge can run.
        """
        try:
            problem = await asyncio.to_thread(Problem.from_source, job.problem, job.name)
            return self._counted(await self._judged(problem, job, place))
        except _ShutDownError:
            return self._counted(replace(invalid(SHUT_DOWN), isolation_tier=self.tier))
        finally:
            place.leave()

    def end_soon(self) -> None:
        """Accept nothing new; running evaluations get `drain_s` seconds, then end as `invalid`."""
        self.draining = True
        asyncio.get_running_loop().call_later(self.settings.drain_s, self._over.set)

    def end_now(self) -> None:
        """End running evaluations as `invalid`."""
        self._over.set()

    async def _judged(self, problem: Problem, job: Job, place: Place) -> Verdict:
        """Return the first verdict of a device; each device is tried at most once."""
        waited = 0.0
        avoided: set[int] = set()
        while True:
            lane, seconds = await self._turn(job, place, avoided)
            waited += seconds
            avoided.add(lane.number)
            try:
                verdict = await self._shielded(problem, job, place, lane)
            except JudgeUnavailableError:
                if not self.admission.serves_other_than(avoided):
                    raise
            else:
                if verdict.status != "invalid" or not self.admission.serves_other_than(avoided):
                    return replace(verdict, seconds=replace(verdict.seconds, wait=verdict.seconds.wait + waited))
            self.metrics.moved.inc()

    async def _turn(self, job: Job, place: Place, avoided: set[int]) -> tuple[Lane, float]:
        """Wait for a device; return its lane and the seconds waited."""
        began = time.monotonic()
        try:
            with tracing.span("queue") as span:
                lane = await self._unless_over(place.turn(job.preferred_device, avoided))
                span.note({"warpsmith.device_number": lane.number})
        except BaseException:
            place.step_back()  # a lane may have been assigned at the same moment
            raise
        waited = time.monotonic() - began
        self.metrics.wait_seconds.observe(waited)
        return lane, waited

    async def _shielded(self, problem: Problem, job: Job, place: Place, lane: Lane) -> Verdict:
        """Return the result of the evaluation, which continues to its end even if the caller stops waiting."""
        task = asyncio.ensure_future(self._evaluated(problem, job, place, self.devices[lane.number]))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            return await self._unless_over(asyncio.shield(task))
        except asyncio.CancelledError:
            task.add_done_callback(self._count_abandoned)
            raise

    async def _evaluated(self, problem: Problem, job: Job, place: Place, device: Device) -> Verdict:
        began = time.monotonic()
        seed = None if job.seed is None else self._secret_seed(job.seed)
        try:
            verdict = await device.evaluate_async(
                problem,
                job.candidate,
                trials=job.trials,
                seed=seed,
                timeout_s=job.timeout_s,
                operators=job.operators,
                baseline=job.baseline,
            )
        finally:
            place.step_back()
            self.admission.record_duration(time.monotonic() - began)
            self.metrics.slot_seconds.observe(time.monotonic() - began)
            self.metrics.judges_lost.inc(device.newly_lost())
        if verdict.error_category in MEMORY_FAULTS:
            self.metrics.faults.inc()
        self.cache.put(self._verdict_inputs(job), device.facts, verdict)
        return verdict

    def _ended(self, task: "asyncio.Task[Verdict]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Retrieve it even if no caller waits, or asyncio logs it as never retrieved.
            task.exception()

    def _count_abandoned(self, task: "asyncio.Task[Verdict]") -> None:
        """Count a verdict for which no caller waited."""
        if not task.cancelled() and task.exception() is None:
            self._counted(task.result())

    def cached(self, job: Job) -> Verdict | None:
        """Return a cached verdict if the job accepts one; None if there is none, or the server shuts down."""
        if self.draining or not (self.settings.cache if job.cache is None else job.cache):
            return None
        preferred = self.devices.get(-1 if job.preferred_device is None else job.preferred_device)
        devices = [preferred] if preferred else self.devices.values()
        found = self.cache.get(self._verdict_inputs(job), list(dict.fromkeys(device.facts for device in devices)))
        self.metrics.cache.labels("miss" if found is None else "hit").inc()
        return None if found is None else self._counted(found)

    def _verdict_inputs(self, job: Job) -> VerdictInputs:
        return VerdictInputs(
            job.problem,
            job.candidate,
            self.config.trials if job.trials is None else job.trials,
            job.seed,
            self.config.timeout_s if job.timeout_s is None else job.timeout_s,
            self.config.operators if job.operators is None else job.operators,
            self.config.baseline if job.baseline is None else job.baseline,
        )

    def _secret_seed(self, seed: int) -> int:
        """Return the judge's seed: deterministic for a client's seed, but unknown outside this process.

        Clients of other servers send 42. A candidate that can predict its inputs can contain their answers.
        """
        digest = hmac.digest(self._secret, str(seed).encode(), hashlib.sha256)
        return int.from_bytes(digest[:7], "little")

    def _counted(self, verdict: Verdict) -> Verdict:
        self.metrics.count(verdict)
        return verdict

    async def _unless_over(self, awaitable: Awaitable[T]) -> T:
        """Return the awaited result, or raise _ShutDownError once the server gives up."""
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
