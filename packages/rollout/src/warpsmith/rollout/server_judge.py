"""Evaluation servers as a judge."""

import logging
from types import TracebackType
from typing import Self

from warpsmith.evaluator import Client, IsolationUnavailableError, ServerError, Verdict
from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.problem import Problem
from warpsmith.rollout.config import EvaluationConfig
from warpsmith.rollout.judging import OnRunning

_LOG = logging.getLogger(__name__)


class ServerJudge:
    """Judges on the servers of a configuration. A context manager.

    Args:
        config: addresses, token, deadline and retries.
        evaluator: of these settings only `minimum_isolation` counts here; the servers have their own.
    """

    def __init__(self, config: EvaluationConfig, evaluator: EvaluatorConfig) -> None:
        self.config = config
        self._weakest = evaluator.minimum_isolation
        self._client = Client(
            config.servers, token_env=config.token_env, deadline_s=config.deadline_s, retries=config.retries
        )

    def __enter__(self) -> Self:
        """Look at every server; one that answers is enough to start with.

        Raises:
            ServerError: none is there.
            IsolationUnavailableError: one contains workers less than the run asks for.
        """
        try:
            self._look()
        except BaseException:
            self._client.close()
            raise
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

        `on_running` hears nothing: `deadline_s` counts from the request on, and who waits has a place in the server's
        bounded queue.
        """
        return await self._client.evaluate_async(problem, candidate, trials=trials, timeout_s=timeout_s)

    def _look(self) -> None:
        healths = self._client.health()
        errors = [told for told in healths.values() if isinstance(told, ServerError)]
        if len(errors) == len(healths):
            raise errors[0]
        for error in errors:
            _LOG.warning("%s Going on with the other servers.", error)
        for url, told in healths.items():
            if not isinstance(told, ServerError):
                self._check_tier(url, str(told["isolation"]))

    def _check_tier(self, url: str, tier: str) -> None:
        if TIER_STRENGTH.get(tier, -1) < TIER_STRENGTH[self._weakest]:
            raise IsolationUnavailableError(
                f"The evaluation server {url} contains workers at tier {tier!r}; the run asks for {self._weakest!r} "
                "at least.",
                "Run `warpsmith-evaluator doctor` on that machine, or lower minimum_isolation.",
            )
