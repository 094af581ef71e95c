"""Compiling a candidate's kernels for the target chip, in workers that no candidate reaches, with a cache."""

import hashlib
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Final

from warpsmith.evaluator import wire
from warpsmith.evaluator.pool import Machine, Worker, WorkerDiedError, WorkerTimeoutError
from warpsmith.evaluator.protocol import Kind

CACHE_ENTRIES: Final = 20_000
ATTEMPTS: Final = 2
SIGKILL: Final = 9


@dataclass(frozen=True)
class Compilation:
    """Whether all launches of a candidate compile for the target chip; `seconds` is what this evaluation waited for."""

    ok: bool
    category: str = ""
    message: str = ""
    tf32: bool = False
    seconds: float = 0.0
    cached: bool = False


class CompileFailedError(Exception):
    """The compile worker was lost, not by the kernel's doing: a failure of the evaluator."""


class CompileService:
    """Compiles in the background. Answers are kept by source, launches, chip and Triton version."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._config = machine.config
        self._salt = f"sm_{machine.config.target_arch} triton {version('triton')}".encode()
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Future[Compilation]] = OrderedDict()
        self._threads = ThreadPoolExecutor(machine.config.slots, "compile")

    def start(self, source: str, launches: list[dict[str, Any]]) -> Future[Compilation]:
        """Return the compilation of these launches: a known one, one under way, or a new one."""
        key = self._key(source, launches)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return _marked(self._known[key])
            future = self._threads.submit(self._compile, source, launches)
            self._known[key] = future
            while len(self._known) > CACHE_ENTRIES:
                self._known.popitem(last=False)
        future.add_done_callback(lambda done: self._forget_failure(key, done))
        return future

    def _key(self, source: str, launches: list[dict[str, Any]]) -> bytes:
        digest = hashlib.sha256(self._salt)
        for part in (source.encode("utf-8", "surrogatepass"), *sorted(wire.encode(launch) for launch in launches)):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()

    def _forget_failure(self, key: bytes, done: Future[Compilation]) -> None:
        """Keep no failure of ours in the cache, nor a deadline that a busy machine may have caused."""
        if done.exception() is not None or done.result().category == "timeout":
            with self._lock:
                self._known.pop(key, None)

    def _compile(self, source: str, launches: list[dict[str, Any]]) -> Compilation:
        started = time.monotonic()
        for _ in range(ATTEMPTS):
            worker = self._machine.take("compile", self._config.start_timeout_s)
            try:
                found = self._ask(worker, source, launches)
            except WorkerDiedError as error:
                if error.ended is not None and error.ended.signal != SIGKILL:
                    return Compilation(
                        False, "triton_compilation_error", _crash(error), seconds=time.monotonic() - started
                    )
                continue
            except WorkerTimeoutError:
                message = f"The kernels did not compile within {self._config.compile_timeout_s:g} s."
                found = Compilation(False, "timeout", message)
            finally:
                worker.close()
            return replace(found, seconds=time.monotonic() - started)
        raise CompileFailedError("The compile worker was killed twice.")

    def _ask(self, worker: Worker, source: str, launches: list[dict[str, Any]]) -> Compilation:
        deadline = time.monotonic() + self._config.compile_timeout_s
        worker.send(Kind.COMPILE, {"source": source, "launches": launches}, [], self._config.compile_timeout_s)
        message = worker.receive(deadline - time.monotonic())
        if message.kind is not Kind.COMPILED:
            raise CompileFailedError(f"The compile worker answered {message.kind.name}.")
        fields = message.fields
        return Compilation(
            fields.flag("ok"), fields.text("category", 60), fields.text("message", 8000), fields.flag("tf32")
        )

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def _marked(known: Future[Compilation]) -> Future[Compilation]:
    """Return the known compilation, marked as cached when it had been finished before."""
    if not known.done() or known.exception() is not None:
        return known
    marked: Future[Compilation] = Future()
    marked.set_result(replace(known.result(), seconds=0.0, cached=True))
    return marked


def _crash(error: WorkerDiedError) -> str:
    return f"Triton's compiler crashed on the kernels ({error})."
