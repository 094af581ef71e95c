"""Verdicts for attempts: from the log of this bench, else from the evaluator, with deadlines and retries."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsmith.evaluator.bench.generations import digest
from warpsmith.evaluator.bench.verdict_log import Outcome, Refusal, VerdictLog, ended_now
from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import invalid
from warpsmith.rollout import retries
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.deadlines import QueueState, within_phases
from warpsmith.rollout.errors import DeadlinePassedError


@dataclass(frozen=True)
class Judge:
    """Judges kernels, each different one of a problem once.

    Args:
        evaluator: judges what is not in the log; it joins requests for the same kernel.
        log: whole verdicts, which records hold only in part.
        config: deadlines and retries.
        settings: what verdicts depend on, part of a verdict's key.
    """

    evaluator: AsyncEvaluator
    log: VerdictLog
    config: BenchConfig
    settings: Mapping[str, Any]

    def known(self, problem: ProblemRow, kernel: str) -> Outcome | None:
        """Return the final outcome of a kernel if there is one."""
        found = self.log.outcomes.get(self._key(problem, kernel))
        return found if found is not None and found.settled else None

    async def judge(self, problem: ProblemRow, kernel: str) -> tuple[Outcome, float]:
        """Return the outcome of a kernel and the seconds that it took; it is in the log when this returns.

        A verdict that does not come in time is `invalid`. A problem that cannot be judged is a refusal.
        """
        if (known := self.known(problem, kernel)) is not None:
            return known, 0.0
        begin, key = time.monotonic(), self._key(problem, kernel)
        policy = retries.for_evaluations(self.config.retries)
        try:
            verdict = await retries.with_retries(lambda: self._verdict(problem, kernel), policy, retries.is_verdict)
        except BadProblemError as error:
            outcome = ended_now(key, refusal=Refusal(error.message, error.remedy))
        except DeadlinePassedError as error:
            outcome = ended_now(key, verdict=invalid(error.message, "timeout"))
        else:
            outcome = ended_now(key, verdict=verdict)
        if self.known(problem, kernel) is None:
            self.log.append(outcome)
        return outcome, time.monotonic() - begin

    async def _verdict(self, problem: ProblemRow, kernel: str) -> Any:
        config, state = self.config, QueueState()
        request = self.evaluator.evaluate_async(
            problem.to_problem(), kernel, operators=config.operators_for(problem), on_running=state.set
        )
        what = f"the verdict on a kernel for {problem.name}"
        return await within_phases(config.evaluate_wait_s, config.evaluate_timeout_s, state, request, what)

    def _key(self, problem: ProblemRow, kernel: str) -> str:
        parts = {
            "problem": problem.to_problem().key,
            "candidate": digest(kernel),
            "operators": self.config.operators_for(problem),
            "settings": dict(self.settings),
        }
        return digest(json.dumps(parts, sort_keys=True))
