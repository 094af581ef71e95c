"""The launches that one candidate's recordings show, each compiled once and outside of the candidate's processes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiling.runs import CompileRun, Launch
from warpsmith.evaluator.judge.compiling.service import Compilation


class Launches:
    """The launches of one evaluation. It refers to no evaluation, so that a recorder may hold it.

    Args:
        compiling: all at once where nothing waits for the code, launch by launch on a device that runs it.
    """

    def __init__(self, compiling: CompileRun) -> None:
        self._compiling = compiling
        self._known: dict[bytes, Launch] = {}
        self._counts = True

    def __bool__(self) -> bool:
        return bool(self._known)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Let launches go that need not compile: they are on shapes that are none of the problem's own."""
        self._counts = False
        try:
            yield
        finally:
            self._counts = True

    def keep(self, launches: Iterable[Launch]) -> None:
        """Keep launches on the problem's own shapes: a candidate must compile for these."""
        if self._counts:
            self._known |= {codec.encode([[launch]]): launch for launch in launches}

    def reported(self, launch: Launch) -> Compilation | None:
        """Keep a launch that host code is about to make, and return its code on a device."""
        self.keep([launch])
        return self._compiling.reported(launch, counted=self._counts)

    def begin(self, launches: list[Launch]) -> None:
        """Keep these and begin to compile them: each is going to be asked for."""
        self.keep(launches)
        self._compiling.begin(launches)

    def start(self) -> None:
        """Begin to compile what is known, where nothing has asked for it yet."""
        self._compiling.start(list(self._known.values()))

    def settle(self) -> None:
        """Compile all that is known; on the host nothing that is reported later counts any more."""
        self._compiling.settle(list(self._known.values()))

    def result(self) -> Compilation:
        """Return the first failure, or that all compiled; what did not launch anything does not compile."""
        return self._compiling.result()

    def await_code(self, launches: list[Launch]) -> None:
        """Keep launches, and wait until a replay can launch them.

        Raises:
            CandidateFailedError: one of them does not compile.
        """
        self.keep(launches)
        self._compiling.await_code(launches, counted=self._counts)

    def code_of(self, launches: list[Launch]) -> list[dict[str, Any]]:
        """Return what a player loads for each launch; nothing where it interprets them."""
        return self._compiling.code_of(launches, counted=self._counts)
