"""Evaluation servers as a judge."""

import logging
from types import TracebackType
from typing import Self

from warpsmith.evaluator import Client, ServerError, Verdict
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.remote import is_contained, too_weak
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
            config.servers,
            token_env=config.token_env,
            deadline_s=config.deadline_s,
            retries=config.retries,
            minimum_isolation=evaluator.minimum_isolation,
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
        """Return a server's verdict; see `Client.evaluate_async`. A server that is too weak by now is left out.

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
                tier = str(told["isolation"])
                if not is_contained(tier, self._weakest):
                    raise too_weak(url, tier, self._weakest)
