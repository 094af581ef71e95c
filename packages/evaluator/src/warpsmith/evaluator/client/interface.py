"""The one way to ask for a verdict: a pool of workers, a client of servers, Ray actors and caches all have it.

Torch-free, as everything on the caller's side.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypedDict

from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.verdict import Verdict

OnRunning: TypeAlias = Callable[[bool], None]
"""Called with True when work on a request begins or continues, and with False when it waits for a free slot."""


class EvaluationOptions(TypedDict, total=False):
    """The keyword arguments of `evaluate`, for code that passes them on; see `SyncEvaluator.evaluate`."""

    trials: int | None
    seed: int | None
    timeout_s: float | None


class AsyncEvaluationOptions(EvaluationOptions, total=False):
    """The keyword arguments of `evaluate_async`."""

    on_running: OnRunning | None


class SyncEvaluator(Protocol):
    """Judges one candidate and blocks until the verdict is there: `Evaluator`, `Client`."""

    def evaluate(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
    ) -> Verdict:
        """Return the verdict on `candidate`, a module that defines `ModelNew`.

        Args:
            problem: what the candidate must solve: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            candidate: Python source, or the path of its file. Only a contained worker executes it.
            trials: correctness trials; None takes the configured number.
            seed: makes inputs and trials repeatable; leave it None so that nobody can predict them.
            timeout_s: seconds that the candidate's whole run may take; None takes the configured limit.

        Raises:
            UsageError: an argument has the wrong type or range.
            BadProblemError: the problem itself cannot be judged.
            EvaluatorError: the evaluator cannot run or cannot be reached.
        """


class AsyncEvaluator(Protocol):
    """Judges candidates for asyncio, many at once: `Evaluator`, `Client`, Ray actors, servers, a cache before them."""

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return what `SyncEvaluator.evaluate` returns; cancelling the call frees its slot.

        Args:
            problem, candidate, trials, seed, timeout_s: as for `evaluate`.
            on_running: called in the caller's loop. Servers do not report when they begin, so there it is not called.
        """
