"""Opens a grader from what a framework's configuration can hold: addresses of servers, or settings of an evaluator."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Unpack

from warpsmith.evaluator.client.interface import AsyncEvaluator, EvaluationOptions
from warpsmith.evaluator.config import EvaluatorConfig, configured
from warpsmith.evaluator.rewards.grader import CONCURRENCY, Grader, GradingRules

SERVERS_ENV: Final = "WARPSMITH_EVALUATOR_SERVERS"
"""Addresses of servers, separated by commas, for processes that a framework starts."""


def open_grader(
    where: str | Sequence[str] | EvaluatorConfig | Mapping[str, Any] | None = None,
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


def _opened(
    where: str | Sequence[str] | EvaluatorConfig | Mapping[str, Any], resources: ExitStack
) -> tuple[AsyncEvaluator, int]:
    """Return the evaluator, and how many evaluations keep it busy."""
    if isinstance(where, Mapping):
        where = configured(**where)
    if isinstance(where, EvaluatorConfig):
        from warpsmith.evaluator.client.evaluator import Evaluator

        return resources.enter_context(Evaluator(where)), 2 * where.slots
    from warpsmith.evaluator.client.remote import Client

    return resources.enter_context(Client(where)), CONCURRENCY
