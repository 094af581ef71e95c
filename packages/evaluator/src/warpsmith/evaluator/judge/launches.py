"""The launches in one candidate's recordings, each compiled once and outside the candidate's processes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiling.runs import CompileRun, Launch
from warpsmith.evaluator.judge.compiling.service import Compilation


class Launches:
    """The launches of one evaluation. It holds no reference to the evaluation, so that a host execution can hold it.

    Args:
        compiling: compiles all at once if no replay needs the code, launch by launch for a device that runs it.
    """

    def __init__(self, compiling: CompileRun) -> None:
        self._compiling = compiling
        self._known: dict[bytes, Launch] = {}
        self._counts = True

    def __bool__(self) -> bool:
        return bool(self._known) or self._compiling.begun_ahead

    @property
    def load_code(self) -> bool:
        """Whether replays wait for compiled code, so that it helps to begin early."""
        return self._compiling.loads_code

    @property
    def on_own_shapes(self) -> bool:
        """Whether launches are now on the problem's own shapes; see `uncounted`."""
        return self._counts

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Do not require launches made in this context to compile: they are on shapes other than the problem's own."""
        before, self._counts = self._counts, False
        try:
            yield
        finally:
            self._counts = before

    def keep(self, launches: Iterable[Launch]) -> None:
        """Keep launches on the problem's own shapes: for these a candidate must compile."""
        if self._counts:
            self._known |= {codec.encode([[launch]]): launch for launch in launches}

    def reported(self, launch: Launch, *, tried: bool = False) -> Compilation | None:
        """Keep a launch that host code is about to make; return its code if the device needs it.

        One that is only `tried`, for timing, need not compile: if the autotuner picks it, it is launched again.
        """
        if not tried:
            self.keep([launch])
        return self._compiling.reported(launch, counted=self._counts and not tried)

    def built(self, text: str) -> Compilation:
        """Return a build that host code asks for; only for a language whose host code is compiled too."""
        return self._compiling.built(text)

    def begin(self, launches: list[Launch]) -> None:
        """Keep these launches and start compiling all of them."""
        self.keep(launches)
        self._compiling.begin(launches)

    def start(self) -> None:
        """Start compiling the known launches, unless that has started."""
        self._compiling.start(list(self._known.values()))

    def settle(self) -> None:
        """Compile all known launches; on the host, launches reported later no longer count."""
        self._compiling.settle(list(self._known.values()))

    def counts(self, launches: list[Launch]) -> bool:
        """Whether one of these is on the problem's own shapes, so that it must compile."""
        return any(codec.encode([[launch]]) in self._known for launch in launches)

    def alone(self, launches: list[Launch]) -> Compilation:
        """Compile some launches separately, where no device runs the code."""
        return self._compiling.alone(launches)

    def leave_out(self, dropped: list[Launch], kept: list[Launch]) -> None:
        """Settle again without the launches in `dropped` that are not in `kept`."""
        left = {codec.encode([[launch]]) for launch in dropped} - {codec.encode([[launch]]) for launch in kept}
        self._known = {key: launch for key, launch in self._known.items() if key not in left}
        self._compiling.settle_anew(list(self._known.values()))

    def result(self) -> Compilation:
        """Return the first failure, or success; no launch at all counts as a failure."""
        return self._compiling.result()

    def await_code(self, launches: list[Launch]) -> None:
        """Keep launches, and wait until a replay can launch them.

        Raises:
            CandidateFailedError: one of them does not compile.
        """
        self.keep(launches)
        self._compiling.await_code(launches, counted=self._counts)

    def code_of(self, launches: list[Launch]) -> list[dict[str, Any]]:
        """Return what a player loads for each launch; an empty list if it interprets kernels."""
        return self._compiling.code_of(launches, counted=self._counts)

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """Return what each compiled launch's kernel uses of the chip, as its compile worker reported it, unchecked.

        Empty if that is not known.
        """
        return self._compiling.resources_of(launches)
