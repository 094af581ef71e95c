"""Opens a grader from what a framework's configuration can hold: addresses of servers, or settings of an evaluator."""

import atexit
import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias, Unpack

from warpsmith.evaluator.client.interface import AsyncEvaluator, EvaluationOptions
from warpsmith.evaluator.config import EvaluatorConfig, configured
from warpsmith.evaluator.rewards.grader import CONCURRENCY, Grader, GradingRules

SERVERS_ENV: Final = "WARPSMITH_EVALUATOR_SERVERS"
"""Addresses of servers, separated by commas, for processes that a framework starts."""


Where: TypeAlias = str | Sequence[str] | EvaluatorConfig | Mapping[str, Any]
"""Address or addresses of servers, or the settings of an evaluator on this machine."""


def open_grader(
    where: Where | None = None,
    rules: GradingRules | None = None,
    *,
    concurrency: int | None = None,
    **options: Unpack[EvaluationOptions],
) -> Grader:
    """Return a grader with an evaluator of its own, which closes with it.

    Args:
        where: address or addresses of evaluation servers; or the settings of an evaluator on this machine, whose
            start takes seconds. None takes the servers in the environment variable WARPSMITH_EVALUATOR_SERVERS,
            separated by commas, and without it an evaluator on this machine.
        rules: score, extraction, and what an `invalid` verdict gives.
        concurrency: evaluations asked for at once; None takes twice the slots of an evaluator on this machine, so that
            none idles, and 16 for servers.
        options: `trials`, `seed`, `timeout_s`, `operators`.

    Raises:
        UsageError: an address or a setting is wrong, or httpx is missing.
        EvaluatorError: the evaluator on this machine cannot start.
    """
    if where is None:
        named = [address.strip() for address in os.environ.get(SERVERS_ENV, "").split(",")]
        where = [address for address in named if address] or EvaluatorConfig()
    with ExitStack() as resources:
        evaluator, fitting = _opened(where, resources)
        grader = Grader(evaluator, rules, concurrency=concurrency or fitting, **options)
        return grader.owning(resources.pop_all())


def _opened(where: Where, resources: ExitStack) -> tuple[AsyncEvaluator, int]:
    """Return the evaluator, and how many evaluations keep it busy."""
    if isinstance(where, Mapping):
        where = configured(**where)
    if isinstance(where, EvaluatorConfig):
        from warpsmith.evaluator.client.evaluator import Evaluator

        return resources.enter_context(Evaluator(where)), 2 * where.slots
    from warpsmith.evaluator.client.remote import Client

    return resources.enter_context(Client(where)), CONCURRENCY


class _Graders:
    """The graders that this process shares, each opened at its first use and closed with the interpreter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, str], Grader] = {}

    def get(self, where: Where | None, options: EvaluationOptions) -> Grader:
        # A fork has no thread of its parent's graders, so it opens its own.
        settings = where.model_dump(mode="json") if isinstance(where, EvaluatorConfig) else where
        key = os.getpid(), json.dumps([settings, options], sort_keys=True, default=dict)
        with self._lock:
            if key not in self._open:
                grader = open_grader(where, GradingRules(on_invalid="raise"), **options)
                atexit.register(grader.close)
                self._open[key] = grader
            return self._open[key]


_GRADERS: Final = _Graders()


def shared_grader(where: Where | None = None, **options: Unpack[EvaluationOptions]) -> Grader:
    """Return the grader of this process for these settings, opened at the first call.

    It is for frameworks that name a reward by its import path or make an environment for each episode, so that nothing
    of the caller's lives as long as the process. Failures of the evaluator raise InvalidVerdictError.

    Args:
        where: as for `open_grader`.
        options: `trials`, `seed`, `timeout_s`, `operators`.
    """
    return _GRADERS.get(where, options)
