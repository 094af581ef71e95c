"""The one way to ask for a verdict: a pool of workers, a client of servers, Ray actors and caches all have it.

Torch-free, like everything on the caller's side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypedDict

from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict

CLIENT_HEADER: Final = "X-Warpsmith-Client"
"""Header with a name by which a server tells the clients at one address apart, to share its devices among them."""
LONGEST_CLIENT_NAME: Final = 128

GivenBaseline: TypeAlias = str | Sequence[str]
"""Baselines of `warpsmith.evaluator.baselines`: a name, names separated by commas, or a list of them."""
OnRunning: TypeAlias = Callable[[bool], None]
"""Called with True when work on a request begins or continues, and with False when it waits for a free slot."""


@dataclass(frozen=True)
class WindowRequest:
    """A judge's request for a window in which nothing else uses its device.

    Attributes:
        waiting: timings that wait for it.
        slots: evaluations that the judge runs at once: with as many waiting, it does nothing else.
        open: opens the window until a moment by `time.monotonic`. Timings that are not done by then are discarded.
        refuse: says why there will be none; waiting timings end as `invalid`.
    """

    waiting: int
    slots: int
    open: Callable[[float], None]
    refuse: Callable[[str], None]


class WindowKeeper(Protocol):
    """Opens windows for a judge whose device has other users. Called in a thread of the evaluator; must not block."""

    def wanted(self, request: WindowRequest) -> None:
        """Take a request; it replaces an earlier one that was not answered."""

    def ended(self, timed: Sequence[tuple[float, float]]) -> None:
        """Note that the judge no longer needs its window.

        Args:
            timed: when it used the device alone, by `time.monotonic`.
        """

    def lost(self) -> None:
        """Note that the judge is gone, and with it its request or its window."""


class EvaluationOptions(TypedDict, total=False):
    """The keyword arguments of `evaluate`, for code that passes them on; see `SyncEvaluator.evaluate`."""

    trials: int | None
    seed: int | None
    timeout_s: float | None
    operators: OperatorPolicy | None
    baseline: GivenBaseline | None


class AsyncEvaluationOptions(EvaluationOptions, total=False):
    """The keyword arguments of `evaluate_async`."""

    on_running: OnRunning | None


class SyncEvaluator(Protocol):
    """Judges one candidate and blocks until the verdict is ready: `Evaluator`, `Client`."""

    def evaluate(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        operators: OperatorPolicy | None = None,
        baseline: GivenBaseline | None = None,
    ) -> Verdict:
        """Return the verdict on `candidate`, a module that defines `ModelNew`.

        Args:
            problem: what the candidate must solve: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            candidate: Python source, or the path of its file. Only a contained worker executes it.
            trials: correctness trials; None takes the configured number.
            seed: makes inputs and trials repeatable; leave it None so that nobody can predict them.
            timeout_s: seconds that the candidate's whole run may take; None takes the configured limit.
            operators: what forward may compute with torch besides its kernels; None takes the configured policy.
            baseline: what to compare with, some of the configured baselines, the first for `speedup`; None takes all.

        Raises:
            UsageError: an argument has the wrong type or range.
            BadProblemError: the problem itself cannot be judged.
            EvaluatorError: the evaluator cannot run or cannot be reached.
        """


class AsyncEvaluator(Protocol):
    """Judges candidates for asyncio, many at once: `Evaluator`, `Client`, Ray actors, servers, a cache over them."""

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        operators: OperatorPolicy | None = None,
        baseline: GivenBaseline | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Return what `SyncEvaluator.evaluate` returns; cancelling the call frees its slot.

        Args:
            problem, candidate, trials, seed, timeout_s, operators, baseline: as for `evaluate`.
            on_running: called in the caller's loop. Servers do not report when they begin, so there it is not called.
        """
