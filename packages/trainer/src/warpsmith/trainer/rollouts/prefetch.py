"""Prefetches batches in a thread of rank 0 while others are trained, within the staleness bound."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.trainer.errors import StalenessError
from warpsmith.trainer.rollouts.batch_source import Sampled
from warpsmith.trainer.rollouts.staleness import Admission
from warpsmith.trainer.weights.checkpoint import Progress

_STOP_S = 60.0
"""Time for a cancelled collection to end; a run that ends must not wait for a hanging one."""


class RunAhead:
    """Collects the batches of the next steps, one after another, each as soon as the bound admits it.

    Args:
        collect: samples the batch of a step, `BatchSource.collect`.
        max_staleness: see `Admission`.
        progress: the run's progress.
        steps: the last step; nothing is sampled beyond it.
        cut_off: ends a thread's wait, `BackgroundLoop.cut_off`.
    """

    def __init__(
        self,
        collect: Callable[[int, Progress], Sampled],
        *,
        max_staleness: int,
        progress: Progress,
        steps: int,
        cut_off: Callable[[threading.Thread], None],
    ) -> None:
        self._collect, self._cut_off = collect, cut_off
        self._admission = Admission(max_staleness, progress.step, progress.weight_version)
        self._ready: deque[Sampled] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = threading.Thread(
            target=self._work, args=(progress.step + 1, steps, progress), name="rollouts", daemon=True
        )

    def collect(self, step: int, progress: Progress) -> Sampled:
        """Wait for and return the turns of step `step`; steps are requested in order.

        The first call starts the thread, so that the run's work before its first step has the samplers to itself.

        Raises:
            StalenessError: they are older than the bound, which should be impossible.
            Exception: the error that ended the thread, even if it was for a later step.
        """
        if not self._thread.ident:
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._error)
            if self._error is not None:
                raise self._error
            sampled = self._ready.popleft()
        check_staleness(sampled.table(), progress.weight_version, self._admission.max_staleness, step)
        return sampled

    @property
    def waiting(self) -> int:
        """Number of batches that are sampled but not trained yet."""
        return len(self._ready)

    def published(self, step: int, version: int) -> None:
        """Record that step `step` is done and the samplers have `version`."""
        with self._changed:
            self._admission = self._admission.after(step, version)
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread; an incomplete batch is dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._cut_off(self._thread)
        if self._thread.ident:
            self._thread.join(_STOP_S)

    # The thread ------------------------------------------------------------------------------------------------------

    def _work(self, first: int, last: int, progress: Progress) -> None:
        try:
            for step in range(first, last + 1):
                newest = self._admitted(step)
                if newest is None:
                    return
                sampled = self._collect(step, replace(progress, step=step - 1, weight_version=newest))
                progress = replace(progress, cursor=progress.cursor + sampled.problems, curriculum=sampled.curriculum)
                with self._changed:
                    self._ready.append(sampled)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _admitted(self, step: int) -> int | None:
        """Wait until rollouts of `step` may start; return the newest version its tokens can have, None if stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._admission.admits(step))
            return None if self._stopped else self._admission.newest(step)


def check_staleness(turns: pa.Table, version: int, max_staleness: int, step: int) -> None:
    """Reject a batch with a token that is older than the bound, or newer than the policy.

    Args:
        turns: a table with the column `weight_versions` of `TURNS`.
        version: version of the weights at the start of the step.
        max_staleness: maximum number of versions that a token may be older.
        step: the step that will train them.

    Raises:
        StalenessError: there is such a token.
    """
    bounds = pc.min_max(pc.list_flatten(turns["weight_versions"])).as_py()
    oldest, newest = bounds["min"], bounds["max"]
    if oldest is None or (oldest >= version - max_staleness and newest <= version):
        return
    raise StalenessError(
        f"Step {step} starts with weight version {version}, but its batch has tokens of versions {oldest} to {newest}; "
        f"max_staleness allows {version - max_staleness} to {version}.",
        "Nothing was trained on them. Resume from the last checkpoint; if it happens again, report it with the run's "
        "records.",
    )
