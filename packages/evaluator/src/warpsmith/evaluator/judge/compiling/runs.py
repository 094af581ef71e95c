"""The compilation of one candidate: what it launches, compiled all at once or launch by launch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiling.service import Compilation, CompileService, Job
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError

MOST_ALIKE: Final = 16
"""Launches of a kernel, with the same options, that another one is held against."""
Launch: TypeAlias = dict[str, Any]
"""`kernel`, `arguments` and `options`."""


class CompileRun(ABC):
    """The compilation of one candidate's launches, each `kernel`, `arguments` and `options`.

    A launch is `counted` where it is on the problem's own shapes, for which alone a candidate must compile.
    """

    @abstractmethod
    def reported(self, launch: Launch, *, counted: bool) -> Compilation | None:
        """Return the code of a launch that host code is about to make; None where it runs without."""

    @abstractmethod
    def begin(self, launches: list[Launch]) -> None:
        """Begin to compile these: each is going to be asked for."""

    @abstractmethod
    def start(self, launches: list[Launch]) -> None:
        """Begin to compile what is known, where nothing has asked for it yet."""

    @abstractmethod
    def settle(self, launches: list[Launch]) -> None:
        """Compile all that the trials showed."""

    @abstractmethod
    def result(self) -> Compilation:
        """Wait; return the first failure, or that all compiled. What did not launch anything does not compile."""

    @abstractmethod
    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """Wait until a replay can launch these.

        Raises:
            CandidateFailedError: one of them does not compile.
        """

    @abstractmethod
    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """Return what a player loads for these; nothing where it interprets them."""

    @abstractmethod
    def close(self) -> None:
        """Give up what nobody is going to wait for."""


def run_of(service: CompileService, source: str) -> CompileRun:
    """Return the compilation of one candidate: launch by launch where a device runs the code."""
    return LaunchByLaunch(service, source) if service.loads_code else AllAtOnce(service, source)


class AllAtOnce(CompileRun):
    """One compilation at a time, so that an evaluation waits for one deadline at most; nothing waits for the code."""

    def __init__(self, service: CompileService, source: str) -> None:
        self._service = service
        self._source = source
        self._job: Job | None = None
        self._launches = 0
        self._settled = False

    def reported(self, launch: Launch, *, counted: bool) -> None:
        """As of `CompileRun`: it is interpreted."""

    def begin(self, launches: list[Launch]) -> None:
        """As of `CompileRun`."""
        self.start(launches)

    def start(self, launches: list[Launch]) -> None:
        """Begin with the first launches that are known: most candidates launch the same in every trial."""
        if launches and self._job is None:
            self._job, self._launches = self._service.start(self._source, launches), len(launches)

    def settle(self, launches: list[Launch]) -> None:
        """Compile all the launches that the trials showed. What is reported later changes nothing any more."""
        if self._settled:
            return
        self._settled = True
        if len(launches) > self._launches:
            self.close()
        self.start(launches)

    def result(self) -> Compilation:
        """Wait for the compilation; what did not launch anything does not compile."""
        return self._service.wait(self._job) if self._job is not None else Compilation(ok=False)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """As of `CompileRun`: no replay needs the code."""

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """As of `CompileRun`: no replay needs the code."""
        return []

    def close(self) -> None:
        """Give up what nobody is going to wait for."""
        if self._job is not None:
            self._service.give_up(self._job)
            self._job = None


class LaunchByLaunch(CompileRun):
    """The compilation of one candidate on a device: each launch by itself, when it is first asked for.

    A launch that differs from a compiled one by nothing that the language looks at has the code of that one.
    """

    def __init__(self, service: CompileService, source: str) -> None:
        self._service = service
        self._source = source
        self._jobs: dict[bytes, Job] = {}
        self._same: dict[bytes, bytes] = {}
        self._compiled: dict[bytes, list[_Compiled]] = {}
        self._counted: set[bytes] = set()

    def reported(self, launch: Launch, *, counted: bool) -> Compilation:
        """As of `CompileRun`."""
        return self.of(launch, counted=counted)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """As of `CompileRun`."""
        self.begin(launches)
        for launch in launches:
            found = self.of(launch, counted=counted)
            if not found.ok:
                raise CandidateFailedError("runtime_error", found.category, found.message)

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """As of `CompileRun`; no process of the candidate compiled it."""
        return [self.of(launch, counted=counted).binaries[0] for launch in launches]

    def of(self, launch: Launch, *, counted: bool = True) -> Compilation:
        """Wait for the compilation of one launch, with its code where it is `ok`.

        Args:
            launch: `kernel`, `arguments` and `options`.
            counted: whether it is a launch on the problem's own shapes, for which alone a candidate must compile.
        """
        key = self._begun(launch)
        if counted:
            self._counted.add(key)
        found = self._service.wait(self._jobs[key])
        if found.ok and found.binaries:
            self._note(key, launch, found.binaries[0])
        return found

    def _begun(self, launch: Launch) -> bytes:
        """Return the key of the job that compiles a launch: a known one, that of one of the same code, or a new one."""
        key = codec.encode([launch])
        if key not in self._jobs and key not in self._same:
            compiled = self._compiled.get(_form(launch), [])
            same_code = self._service.language.same_code
            like = next((one.key for one in compiled if same_code(one.launch, launch, one.binary)), None)
            if like is not None:
                self._same[key] = like
            else:
                self._jobs[key] = self._service.start(self._source, [launch])
        return self._same.get(key, key)

    def _note(self, key: bytes, launch: Launch, binary: Any) -> None:
        """Keep a launch that compiled for others like it to be held against: few, for a candidate says how many."""
        alike = self._compiled.setdefault(_form(launch), [])
        if len(alike) < MOST_ALIKE and all(one.key != key for one in alike):
            alike.append(_Compiled(key, launch, binary))

    def start(self, launches: list[Launch]) -> None:
        """Begin nothing: what is launched has been asked for."""

    def begin(self, launches: list[Launch]) -> None:
        """Begin all of these at once: each is going to be asked for."""
        for launch in launches:
            self._begun(launch)

    def settle(self, launches: list[Launch]) -> None:
        """Compile what was reported and never asked for."""
        for launch in launches:
            self.of(launch)

    def result(self) -> Compilation:
        """Return the first failure, or that all compiled; what did not launch anything does not compile."""
        found = [job.future.result() for key, job in self._jobs.items() if key in self._counted]
        failed = next((one for one in found if not one.ok), None)
        if failed is not None or not found:
            return failed or Compilation(ok=False)
        return Compilation(
            True,
            tf32=any(one.tf32 for one in found),
            seconds=sum(one.seconds for one in found),
            cached=all(one.cached for one in found),
        )

    def close(self) -> None:
        """Give up what nobody is going to wait for."""
        for job in self._jobs.values():
            self._service.give_up(job)
        self._jobs, self._same, self._compiled = {}, {}, {}


@dataclass(frozen=True)
class _Compiled:
    """A launch that compiled: the key of its job, and the fields of its code."""

    key: bytes
    launch: Launch
    binary: Any


def _form(launch: Launch) -> bytes:
    """Return what launches of the same code have in common to the bit."""
    return codec.encode([launch["kernel"], launch["options"], list(launch["arguments"])])
