"""Compiles a candidate's kernels for the target chip, in workers that no candidate can reach, with a cache."""

import hashlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.compressed_store import PackedStore, pack, unpack
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.languages.chips import chip_name
from warpsmith.evaluator.processes.failure_attribution import STARVED_SHARE
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries
from warpsmith.evaluator.processes.worker import Worker, WorkerDiedError, WorkerStartError, WorkerTimeoutError
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.system.threads import started_executor

CACHE_ENTRIES: Final = 20_000
CACHE_BYTES: Final = 256 << 20
"""Size of the cache. An elementwise kernel takes 2 KiB; a large kernel can take hundreds."""
MOST_TIMES: Final = 4
"""Upper bound on a compilation's wall time, in multiples of its limit, with the time without a processor included."""
LEAST_EXTENSION_S: Final = 0.25
MAX_MESSAGE: Final = 8000
NOT_WANTED: Final = "This compilation was cancelled."


@dataclass(frozen=True)
class Compilation:
    """Whether all launches of a candidate compile for the target chip; `seconds` is the time taken, 0 if cached."""

    ok: bool
    category: str = ""
    message: str = ""
    tf32: bool = False
    seconds: float = 0.0
    cached: bool = False
    binaries: tuple[dict[str, Any], ...] = ()
    resources: tuple[dict[str, Any], ...] = ()


class CompileFailedError(Exception):
    """The kernels could not be compiled because of a failure of the evaluator, not of the kernels."""


class _CrashedError(Exception):
    """The compiler or the assembler crashed; `found` is the result if it crashes again."""

    def __init__(self, message: str, found: Compilation) -> None:
        super().__init__(message)
        self.found = found


LOST: Final = (WorkerStartError, WorkerDiedError, WorkerTimeoutError, CompileFailedError, _native.NativeError, OSError)
"""Errors of a compilation that are not the source's failure."""
RETRIES: Final = RetryPolicy([Retries(ONCE, of(_CrashedError)), Retries(ONCE, of(*LOST))])


@dataclass
class Job:
    """One compilation, shared by all evaluations that need the same launches.

    Attributes:
        language: of the kernels; None for one that was answered from the cache.
    """

    key: bytes
    language: KernelLanguage | None = None
    future: Future[Compilation] = field(default_factory=Future)
    waiting: int = 1
    worker: Worker | None = None


class CompileService:
    """Compiles in the background. Results are cached by source, launches, chip and version of the language.

    The cache holds at most CACHE_ENTRIES results and CACHE_BYTES; the least recently used is dropped first.

    Attributes:
        language: the language of the kernels.
        loads_code: whether results include machine code, for a device that launches it.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._config = machine.config
        self.language = machine.language
        self.loads_code = not machine.config.device_kind.interprets
        self._salt = f"{chip_name(machine.config.chip)} {machine.language.version()}".encode()
        self._lock = threading.Lock()
        self._under_way: dict[bytes, Job] = {}
        self._kept = PackedStore(CACHE_ENTRIES, CACHE_BYTES)
        self._threads = started_executor(machine.config.slots, "compile")

    def start(self, source: str, launches: list[dict[str, Any]], language: KernelLanguage | None = None) -> Job:
        """Return the compilation of these launches: a cached one, one in progress, or a new one.

        Args:
            source: the candidate's, or the text of a build.
            launches: `kernel`, `arguments` and `options` of each.
            language: one of the service's language's `parts`; by default the service's language.
        """
        language = language or self.language
        key = self._key(language, source, launches)
        with self._lock:
            known = self._under_way.get(key)
            # A job that has just failed stays until `_keep` runs: a retry must not join it.
            if known is not None and not _has_failed(known.future):
                return _joined(known)
            kept = self._kept.get(key)
            if kept is None:
                job = self._under_way[key] = Job(key, language)
                job.future = self._threads.submit(self._compile, job, source, launches)
        if kept is not None:
            return _answered(key, _compilation(codec.Fields(unpack(kept))))
        job.future.add_done_callback(lambda done: self._keep(job, done))
        return job

    def wait(self, job: Job) -> Compilation:
        """Wait for a compilation with the device released; the time counts as `stall` of the evaluation that waits."""
        if job.future.done():
            return job.future.result()
        with self._machine.clock.phase("stall"), self._machine.lease.released():
            return job.future.result()

    def give_up(self, job: Job) -> None:
        """Stop waiting for a compilation; if nobody else waits for it, end it and its worker at once."""
        with self._lock:
            job.waiting -= 1
            if job.waiting or job.future.done():
                return
            self._forget(job)
            if job.worker is not None:
                job.worker.kill()
        job.future.cancel()

    def _key(self, language: KernelLanguage, source: str, launches: list[dict[str, Any]]) -> bytes:
        digest = hashlib.sha256(self._salt)
        encoded = sorted(codec.encode(launch) for launch in launches)
        for part in (language.name.encode(), source.encode("utf-8", "surrogatepass"), *encoded):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()

    def _keep(self, job: Job, done: Future[Compilation]) -> None:
        """Cache a result, except failures of the evaluator and timeouts, which a busy machine may have caused."""
        failed = done.cancelled() or done.exception() is not None or done.result().category == "timeout"
        packed = b"" if failed else pack(_fields(done.result()))
        with self._lock:
            if self._under_way.get(job.key) is not job:
                return
            self._forget(job)
            if packed:
                self._kept.put(job.key, packed)

    def _forget(self, job: Job) -> None:
        if self._under_way.get(job.key) is job:
            del self._under_way[job.key]

    def _compile(self, job: Job, source: str, launches: list[dict[str, Any]]) -> Compilation:
        """Compile in a worker; retry once after a lost worker and once after a crash."""
        started = time.monotonic()

        def attempt() -> Compilation:
            with self._worker(job) as worker:
                deadline = time.monotonic() + self._config.compile_timeout_s
                return self._asked(worker, job.language or self.language, source, launches, deadline)

        try:
            found = with_retries(attempt, RETRIES)
        except _CrashedError as error:
            found = error.found
        except LOST as error:
            raise CompileFailedError(f"The kernels could not be compiled: {with_advice(error).rstrip('.')}.") from error
        return replace(found, seconds=time.monotonic() - started)

    @contextmanager
    def _worker(self, job: Job) -> Iterator[Worker]:
        """Yield a compile worker that `give_up` can end."""
        if not job.waiting:
            raise CompileFailedError(NOT_WANTED)
        worker = self._machine.take("compile", self._config.start_timeout_s)
        try:
            with self._lock:
                job.worker = worker
                unwanted = job.waiting == 0
            if unwanted:
                raise CompileFailedError(NOT_WANTED)
            yield worker
        finally:
            with self._lock:
                job.worker = None
            worker.close()

    def _asked(
        self, worker: Worker, language: KernelLanguage, source: str, launches: list[dict[str, Any]], deadline: float
    ) -> Compilation:
        """Return a worker's result.

        Raises:
            _CrashedError: the worker crashed, which a compiler can cause.
            *LOST: the worker was lost, or lacked what it needs.
        """
        try:
            return self._ask(worker, language, source, launches, deadline)
        except WorkerDiedError as error:
            if error.lost_with_zygote or error.killed or (error.ended and error.ended.code == EXHAUSTED_CODE):
                raise
            crashed = _broken(language, f"{language.title}'s compiler crashed on the kernels ({error}).")
            raise _CrashedError(str(error), crashed) from error
        except WorkerTimeoutError as error:
            starved = error.starved_seconds
            if starved is not None and starved > STARVED_SHARE * self._config.compile_timeout_s:
                raise
            message = (
                f"The kernels did not compile within {self._config.compile_timeout_s:g} s. "
                f"{language.slow_compile_advice}"
            )
            return Compilation(False, "timeout", message)
        except (WireError, _native.FrameError) as error:
            return _broken(language, f"The compile worker sent an invalid reply: {error}")

    def _ask(
        self, worker: Worker, language: KernelLanguage, source: str, launches: list[dict[str, Any]], deadline: float
    ) -> Compilation:
        fields = {"language": language.name, "source": source, "launches": launches, "binaries": self.loads_code}
        worker.send(Kind.COMPILE, fields, [], deadline - time.monotonic())
        message = self._reply(worker, deadline)
        if message.kind is not Kind.COMPILED:
            raise WireError(f"The compile worker sent {message.kind.name}; COMPILED was expected.")
        if lost := message.fields.text("lost", MAX_MESSAGE):
            raise CompileFailedError(lost)
        found = _compilation(message.fields)
        if message.fields.flag("crashed"):
            raise _CrashedError(found.message, found)
        return found

    def _reply(self, worker: Worker, deadline: float) -> Message:
        """Receive the reply; time in which the compiler waited for a processor does not count, up to a bound.

        Raises:
            WorkerTimeoutError: starved if the bound was reached; otherwise all waiting was compensated.
        """
        most = deadline + (MOST_TIMES - 1) * self._config.compile_timeout_s
        extended = deadline
        while True:
            try:
                return worker.receive(extended - time.monotonic())
            except WorkerTimeoutError as error:
                if error.starved_seconds is None or extended >= most:
                    raise
                later = min(deadline + error.starved_seconds, most)
                if later - extended < LEAST_EXTENSION_S:
                    raise WorkerTimeoutError(error.role, error.cpu_seconds, 0.0) from error
                extended = max(later, min(time.monotonic() + LEAST_EXTENSION_S, most))

    def close(self) -> None:
        """Start no more compilations. Running ones end with the machine's workers."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _broken(language: KernelLanguage, message: str) -> Compilation:
    return Compilation(False, language.compilation_category, message)


def _has_failed(future: Future[Compilation]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


def _joined(known: Job) -> Job:
    """Return a known job with one more waiting for it; a finished one is marked as cached."""
    if not known.future.done():
        known.waiting += 1
        return known
    return _answered(known.key, known.future.result())


def _answered(key: bytes, found: Compilation) -> Job:
    """Return a finished job, marked as cached."""
    marked = Job(key)
    marked.future.set_result(replace(found, seconds=0.0, cached=True))
    return marked


def _compilation(fields: codec.Fields) -> Compilation:
    """Return the compilation that a worker reported."""
    return Compilation(
        fields.flag("ok"),
        fields.text("category", 60),
        fields.text("message", MAX_MESSAGE),
        fields.flag("tf32"),
        binaries=tuple(fields.sequence("binaries")),
        resources=tuple(fields.sequence("resources") if fields.has("resources") else ()),
    )


def _fields(found: Compilation) -> dict[str, Any]:
    """Return the fields that `_compilation` reads."""
    return {
        "ok": found.ok,
        "category": found.category,
        "message": found.message[:MAX_MESSAGE],
        "tf32": found.tf32,
        "binaries": list(found.binaries),
        "resources": list(found.resources),
    }
