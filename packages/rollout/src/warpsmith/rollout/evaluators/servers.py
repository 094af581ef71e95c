"""Evaluation servers behind the interface of an evaluator."""

import logging
import os
from types import TracebackType
from typing import Self, Unpack

from warpsmith.evaluator import Client, OtherConditionsError, ServerError, Verdict
from warpsmith.evaluator.client.interface import AsyncEvaluationOptions
from warpsmith.evaluator.client.remote import common_conditions, is_contained, too_weak
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import Conditions
from warpsmith.rollout.config import ServerEvaluation

_LOG = logging.getLogger(__name__)


class ServerEvaluator:
    """Evaluates candidates on evaluation servers. A context manager.

    Args:
        config: addresses, token, deadline and retries.
        evaluator: its `minimum_isolation`, the `language` that the servers must judge, and the `trials` and `timeout_s`
            that every request sets; the servers have their own settings for everything else.
    """

    def __init__(self, config: ServerEvaluation, evaluator: EvaluatorConfig) -> None:
        self.config = config
        self._weakest = evaluator.minimum_isolation
        self._language = evaluator.language
        self._trials, self._timeout_s = evaluator.trials, evaluator.timeout_s
        self._client = self._made(None)

    def __enter__(self) -> Self:
        """Check the state of every server; one that answers is enough to start.

        Raises:
            ServerError: none answers.
            IsolationUnavailableError: a server isolates workers more weakly than the run requires.
            OtherConditionsError: their settings or versions differ, so that rewards would differ; or they judge another
            kernel language than prompts ask for.
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
        problem: GivenProblem,
        candidate: GivenCandidate,
        **options: Unpack[AsyncEvaluationOptions],
    ) -> Verdict:
        """Return a server's verdict; see `Client.evaluate_async`.

        A server is no longer used if its isolation or settings have become unacceptable since the start.
        """
        trials, timeout_s = options.get("trials"), options.get("timeout_s")
        options["trials"] = self._trials if trials is None else trials
        options["timeout_s"] = self._timeout_s if timeout_s is None else timeout_s
        return await self._client.evaluate_async(problem, candidate, **options)

    def _made(self, conditions: Conditions | None) -> Client:
        return Client(
            self.config.servers,
            token_env=self.config.token_env,
            deadline_s=self.config.deadline_s,
            retries=self.config.retries,
            minimum_isolation=self._weakest,
            # Runs on one host get a share each.
            name=f"rollout-{os.getpid()}",
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
            elif (judged := conditions.get("language", self._language)) != self._language:
                raise OtherConditionsError(
                    url,
                    f"The evaluation server {url} judges {judged}, and it is asked for {self._language} "
                    "(evaluator.language, or the kernels of a data set).",
                    f"Start a server of {self._language} (--backend), or ask for {judged}.",
                )
        return conditions
