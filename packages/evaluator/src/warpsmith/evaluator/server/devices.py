"""The evaluators: one per device, with its faults and failures counted; a reset replaces it with a new one."""

import asyncio
import logging
from typing import Final, Unpack

from warpsmith.evaluator.client.evaluator import DeviceFacts, Evaluator
from warpsmith.evaluator.client.interface import AsyncEvaluationOptions
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.errors import DeviceQuarantinedError, EvaluatorError, JudgeUnavailableError
from warpsmith.evaluator.server.admission import Admission, Lane
from warpsmith.evaluator.server.errors import RefusalError
from warpsmith.evaluator.server.logs import log
from warpsmith.evaluator.server.probe import probe
from warpsmith.evaluator.verdict import Verdict

MEMORY_FAULTS: Final = frozenset({"memory_fault", "segmentation_fault", "illegal_memory_access"})
NEAR_LIMIT: Final = 0.8
RETRY_S: Final = 5
MOST_WAITING: Final = 64
"""Maximum requests that wait for one reset; each holds a connection that no other bound counts."""
_LOST_IN_A_ROW: Final = 3


class Device:
    """One evaluator with its judge process. For one event loop.

    A candidate's memory fault ends a worker that would have ended anyway: it is counted, but does not affect service.
    Only the device's own failure does: the evaluator reports the device as out of use, `max_failures` consecutive
    evaluations find no judge, or the server's own correct kernel fails after `max_failures` consecutive evaluations
    ended as `invalid`, which clients may have caused. The device is then unused until `reset`.

    Attributes:
        lane: its number, its slots, and whether it is in service.
        faults: memory faults of candidates since the last reset.
        cause: why it is quarantined; empty if it is not.
        facts: name and chip, as its judge reported at the last start.
    """

    def __init__(
        self, lane: Lane, evaluator: Evaluator, admission: Admission, max_failures: int, busy_s: float = 0.0
    ) -> None:
        self.lane = lane
        self.faults = 0
        self.cause = ""
        self.facts = DeviceFacts(evaluator.config.device, evaluator.config.target_arch)
        self._evaluator = evaluator
        self._admission = admission
        self._max_failures = max_failures
        self._busy_s = busy_s
        self._checking: asyncio.Task[None] | None = None
        self._running = 0
        self._lost_before = 0
        self._lost_reported = 0
        self._idle = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None
        self._waiting = 0

    @property
    def number(self) -> int:
        """Its name in requests and answers: the driver's number of a GPU, or a count from 0 on a CPU."""
        return self.lane.number

    @property
    def status(self) -> str:
        """`healthy`, `error` (its last evaluations failed), `restarting` or `quarantined`."""
        if self.lane.state != "open":
            return "restarting" if self.lane.state == "restarting" else "quarantined"
        return "error" if self.lane.troubles >= _LOST_IN_A_ROW else "healthy"

    async def evaluate_async(
        self, problem: GivenProblem, candidate: GivenCandidate, **options: Unpack[AsyncEvaluationOptions]
    ) -> Verdict:
        """Return the verdict; see `Evaluator.evaluate_async`. Faults of the device are counted."""
        evaluator = self._evaluator
        self._running += 1
        self._idle.clear()
        try:
            verdict = await evaluator.evaluate_async(problem, candidate, **options)
        except DeviceQuarantinedError as error:
            if evaluator is self._evaluator:
                self._quarantine(error.message)
            raise
        except JudgeUnavailableError as error:
            self._count(evaluator, error.message, of_device=True)
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        self.faults += verdict.error_category in MEMORY_FAULTS
        self._count(evaluator, str(verdict.error_message) if verdict.status == "invalid" else None)
        return verdict

    def newly_lost(self) -> int:
        """Return how many judge processes were lost since the last call, and log them."""
        lost = self._lost_before + self._evaluator.judges_lost
        new, self._lost_reported = lost - self._lost_reported, lost
        if new:
            log("judge lost", level=logging.WARNING, device=self.number, times=new)
        return new

    async def open(self) -> None:
        """Probe the device for the first time; a failure quarantines it and is not an error."""
        try:
            await self._probed(self._evaluator)
        except EvaluatorError as error:
            self._quarantine(error.message)

    async def reset(self, drain_s: float) -> int:
        """Replace the evaluator with a new one, and put the device in service once it passes its probe.

        Meanwhile the device takes no evaluations: two judges would disturb each other's times. Running evaluations get
        `drain_s` seconds, then end as `invalid`.

        Returns:
            The old fault count.

        Raises:
            EvaluatorError: the fresh evaluator cannot start or fails its probe; the device is quarantined.
            RefusalError: too many requests wait for the current reset.
        """
        faults = self.faults
        if self._waiting >= MOST_WAITING:
            raise RefusalError(
                429,
                "reset_under_way",
                f"Device {self.number} is being reset, and {self._waiting} requests wait for that.",
                "Poll /gpu_status until it is healthy again.",
                retry_after_s=RETRY_S,
            )
        if self._renewal is None:
            self._renewal = asyncio.ensure_future(self._renew(drain_s))
        self._waiting += 1
        try:
            await asyncio.shield(self._renewal)
        finally:
            self._waiting -= 1
        return faults

    async def close(self) -> None:
        """End the evaluator; running evaluations end as `invalid`."""
        if self._checking is not None:
            self._checking.cancel()
        await asyncio.to_thread(self._evaluator.close)

    async def _renew(self, drain_s: float) -> None:
        self._admission.set_state(self.lane, "restarting")
        try:
            await self._drained(drain_s)
            await self.close()
            self._lost_before += self._evaluator.judges_lost
            self._evaluator = fresh = Evaluator(self._evaluator.config)
            await self._probed(fresh)
        except BaseException as error:
            # No matter what failed, the device must not stay in the state `restarting`.
            self._quarantine(str(error))
            raise
        finally:
            self._renewal = None
        self.faults = self.lane.troubles = 0
        self.cause = ""
        self._admission.set_state(self.lane, "open")
        log("device in service", device=self.number)

    async def _probed(self, evaluator: Evaluator) -> None:
        """Start an evaluator if it does not run yet, and let it judge a correct kernel."""
        self.facts = await asyncio.to_thread(_facts_of, evaluator)
        await probe(evaluator, evaluator.config.start_timeout_s)

    async def _drained(self, drain_s: float) -> None:
        if self._running:
            try:
                await asyncio.wait_for(self._idle.wait(), drain_s)
            except TimeoutError:
                log("device reset under evaluations", device=self.number, running=self._running)

    def _count(self, evaluator: Evaluator, failure: str | None, *, of_device: bool = False) -> None:
        """Count a failure, or reset the count. Results of a replaced evaluator are ignored.

        Args:
            evaluator: the evaluator that was used.
            failure: what failed; None if nothing did.
            of_device: whether it cannot have been caused by a request.
        """
        if evaluator is not self._evaluator or self.lane.state != "open":
            return
        self.lane.troubles = 0 if failure is None else self.lane.troubles + 1
        if self.lane.troubles < self._max_failures or failure is None:
            return
        cause = f"{self.lane.troubles} evaluations in a row failed; the last: {failure}"
        if of_device:
            self._quarantine(cause)
        elif self._checking is None:
            self._checking = asyncio.ensure_future(self._check(evaluator, cause))

    async def _check(self, evaluator: Evaluator, cause: str) -> None:
        """Judge a correct kernel after failures that requests may have caused; quarantine the device if it fails."""
        try:
            await probe(evaluator, evaluator.config.start_timeout_s + self._busy_s)
        except EvaluatorError as error:
            if evaluator is self._evaluator and self.lane.state == "open":
                self._quarantine(f"{cause} {error.message}")
        else:
            self.lane.troubles = 0
            log("device passed its probe", device=self.number, after=cause)
        finally:
            self._checking = None

    def _quarantine(self, cause: str) -> None:
        self.cause = cause
        self._admission.set_state(self.lane, "out")
        log("device quarantined", device=self.number, cause=cause)


def _facts_of(evaluator: Evaluator) -> DeviceFacts:
    return evaluator.facts
