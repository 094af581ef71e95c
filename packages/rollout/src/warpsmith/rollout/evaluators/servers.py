"""Evaluation servers behind the interface of an evaluator."""

import logging
from types import TracebackType
from typing import Self

from warpsmith.evaluator import Client, ServerError, Verdict
from warpsmith.evaluator.client.remote import common_conditions, is_contained, too_weak
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import Conditions
from warpsmith.evaluator.problem import Problem
from warpsmith.rollout.config import ServerEvaluation
from warpsmith.rollout.evaluators.base import OnRunning

_LOG = logging.getLogger(__name__)


class ServerEvaluator:
    """Has candidates judged by evaluation servers. A context manager.

    Args:
        config: addresses, token, deadline and retries.
        evaluator: its `minimum_isolation`, and the `trials` and `timeout_s` that every request asks for; the servers
            have their own settings of everything else.
    """

    def __init__(self, config: ServerEvaluation, evaluator: EvaluatorConfig) -> None:
        self.config = config
        self._weakest = evaluator.minimum_isolation
        self._trials, self._timeout_s = evaluator.trials, evaluator.timeout_s
        self._client = self._made(None)

    def __enter__(self) -> Self:
        """Ask every server for its state; one that answers is enough to start.

        Raises:
            ServerError: none answers.
            IsolationUnavailableError: one isolates workers less than the run requires.
            OtherConditionsError: they do not all judge by the same settings and version, so that rewards would differ.
        """
        try:
            conditions = self._look()
        finally:
            self._client.close()
        self._client = self._made(conditions)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    async def evaluate_async(
        self,
        problem: Problem,
        candidate: str,
        *,
        trials: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return a server's verdict; see `Client.evaluate_async`.

        A server whose isolation or settings have changed for the worse since the start is left out.

        `on_running` is not called: `deadline_s` counts from the request on, and the server's queue is bounded.
        """
        return await self._client.evaluate_async(
            problem, candidate, trials=trials or self._trials, timeout_s=timeout_s or self._timeout_s
        )

    def _made(self, conditions: Conditions | None) -> Client:
        return Client(
            self.config.servers,
            token_env=self.config.token_env,
            deadline_s=self.config.deadline_s,
            retries=self.config.retries,
            minimum_isolation=self._weakest,
            conditions=conditions,
        )

    def _look(self) -> Conditions:
        """Return the conditions that all servers have in common."""
        healths = self._client.health()
        conditions = common_conditions(healths)
        for url, health in healths.items():
            if isinstance(health, ServerError):
                _LOG.warning("%s Continuing with the other servers.", health)
            elif not is_contained(tier := str(health["isolation"]), self._weakest):
                raise too_weak(url, tier, self._weakest)
        return conditions
