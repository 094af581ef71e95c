"""A polite stop: the first SIGINT or SIGTERM is remembered, the second ends the process."""

import signal
import sys
import time
from types import FrameType, TracebackType
from typing import Self

# The `deepspeed` launcher answers Ctrl-C, which the terminal sends to all, with a SIGTERM of its own to each rank.
_SAME_REQUEST_S = 1.0


class Interrupt:
    """Context manager that turns signals into a question the loop asks between steps.

    Args:
        speaks: whether this process tells the user (rank 0).
    """

    def __init__(self, speaks: bool = True) -> None:
        self.requested = False
        self._speaks = speaks
        self._first_at = 0.0
        self._old: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def ask_again_from(self, moment: float) -> None:
        """Count from `moment` (monotonic seconds) on whether another signal repeats the request or is a second one."""
        self._first_at = moment

    def _received(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.requested:
            self.requested, self._first_at = True, now
            if self._speaks:
                name = signal.Signals(number).name
                sys.stderr.write(f"\n{name}: finishing this step, then a checkpoint; once more ends at once.\n")
        elif now - self._first_at > _SAME_REQUEST_S:
            raise KeyboardInterrupt
