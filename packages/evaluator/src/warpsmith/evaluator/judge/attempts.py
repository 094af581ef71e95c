"""The attempts at one evaluation: in company, and alone where company may explain why it failed."""

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
from warpsmith.evaluator.processes.pool import WorkerDiedError
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries
from warpsmith.evaluator.reference.session import ReferenceFailedError, ReferenceFaultError, ReferenceSession
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.records.errors import WarpsmithError

if TYPE_CHECKING:
    from warpsmith.evaluator.judge.judge import Judge

OF_MEMORY: Final = (torch.OutOfMemoryError, _native.NativeError, ReferenceFailedError)
"""As what a device that is full is met."""


@dataclass(frozen=True)
class Request:
    """What the client asked for, with the seed that makes all of it repeatable."""

    problem: Problem
    source: str
    trials: int
    seed: int
    config: EvaluatorConfig


def is_nobodys_to_retry(error: Exception) -> bool:
    """Whether an error is about the problem, the candidate or the device, so that another attempt ends in the same.

    What is left is a failure of the evaluator's own, expected or not.
    """
    if isinstance(error, ReferenceFaultError):
        return error.took_deadline
    about_others = (TransientError, ReferenceFailedError, torch.OutOfMemoryError, WarpsmithError)
    return isinstance(error, about_others) and not isinstance(error, WireError | _native.NativeError)


def policy_of(config: EvaluatorConfig) -> RetryPolicy:
    """Return when an attempt at an evaluation is followed by another one: after failures of the evaluator's own.

    Zygotes can die one by one. So can the workers that were ready when a machine ran out of memory: taken before its
    end, each is one more.
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
        never=is_nobodys_to_retry,
    )


class Attempts:
    """One request: its attempts in company and, where that fails for reasons that company may explain, alone."""

    def __init__(self, judge: "Judge", request: Request, on_running: Callable[[bool], None]) -> None:
        self.judge = judge
        self.request = request
        self.on_running = on_running
        self.policy = policy_of(request.config)
        self.seconds_left = (1 + ONCE) * request.config.timeout_s

    def evidence(self) -> Evidence:
        """Return what the attempts brought to light.

        Raises:
            Exception: of the last attempt, where it is about the problem, the device or the evaluator itself.
        """
        full = False
        with self.judge.floor.shared() as had_company:
            self.on_running(True)
            try:
                return with_retries(self._attempt, self.policy)
            except TransientError as error:
                if not error.killed and not had_company():
                    return error.evidence
                full = self.judge.was_full(error.evidence)
            except OF_MEMORY as error:
                full = self.judge.may_fit_alone(self.request.problem, error)
                if not full:
                    raise
        self.on_running(False)
        with self.judge.floor.alone(self.request.config.timeout_s):
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
        session.reset_state()
        finding = self.judge.references.finding(self.request.problem.key, session)
        if not finding:
            return set()
        if self.request.config.allow_degenerate:
            return {"degenerate_problem"}
        raise BadProblemError(
            f"Problem {self.request.problem.name} is degenerate: {finding} would pass as its answer.",
            "Change its inputs so that the output depends on them, or set allow_degenerate (--allow-degenerate) to "
            "have it flagged instead.",
        )

    def _candidate(self, session: ReferenceSession) -> Evidence:
        """Judge the candidate once. What all attempts take together is bounded, whyever there are several."""
        request, rng = self.request, random.Random(self.request.seed)
        compiling = run_of(self.judge.compiling, request.source)
        candidate = CandidateUnderTest.of(request.source, self.judge.machine, request.config, rng)
        conversation = candidate.conversation
        conversation.seconds_left = given = min(conversation.seconds_left, self.seconds_left)
        try:
            return conduct(session, candidate, Launches(compiling), request.trials, rng)
        finally:
            self.seconds_left -= given - conversation.seconds_left
            compiling.close()
