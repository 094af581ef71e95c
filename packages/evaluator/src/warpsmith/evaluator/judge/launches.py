"""The launches that one candidate's recordings show, each compiled once and outside of the candidate's processes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compile_service import Compilation, CompileRun, LaunchByLaunch
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError

Launch = dict[str, Any]
"""`kernel`, `arguments` and `options`."""


class Launches:
    """The launches of one evaluation. It refers to no evaluation, so that a recorder may hold it.

    Args:
        compiling: all at once where nothing waits for the code (on the host), one by one on a device.
    """

    def __init__(self, compiling: CompileRun | LaunchByLaunch) -> None:
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
        if isinstance(self._compiling, LaunchByLaunch):
            return self._compiling.of(launch, counted=self._counts)
        return None

    def begin(self, launches: list[Launch]) -> None:
        """Keep these and begin to compile them: each is going to be asked for."""
        self.keep(launches)
        if isinstance(self._compiling, LaunchByLaunch):
            self._compiling.begin(launches)
        else:
            self._compiling.start(launches)

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
        """On a device, wait until these are compiled; no replay on the host needs their code.

        Raises:
            CandidateFailedError: one of them does not compile.
        """
        if isinstance(self._compiling, CompileRun):
            return
        self._compiling.begin(launches)
        for launch in launches:
            found = self._compiling.of(launch, counted=self._counts)
            if not found.ok:
                raise CandidateFailedError("runtime_error", found.category, found.message)

    def code_of(self, launches: list[Launch]) -> list[dict[str, Any]]:
        """Return the code of each launch, on a device; no process of the candidate compiled it."""
        if isinstance(self._compiling, CompileRun):
            return []
        return [self._compiling.of(launch, counted=self._counts).binaries[0] for launch in launches]
