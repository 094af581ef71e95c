"""The compilation of one candidate's launches: all at once, launch by launch, or each in its language's way."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiling.service import Compilation, CompileService, Job
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError

MOST_ALIKE: Final = 16
"""Compiled launches of a kernel with the same options that a new launch is compared with."""
Launch: TypeAlias = dict[str, Any]
"""`kernel`, `arguments` and `options`."""


class CompileRun(ABC):
    """The compilation of one candidate's launches, each `kernel`, `arguments` and `options`.

    A launch is `counted` if it is on the problem's own shapes; only those must compile.

    Attributes:
        loads_code: whether replays wait for the code.
        begun_ahead: whether something was compiled before the first launch.
    """

    loads_code: bool
    begun_ahead = False

    def built(self, text: str) -> Compilation:
        """Return a build that host code asks for before it launches; WireError if the language has none."""
        raise WireError("a build is requested; the language has none.")

    @abstractmethod
    def reported(self, launch: Launch, *, counted: bool) -> Compilation | None:
        """Return the code for a launch that host code is about to make; None if it is interpreted."""

    @abstractmethod
    def begin(self, launches: list[Launch]) -> None:
        """Start compiling all of these: each will be needed."""

    @abstractmethod
    def start(self, launches: list[Launch]) -> None:
        """Start compiling the known launches, unless that has started."""

    @abstractmethod
    def settle(self, launches: list[Launch]) -> None:
        """Compile all launches of the trials."""

    @abstractmethod
    def result(self) -> Compilation:
        """Wait; return the first failure, or success. No launch at all counts as a failure."""

    @abstractmethod
    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """Wait until a replay can launch these.

        Raises:
            CandidateFailedError: one of them does not compile.
        """

    @abstractmethod
    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """Return what a player loads for each of these; an empty list if it interprets kernels."""

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """Return what each compiled launch's kernel uses of the chip, as reported; empty if that is not known."""
        return []

    def alone(self, launches: list[Launch]) -> Compilation:
        """Wait for an uncounted compilation of these launches; only where all compile at once."""
        raise NotImplementedError

    def settle_anew(self, launches: list[Launch]) -> None:
        """Compile these launches instead of the settled ones; only where all compile at once."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Cancel the compilations that are still running."""


def run_of(service: CompileService, source: str) -> CompileRun:
    """Return the compilation of one candidate: launch by launch if a device runs the code, otherwise all at once."""
    parts = service.language.parts
    if len(parts) > 1:
        return ByLanguage({name: _run_of(service, source, part) for name, part in parts.items()})
    return _run_of(service, source, service.language)


def _run_of(service: CompileService, source: str, language: KernelLanguage) -> CompileRun:
    if language.builds_ahead:
        return Ahead(service, language)
    kind = LaunchByLaunch if service.loads_code else AllAtOnce
    return kind(service, source, language)


class AllAtOnce(CompileRun):
    """One compilation for all launches: an evaluation waits for one deadline at most. No replay needs the code."""

    loads_code = False

    def __init__(self, service: CompileService, source: str, language: KernelLanguage | None = None) -> None:
        self._service = service
        self._source = source
        self._language = language or service.language
        self._job: Job | None = None
        self._launches: list[Launch] = []
        self._settled = False

    def reported(self, launch: Launch, *, counted: bool) -> None:
        """See `CompileRun`: None, since the launch is interpreted."""

    def begin(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        self.start(launches)

    def start(self, launches: list[Launch]) -> None:
        """Start with the first known launches: most candidates launch the same in every trial."""
        if launches and self._job is None:
            self._job = self._service.start(self._source, launches, self._language)
            self._launches = launches

    def settle(self, launches: list[Launch]) -> None:
        """Compile all launches of the trials. Launches reported later are ignored."""
        if self._settled:
            return
        self._settled = True
        if len(launches) > len(self._launches):
            self.close()
        self.start(launches)

    def alone(self, launches: list[Launch]) -> Compilation:
        """See `CompileRun`."""
        return self._service.wait(self._service.start(self._source, launches, self._language))

    def settle_anew(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        self.close()
        self.start(launches)

    def result(self) -> Compilation:
        """Wait for the compilation; no launch at all counts as a failure."""
        return self._service.wait(self._job) if self._job is not None else Compilation(ok=False)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """See `CompileRun`: no replay needs the code."""

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """See `CompileRun`: no replay needs the code."""
        return []

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """See `CompileRun`."""
        known = dict(zip(map(_key, self._launches), self.result().resources, strict=False))
        found = [known.get(_key(launch)) for launch in launches]
        return found if all(found) else []

    def close(self) -> None:
        """Cancel the compilations that are still running."""
        if self._job is not None:
            self._service.give_up(self._job)
            self._job = None


class LaunchByLaunch(CompileRun):
    """The compilation of one candidate for a device: each launch separately, when it is first needed.

    A launch that equals a compiled one in everything that the language specializes on reuses its code.
    """

    loads_code = True

    def __init__(self, service: CompileService, source: str, language: KernelLanguage | None = None) -> None:
        self._service = service
        self._source = source
        self._language = language or service.language
        self._jobs: dict[bytes, Job] = {}
        self._same: dict[bytes, bytes] = {}
        self._compiled: dict[bytes, list[_Compiled]] = {}
        self._counted: set[bytes] = set()

    def reported(self, launch: Launch, *, counted: bool) -> Compilation:
        """See `CompileRun`."""
        return self.of(launch, counted=counted)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """See `CompileRun`."""
        self.begin(launches)
        for launch in launches:
            found = self.of(launch, counted=counted)
            if not found.ok:
                raise CandidateFailedError("runtime_error", found.category, found.message)

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """See `CompileRun`; the code was compiled outside the candidate's processes."""
        return [self.of(launch, counted=counted).binaries[0] for launch in launches]

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """See `CompileRun`."""
        found = [self.of(launch, counted=False).resources[:1] for launch in launches]
        return [one[0] for one in found] if all(found) else []

    def of(self, launch: Launch, *, counted: bool = True) -> Compilation:
        """Wait for the compilation of one launch; it includes the code if `ok`.

        Args:
            launch: `kernel`, `arguments` and `options`.
            counted: whether the launch is on the problem's own shapes; only those must compile.
        """
        key = self._begun(launch)
        if counted:
            self._counted.add(key)
        found = self._service.wait(self._jobs[key])
        if found.ok and found.binaries:
            self._note(key, launch, found.binaries[0])
        return found

    def _begun(self, launch: Launch) -> bytes:
        """Return the key of the job that compiles a launch: a known job, one with the same code, or a new one."""
        key = codec.encode([launch])
        if key not in self._jobs and key not in self._same:
            compiled = self._compiled.get(_form(launch), [])
            same_code = self._language.same_code
            like = next((one.key for one in compiled if same_code(one.launch, launch, one.binary)), None)
            if like is not None:
                self._same[key] = like
            else:
                self._jobs[key] = self._service.start(self._source, [launch], self._language)
        return self._same.get(key, key)

    def _note(self, key: bytes, launch: Launch, binary: Any) -> None:
        """Keep a compiled launch for comparison with later ones; bounded, since a candidate can make many."""
        alike = self._compiled.setdefault(_form(launch), [])
        if len(alike) < MOST_ALIKE and all(one.key != key for one in alike):
            alike.append(_Compiled(key, launch, binary))

    def start(self, launches: list[Launch]) -> None:
        """Do nothing: launches are compiled when they are first needed."""

    def begin(self, launches: list[Launch]) -> None:
        """Start compiling all of these at once: each will be needed."""
        for launch in launches:
            self._begun(launch)

    def settle(self, launches: list[Launch]) -> None:
        """Compile the launches that were reported and never needed."""
        for launch in launches:
            self.of(launch)

    def result(self) -> Compilation:
        """Return the first failure, or success; no launch at all counts as a failure."""
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
        """Cancel the compilations that are still running."""
        for job in self._jobs.values():
            self._service.give_up(job)
        self._jobs, self._same, self._compiled = {}, {}, {}


class Ahead(CompileRun):
    """The compilation of one candidate's builds, each when host code asks for it; launches name their build."""

    def __init__(self, service: CompileService, language: KernelLanguage | None = None) -> None:
        self.loads_code = service.loads_code
        self._service = service
        self._language = language or service.language
        self._jobs: dict[str, Job] = {}
        self._used: set[str] = set()

    @property
    def begun_ahead(self) -> bool:  # type: ignore[override]
        """Whether a build was asked for."""
        return bool(self._jobs)

    def built(self, text: str) -> Compilation:
        """See `CompileRun`."""
        name = self._language.build_name(text)
        if name not in self._jobs:
            self._jobs[name] = self._service.start(text, [], self._language)
        return self._service.wait(self._jobs[name])

    def reported(self, launch: Launch, *, counted: bool) -> Compilation | None:
        """See `CompileRun`."""
        self.begin([launch])
        return None

    def begin(self, launches: list[Launch]) -> None:
        """See `CompileRun`: checks that each launch is from a build; WireError if not."""
        for launch in launches:
            self._binary_of(launch)

    def _binary_of(self, launch: Launch) -> dict[str, Any]:
        name = str(launch["options"]["build"])
        found = self._service.wait(self._jobs[name]) if name in self._jobs else Compilation(ok=False)
        if not found.ok:
            raise WireError(f"{str(launch['kernel'])[:80]} is launched from a build that was not compiled.")
        self._language.check_launch(launch, found.binaries[0])
        self._used.add(name)
        return found.binaries[0]

    def start(self, launches: list[Launch]) -> None:
        """See `CompileRun`: builds are compiled already."""

    def settle(self, launches: list[Launch]) -> None:
        """See `CompileRun`: builds are compiled already."""

    def result(self) -> Compilation:
        """Return the first failure, or success, of the builds that are launched from; of all if none is."""
        found = {name: job.future.result() for name, job in self._jobs.items() if job.future.done()}
        counted = [found[name] for name in self._used] or list(found.values())
        failed = next((one for one in counted if not one.ok), None)
        if failed is not None or not counted:
            return failed or Compilation(ok=False)
        seconds, cached = sum(one.seconds for one in counted), all(one.cached for one in counted)
        return Compilation(True, tf32=any(one.tf32 for one in counted), seconds=seconds, cached=cached)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """See `CompileRun`."""
        self.begin(launches)

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """See `CompileRun`: the name of each launch's build, the first time with its cubins, without the host code."""
        found: list[dict[str, Any]] = []
        sent: set[str] = set()
        for launch in launches:
            name, binary = str(launch["options"]["build"]), self._binary_of(launch)
            found.append({"build": name, "cubins": [] if name in sent else binary["cubins"]})
            sent.add(name)
        return found

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """See `CompileRun`."""
        found = [self._language.resources_of(launch, self._binary_of(launch)) for launch in launches]
        return found if all(found) else []

    def close(self) -> None:
        """Cancel the compilations that are still running."""
        for job in self._jobs.values():
            self._service.give_up(job)
        self._jobs = {}


class ByLanguage(CompileRun):
    """The compilation of one candidate that can use several languages; a launch's `language` says which.

    Args:
        runs: the compilation of each language's launches, by its name.
    """

    def __init__(self, runs: Mapping[str, CompileRun]) -> None:
        self.loads_code = any(run.loads_code for run in runs.values())
        self._runs = runs
        self._launched: dict[str, CompileRun] = {}

    @property
    def begun_ahead(self) -> bool:  # type: ignore[override]
        """Whether a build was asked for."""
        return any(run.begun_ahead for run in self._runs.values())

    def built(self, text: str) -> Compilation:
        """See `CompileRun`: the first language has the builds."""
        return next(iter(self._runs.values())).built(text)

    def reported(self, launch: Launch, *, counted: bool) -> Compilation | None:
        """See `CompileRun`."""
        ((run, own),) = self._each([launch])
        return run.reported(own[0], counted=counted)

    def begin(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        for run, own in self._each(launches):
            run.begin(own)

    def start(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        for run, own in self._each(launches):
            run.start(own)

    def settle(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        for run, own in self._each(launches):
            run.settle(own)

    def alone(self, launches: list[Launch]) -> Compilation:
        """See `CompileRun`."""
        found = [run.alone(own) for run, own in self._each(launches) if not run.begun_ahead]
        return next((one for one in found if not one.ok), Compilation(ok=True))

    def settle_anew(self, launches: list[Launch]) -> None:
        """See `CompileRun`."""
        for run, own in self._each(launches):
            if not run.begun_ahead:
                run.settle_anew(own)

    def result(self) -> Compilation:
        """Return the first failure, or success. Builds alongside launches in other languages count only if launched."""
        runs = list(self._launched.values()) or [run for run in self._runs.values() if run.begun_ahead]
        found = [run.result() for run in runs]
        failed = next((one for one in found if not one.ok), None)
        if failed is not None or not found:
            return failed or Compilation(ok=False)
        seconds, cached = sum(one.seconds for one in found), all(one.cached for one in found)
        return Compilation(True, tf32=any(one.tf32 for one in found), seconds=seconds, cached=cached)

    def await_code(self, launches: list[Launch], *, counted: bool) -> None:
        """See `CompileRun`."""
        for run, own in self._each(launches):
            run.await_code(own, counted=counted)

    def code_of(self, launches: list[Launch], *, counted: bool) -> list[dict[str, Any]]:
        """See `CompileRun`: in the order of the launches."""
        if not self.loads_code:
            return []
        found = {id(run): iter(run.code_of(own, counted=counted)) for run, own in self._each(launches)}
        return [next(found[id(self._runs[launch["language"]])]) for launch in launches]

    def resources_of(self, launches: list[Launch]) -> list[Any]:
        """See `CompileRun`: known only if every language reports them."""
        found = {id(run): run.resources_of(own) for run, own in self._each(launches)}
        if not all(found.values()):
            return []
        each = {name: iter(one) for name, one in found.items()}
        return [next(each[id(self._runs[launch["language"]])]) for launch in launches]

    def _each(self, launches: list[Launch]) -> Iterator[tuple[CompileRun, list[Launch]]]:
        """Yield each language's compilation with its launches, in that language's form."""
        for name, run in self._runs.items():
            own = [_without_language(launch) for launch in launches if launch["language"] == name]
            if own:
                self._launched[name] = run
                yield run, own

    def close(self) -> None:
        """Cancel the compilations that are still running."""
        for run in self._runs.values():
            run.close()


def _without_language(launch: Launch) -> Launch:
    return {name: value for name, value in launch.items() if name != "language"}


@dataclass(frozen=True)
class _Compiled:
    """A launch that compiled, the key of its job, and the fields of its code."""

    key: bytes
    launch: Launch
    binary: Any


def _key(launch: Launch) -> bytes:
    return codec.encode([launch])


def _form(launch: Launch) -> bytes:
    """Return the part of a launch that must be equal for launches to share code."""
    return codec.encode([launch["kernel"], launch["options"], list(launch["arguments"])])
