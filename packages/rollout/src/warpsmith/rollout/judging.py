"""The evaluator as episodes see it, and a cache by content in front of it."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Protocol

from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow


class Judge(Protocol):
    """Whoever judges candidates: `warpsmith.evaluator.Evaluator`, or a cache in front of it."""

    async def evaluate_async(
        self, problem: Problem, candidate: str, *, trials: int | None = None, timeout_s: float | None = None
    ) -> Verdict:
        """Return the verdict on one candidate."""


class CachedJudge:
    """Judges each (problem, kernel) once.

    A model that answers the same twice, and a group whose samples agree, are judged once; what is asked while the first
    evaluation runs waits for it. A verdict of `invalid` is nobody's verdict and is not kept.

    Args:
        judge: who judges.
        capacity: verdicts kept; the one unused for longest goes first.
    """

    def __init__(self, judge: Judge, *, capacity: int = 65536) -> None:
        self._judge = judge
        self._capacity = capacity
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._running: dict[str, asyncio.Future[Verdict]] = {}
        self.hits = 0
        self.misses = 0

    async def evaluate_async(
        self, problem: Problem, candidate: str, *, trials: int | None = None, timeout_s: float | None = None
    ) -> Verdict:
        """Return the kept verdict with `cached` set and no time spent, or a new one."""
        key = _key(problem, candidate, trials)
        known = self._verdicts.get(key)
        if known is not None:
            self._verdicts.move_to_end(key)
            return self._hit(known)
        running = self._running.get(key)
        if running is not None:
            verdict = await asyncio.shield(running)
            if verdict.status != "invalid":
                return self._hit(verdict)
        return await self._judged(key, problem, candidate, trials, timeout_s)

    def _hit(self, verdict: Verdict) -> Verdict:
        self.hits += 1
        return replace(verdict, cached=True, seconds=replace(verdict.seconds, compile=0.0, wait=0.0, evaluate=0.0))

    async def _judged(
        self, key: str, problem: Problem, candidate: str, trials: int | None, timeout_s: float | None
    ) -> Verdict:
        self.misses += 1
        # A task of its own: who asked first may give up while others wait for the same verdict.
        task = asyncio.ensure_future(self._judge.evaluate_async(problem, candidate, trials=trials, timeout_s=timeout_s))
        self._running[key] = task
        task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def _finished(self, key: str, done: "asyncio.Future[Verdict]") -> None:
        if self._running.get(key) is done:
            del self._running[key]
        if done.cancelled() or done.exception() is not None or done.result().status == "invalid":
            return
        self._verdicts[key] = done.result()
        if len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)


def as_problem(row: ProblemRow) -> Problem:
    """Return a row as the evaluator's problem; BadProblemError where it is none."""
    return Problem(row.name, row.text, row.level, row.source)


def _key(problem: Problem, candidate: str, trials: int | None) -> str:
    digest = hashlib.sha256(candidate.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{problem.key}:{digest}:{trials}"
