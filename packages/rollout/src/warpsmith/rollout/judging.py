"""The evaluator as episodes see it, and a cache by content in front of it."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid
from warpsmith.rollout.datasets import ProblemRow

OnRunning = Callable[[bool], None]


class Judge(Protocol):
    """Whoever judges candidates: `warpsmith.evaluator.Evaluator`, or a cache in front of it."""

    async def evaluate_async(
        self,
        problem: Problem,
        candidate: str,
        *,
        trials: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return the verdict on one candidate.

        `on_running` hears in the caller's loop when the work begins or goes on (True) and when it stands in line.
        """


class _Running:
    """An evaluation that several may wait for: each hears how it stands, whenever it came.

    Args:
        forget: called with it once nobody can join it any more.
    """

    def __init__(self, forget: Callable[["_Running"], None]) -> None:
        self.verdict: asyncio.Future[Verdict]
        self.forget = forget
        self._waiting = 0
        self._running = False
        self._listeners: list[OnRunning] = []

    def tell(self, running: bool) -> None:
        self._running = running
        for listener in self._listeners:
            listener(running)

    async def join(self, listener: OnRunning | None) -> Verdict:
        """Wait for the verdict; the evaluation is cancelled when the last who waits gives up."""
        if listener is not None:
            self._listeners.append(listener)
            listener(self._running)
        self._waiting += 1
        try:
            # Shielded: who asked first may give up while others wait for the same verdict.
            return await asyncio.shield(self.verdict)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return invalid("The judge cancelled this evaluation.")
        finally:
            self._waiting -= 1
            if not self._waiting and not self.verdict.done():
                # At once: who asks before the evaluation has ended must not join it.
                self.forget(self)
                self.verdict.cancel()


class CachedJudge:
    """Judges each (problem, kernel) once.

    A model that answers the same twice, and a group whose samples agree, are judged once; what is asked while the first
    evaluation runs waits for it. A verdict of `invalid` is nobody's verdict and is not kept: the first of those who
    joined that evaluation begins another, and the others join that one. What a second one gives is everybody's.

    Args:
        judge: who judges.
        capacity: verdicts kept; the one unused for longest goes first.
    """

    def __init__(self, judge: Judge, *, capacity: int = 65536) -> None:
        self._judge = judge
        self._capacity = capacity
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._running: dict[str, _Running] = {}
        self.hits = 0
        self.misses = 0

    async def evaluate_async(
        self,
        problem: Problem,
        candidate: str,
        *,
        trials: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return the kept verdict with `cached` set and no time spent, or a new one."""
        key = _key(problem, candidate, trials)
        known = self._verdicts.get(key)
        if known is not None:
            self._verdicts.move_to_end(key)
            return self._hit(known)
        for _ in range(2):
            running = self._running.get(key)
            if running is None:
                self.misses += 1
                return await self._begun(key, problem, candidate, trials, timeout_s).join(on_running)
            verdict = await running.join(on_running)
            if verdict.status != "invalid":
                return self._hit(verdict)
        return verdict

    def _hit(self, verdict: Verdict) -> Verdict:
        self.hits += 1
        return replace(verdict, cached=True, seconds=Seconds())

    def _begun(
        self, key: str, problem: Problem, candidate: str, trials: int | None, timeout_s: float | None
    ) -> _Running:
        running = self._running[key] = _Running(lambda ended: self._forget(key, ended))
        running.verdict = asyncio.ensure_future(
            self._judge.evaluate_async(problem, candidate, trials=trials, timeout_s=timeout_s, on_running=running.tell)
        )
        running.verdict.add_done_callback(lambda done: self._finished(key, running, done))
        return running

    def _forget(self, key: str, running: _Running) -> None:
        if self._running.get(key) is running:
            del self._running[key]

    def _finished(self, key: str, running: _Running, done: "asyncio.Future[Verdict]") -> None:
        self._forget(key, running)
        if done.cancelled() or done.exception() is not None or done.result().status == "invalid":
            return
        self._verdicts[key] = done.result()
        if len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)


def _is_cancelled() -> bool:
    """Tell whether somebody cancelled the task that runs now."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_problem(row: ProblemRow) -> Problem:
    """Return a row as the evaluator's problem; BadProblemError where it is none."""
    return Problem(row.name, row.text, row.level, row.source)


def _key(problem: Problem, candidate: str, trials: int | None) -> str:
    digest = hashlib.sha256(candidate.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{problem.key}:{digest}:{trials}"
