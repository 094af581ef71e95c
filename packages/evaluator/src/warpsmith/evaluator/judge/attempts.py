"""The attempts at one evaluation: alongside others, then alone if the others may have caused its failure."""

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, WireError
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.compiling.runs import run_of
from warpsmith.evaluator.judge.evidence import Evidence, TransientError
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.pipeline import conduct
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries
from warpsmith.evaluator.processes.window_requests import NoWindowError
from warpsmith.evaluator.processes.worker import WorkerDiedError
from warpsmith.evaluator.reference.session import ReferenceFailedError, ReferenceFaultError, ReferenceSession
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.records.errors import WarpsmithError

if TYPE_CHECKING:
    from warpsmith.evaluator.judge.judge import Judge

MEMORY_ERRORS: Final = (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError)
"""Exceptions raised when the device is out of memory."""


@dataclass(frozen=True)
class Request:
    """What the client asked for, with the seed that makes it reproducible."""

    problem: Problem
    source: str
    trials: int
    seed: int
    config: EvaluatorConfig


def is_final(error: Exception) -> bool:
    """Whether an error is about the problem, the candidate or the device, so that a retry would fail in the same way.

    All other errors are the evaluator's own failures.
    """
    if isinstance(error, ReferenceFaultError):
        return error.took_deadline
    not_ours = (TransientError, ReferenceFailedError, torch.OutOfMemoryError, NoWindowError, WarpsmithError)
    return isinstance(error, not_ours) and not isinstance(error, WireError | _native.NativeError)


def policy_of(config: EvaluatorConfig) -> RetryPolicy:
    """Return the retry policy of an evaluation: it retries after the evaluator's own failures.

    Zygotes can die one after another. So can workers that were ready when the machine ran out of memory: each one taken
    before it dies costs another retry.
    """
    return RetryPolicy(
        [
            Retries(len(roles_of(config)), lambda error: isinstance(error, WorkerDiedError) and error.lost_with_zygote),
            Retries(
                config.slots * config.ready_workers,
                lambda error: isinstance(error, WorkerDiedError) and error.killed,
            ),
            Retries(ONCE, of(Exception)),
        ],
        never=is_final,
    )


class Attempts:
    """One request: its attempts alongside others and, if these may have caused its failure, alone."""

    def __init__(self, judge: "Judge", request: Request, on_running: Callable[[bool], None]) -> None:
        self.judge = judge
        self.request = request
        self.on_running = on_running
        self.policy = policy_of(request.config)
        self.seconds_left = (1 + ONCE) * request.config.timeout_s

    def evidence(self) -> Evidence:
        """Return the evidence of the last attempt.

        Raises:
            Exception: the last attempt's, if it is about the problem, the device or the evaluator itself.
        """
        full = False
        with self.judge.concurrency.shared() as others_ran:
            self.on_running(True)
            try:
                return with_retries(self._attempt, self.policy)
            except TransientError as error:
                if not error.killed and not others_ran():
                    return error.evidence
                full = self.judge.was_full(error.evidence)
            except MEMORY_ERRORS as error:
                full = self.judge.may_fit_alone(self.request.problem, error)
                if not full:
                    raise
        self.on_running(False)
        with self.judge.concurrency.alone(self.request.config.timeout_s):
            self.on_running(True)
            with self.judge.with_all_memory(self.request.problem) if full else nullcontext():
                return self._alone()

    def _alone(self) -> Evidence:
        try:
            evidence = with_retries(self._attempt, self.policy)
        except TransientError as error:
            evidence = error.evidence
        evidence.flags.add("retried")
        return evidence

    def _attempt(self) -> Evidence:
        references, key = self.judge.references, self.request.problem.key
        session = references.take(key, self.request.problem.source)
        try:
            flags = self._audited(session)
            evidence = self._candidate(session)
        except BaseException:
            session.end()
            raise
        references.give_back(key, session)
        evidence.flags |= flags
        evidence.tier = min(evidence.tier or session.worker.tier, session.worker.tier, key=TIER_STRENGTH.__getitem__)
        return evidence

    def _audited(self, session: ReferenceSession) -> set[str]:
        finding = self.judge.references.finding(self.request.problem.key, session)
        if not finding:
            return set()
        if self.request.config.allow_degenerate:
            return {"degenerate_problem"}
        raise BadProblemError(
            f"Problem {self.request.problem.name} is degenerate: it would accept {finding}.",
            "Change its inputs so that the output depends on them, or set allow_degenerate (--allow-degenerate) to "
            "flag it instead.",
        )

    def _candidate(self, session: ReferenceSession) -> Evidence:
        """Judge the candidate once. All attempts share one time limit."""
        request, rng = self.request, random.Random(self.request.seed)
        compiling = run_of(self.judge.compiling, request.source)
        candidate = CandidateUnderTest.of(request.source, self.judge.machine, request.config, rng)
        conversation = candidate.conversation
        conversation.seconds_left = allowed = min(conversation.seconds_left, self.seconds_left)
        try:
            known = (request.problem.key, self.judge.facts)
            return conduct(session, candidate, Launches(compiling), request.trials, rng, known=known)
        finally:
            self.seconds_left -= allowed - conversation.seconds_left
            compiling.close()
