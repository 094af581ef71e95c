"""Graceful stop: the first SIGINT or SIGTERM requests it, the second ends the process."""

import signal
import time
from types import FrameType, TracebackType
from typing import Self

from warpsmith.records import process_log

# On Ctrl-C, which the terminal sends to all processes, the `deepspeed` launcher also sends SIGTERM to each rank.
_SAME_REQUEST_S = 1.0


class Interrupt:
    """Context manager that turns signals into a flag that the loop checks between steps.

    Args:
        verbose: whether this process prints messages (rank 0).
        launched: whether the command's own launcher started this rank. It forwards the user's request as SIGINT; its
            SIGTERM also goes to all processes of a rank, so that no step can be finished, and ends the rank at once.
    """

    def __init__(self, verbose: bool = True, *, launched: bool = False) -> None:
        self.requested = False
        self._verbose = verbose
        self._ends_at_sigterm = launched
        self._first_at = 0.0
        self._old: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            at_once = number == signal.SIGTERM and self._ends_at_sigterm
            self._old[number] = signal.signal(number, signal.SIG_DFL if at_once else self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def reset_request_time(self, moment: float) -> None:
        """Count the time between a repeated request and a second signal from `moment` (monotonic seconds)."""
        self._first_at = moment

    def _received(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.requested:
            self.requested, self._first_at = True, now
            if self._verbose:
                name = signal.Signals(number).name
                process_log.show(
                    f"\n{name}: finishing this step, then writing a checkpoint; a second signal ends at once."
                )
        elif now - self._first_at > _SAME_REQUEST_S:
            raise KeyboardInterrupt
