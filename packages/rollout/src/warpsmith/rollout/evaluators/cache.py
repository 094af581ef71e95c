"""A cache of verdicts by content, in front of any evaluator."""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Unpack

from warpsmith.evaluator.client.interface import AsyncEvaluationOptions, AsyncEvaluator, OnRunning
from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid
from warpsmith.rollout import retries


class _SharedEvaluation:
    """An evaluation that several requests can wait for; each is notified of its state, whenever it joined.

    Args:
        forget: called when requests can no longer join it.
    """

    def __init__(self, forget: Callable[["_SharedEvaluation"], None]) -> None:
        self.verdict: asyncio.Future[Verdict]
        self.forget = forget
        self._waiting = 0
        self._running: bool | None = None
        self._listeners: list[OnRunning] = []

    def notify(self, running: bool) -> None:
        self._running = running
        for listener in self._listeners:
            listener(running)

    async def join(self, listener: OnRunning | None) -> Verdict:
        """Wait for the verdict; the evaluation is cancelled when the last waiter is cancelled."""
        if listener is not None:
            self._listeners.append(listener)
            if self._running is not None:
                listener(self._running)
        self._waiting += 1
        try:
            # Shielded: the first waiter may be cancelled while others wait for the same verdict.
            return await asyncio.shield(self.verdict)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return invalid("The evaluator cancelled this evaluation.")
        finally:
            self._waiting -= 1
            if not self._waiting and not self.verdict.done():
                # At once: a request that arrives before the evaluation has ended must not join it.
                self.forget(self)
                self.verdict.cancel()


class CachedEvaluator:
    """Judges each (problem, candidate, trials, seed, operators, baseline) once.

    A request for a kernel that is being evaluated waits for that verdict. An `invalid` verdict is not kept: the first
    waiter starts another evaluation and the other waiters join it; its result is final for all of them.

    Args:
        evaluator: evaluates what is not in the cache.
        capacity: maximum number of verdicts; the least recently used is dropped first.
    """

    def __init__(self, evaluator: AsyncEvaluator, *, capacity: int = 65536) -> None:
        self._evaluator = evaluator
        self._capacity = capacity
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._running: dict[str, _SharedEvaluation] = {}
        self.hits = 0
        self.misses = 0
        self._spent: Counter[str] = Counter()

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        **options: Unpack[AsyncEvaluationOptions],
    ) -> Verdict:
        """Return a cached verdict, with `cached` set and no seconds, or a new one."""
        request = EvaluationRequest.from_options(problem, candidate, options)
        key = _key(request)
        cached = self._verdicts.get(key)
        if cached is not None:
            self._verdicts.move_to_end(key)
            return self._hit(cached)

        async def join_or_start() -> tuple[Verdict, bool]:
            running = self._running.get(key)
            if running is None:
                self.misses += 1
                return await self._start(key, request).join(options.get("on_running")), True
            verdict = await running.join(options.get("on_running"))
            return (self._hit(verdict), True) if retries.is_verdict(verdict) else (verdict, False)

        verdict, _ = await retries.with_retries(
            join_or_start, retries.FOR_JOINED_EVALUATIONS, accept=lambda found: found[1]
        )
        return verdict

    def take_seconds(self) -> dict[str, float]:
        """Return the seconds of the verdicts since the last call, summed by the names of `Seconds`.

        Verdicts from a cache, this one or a server's, took no time and do not count; invalid ones do.
        """
        spent, self._spent = self._spent, Counter()
        return dict(spent)

    def _hit(self, verdict: Verdict) -> Verdict:
        self.hits += 1
        return replace(verdict, cached=True, seconds=Seconds())

    def _start(self, key: str, request: EvaluationRequest) -> _SharedEvaluation:
        running = self._running[key] = _SharedEvaluation(lambda ended: self._forget(key, ended))
        running.verdict = asyncio.ensure_future(
            self._evaluator.evaluate_async(
                request.problem, request.candidate, **request.options, on_running=running.notify
            )
        )
        running.verdict.add_done_callback(lambda done: self._store(key, running, done))
        return running

    def _forget(self, key: str, running: _SharedEvaluation) -> None:
        if self._running.get(key) is running:
            del self._running[key]

    def _store(self, key: str, running: _SharedEvaluation, done: "asyncio.Future[Verdict]") -> None:
        self._forget(key, running)
        if not done.cancelled() and done.exception() is None and not done.result().cached:
            self._spent.update(asdict(done.result().seconds))
        if done.cancelled() or done.exception() is not None or not retries.is_verdict(done.result()):
            return
        self._verdicts[key] = done.result()
        if len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)


def _is_cancelled() -> bool:
    """Return whether the current task was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _key(request: EvaluationRequest) -> str:
    digest = hashlib.sha256(request.candidate.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{request.problem.key}:{digest}:{request.trials}:{request.seed}:{request.operators}:{request.baseline}"
