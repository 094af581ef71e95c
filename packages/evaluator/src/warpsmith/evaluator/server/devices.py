"""What evaluates: one evaluator a device, its faults counted, replaced by a fresh one when it is reset."""

import asyncio
from collections import Counter
from typing import Final

from warpsmith.evaluator.client import Evaluator
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict

MEMORY_FAULTS: Final = frozenset({"memory_fault", "segmentation_fault", "illegal_memory_access"})
MAX_FAULTS: Final = 10
NEAR_LIMIT: Final = 0.8
_LOST_IN_A_ROW: Final = 3


class Device:
    """One evaluator with its judge process. For one event loop.

    A memory fault of a candidate ends a worker that would have ended anyway, so faults are counted and told, and take
    nothing out of service. An evaluator whose last verdicts were all `invalid` is told as `error`.
    """

    def __init__(self, number: int, evaluator: Evaluator) -> None:
        self.number = number
        self.faults = 0
        self._evaluator = evaluator
        self._lost = 0
        self._users: Counter[Evaluator] = Counter()
        self._renewal: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        """`healthy`, `restarting` or `error`."""
        if self._renewal is not None:
            return "restarting"
        return "error" if self._lost >= _LOST_IN_A_ROW else "healthy"

    async def evaluate(
        self, problem: Problem, candidate: str, *, trials: int | None, seed: int | None, timeout_s: float | None
    ) -> Verdict:
        """Return the verdict; see `Evaluator.evaluate_async`."""
        evaluator = self._evaluator
        self._users[evaluator] += 1
        try:
            verdict = await evaluator.evaluate_async(problem, candidate, trials=trials, seed=seed, timeout_s=timeout_s)
        finally:
            self._users[evaluator] -= 1
            await self._close_if_left(evaluator)
        self._lost = self._lost + 1 if verdict.status == "invalid" else 0
        self.faults += verdict.error_category in MEMORY_FAULTS
        return verdict

    async def reset(self) -> int:
        """Put a fresh evaluator in place of the old one, which ends what it has begun; return the old fault count.

        Raises:
            EvaluatorError: a fresh one cannot start; the old one stays.
        """
        faults = self.faults
        if self._renewal is None:
            self._renewal = asyncio.ensure_future(self._renew())
        await asyncio.shield(self._renewal)
        return faults

    async def close(self) -> None:
        """End the evaluator; evaluations under way end as `invalid`."""
        await asyncio.to_thread(self._evaluator.close)

    async def _renew(self) -> None:
        try:
            old, fresh = self._evaluator, Evaluator(self._evaluator.config)
            await asyncio.to_thread(fresh.__enter__)
            self._evaluator = fresh
            self.faults = self._lost = 0
            await self._close_if_left(old)
        finally:
            self._renewal = None

    async def _close_if_left(self, evaluator: Evaluator) -> None:
        if evaluator is self._evaluator or self._users[evaluator]:
            return
        del self._users[evaluator]
        await asyncio.to_thread(evaluator.close)
