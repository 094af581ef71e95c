"""Evaluations for tools: bounded in number and size, with reports on their progress."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError

MAX_SOURCE_CHARACTERS: Final = 262_144
REPORT_EVERY_S: Final = 2.0

Report: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Takes the seconds since the call, and what happens."""


class BusyError(EvaluatorError):
    """As many evaluations as allowed run or wait."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a server for agents.

    Args:
        concurrency: evaluations that run at once.
        queue: evaluations that may wait.
    """

    concurrency: int
    queue: int


class Evaluations:
    """Judges candidates for tools.

    Args:
        evaluator: judges them; it stays open.
        limits: how many at once.
    """

    def __init__(self, evaluator: AsyncEvaluator, limits: Limits) -> None:
        self._evaluator = evaluator
        self._limits = limits
        self._places = asyncio.Semaphore(limits.concurrency)
        self._asked = 0

    async def judge(self, problem: Problem, source: str, report: Report) -> Verdict:
        """Return the verdict on a candidate; report each change, and every two seconds.

        Raises:
            UsageError: a source is too long.
            BusyError: too many evaluations wait.
            BadProblemError, EvaluatorError: as `evaluate`.
        """
        for what, text in (("candidate", source), ("problem", problem.source)):
            if len(text) > MAX_SOURCE_CHARACTERS:
                raise UsageError(
                    f"The {what} has {len(text)} characters; at most {MAX_SOURCE_CHARACTERS} are accepted.",
                    "Compute large tables instead of writing them.",
                )
        most = self._limits.concurrency + self._limits.queue
        if self._asked >= most:
            raise BusyError(f"{most} evaluations run or wait, as many as are allowed.", "Call again when one is done.")
        self._asked += 1
        try:
            return await self._reported(problem, source, report)
        finally:
            self._asked -= 1

    async def _reported(self, problem: Problem, source: str, report: Report) -> Verdict:
        phases = _Phases()
        begun = time.monotonic()
        work = asyncio.ensure_future(self._in_place(problem, source, phases))
        work.add_done_callback(lambda _: phases.changed.set())
        try:
            while not work.done():
                phases.changed.clear()
                await report(time.monotonic() - begun, phases.now)
                with suppress(TimeoutError):
                    await asyncio.wait_for(phases.changed.wait(), REPORT_EVERY_S)
            return await work
        finally:
            work.cancel()

    async def _in_place(self, problem: Problem, source: str, phases: "_Phases") -> Verdict:
        def on_running(running: bool) -> None:
            phases.enter("is judged" if running else "waits for a worker")

        async with self._places:
            phases.enter("is sent to the evaluator")
            return await self._evaluator.evaluate_async(problem, source, on_running=on_running)


class _Phases:
    """What happens to a kernel, and a signal of each change."""

    def __init__(self) -> None:
        self.now = "waits for a free place"
        self.changed = asyncio.Event()

    def enter(self, phase: str) -> None:
        self.now = phase
        self.changed.set()
