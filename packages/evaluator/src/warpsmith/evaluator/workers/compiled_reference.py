"""torch.compile in the worker of a baseline: everything in its own process, but for the compilers that it may run."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import Any, Final

import torch
from torch import nn

from warpsmith.evaluator import _native
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.workers import gpu_stand_in

HEAD: Final = 200
TAIL: Final = 600


def prepare() -> None:
    """Import and set up Inductor before a problem's code runs.

    It would otherwise start Python processes, look for compilers, and compile programs to learn about the processor.
    """
    # Inductor and Triton name their folders after the user, whom a sandbox's identity has not.
    gpu_stand_in.provide_user()
    from torch._inductor import config, cpu_vec_isa

    config.compile_threads = 1
    config.force_disable_caches = True
    # It hashes headers with a program that a worker may not run.
    config.cpp_cache_precompile_headers = False
    config.cpp.vec_isa_ok = True
    # Some instruction sets are tried nevertheless, in a Python process.
    cpu_vec_isa.VecISA.check_build = _is_missing  # type: ignore[method-assign,assignment]
    config.cpp.cxx = (None, os.environ.get("CXX", "g++"))


def _is_missing(isa: Any, code: str) -> bool:
    """Say that the processor lacks an instruction set that would have to be tried."""
    return False


class Loan:
    """Borrows the device from the judge: each call returns a context in which nothing else runs on it.

    Args:
        channel: to the judge, which waits for messages while this worker tunes.
        settle: waits until the device has none of this worker's work left.
    """

    def __init__(self, channel: _native.Channel, settle: Callable[[], None]) -> None:
        self._channel = channel
        self._settle = settle
        self._lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for the device; a loan within a loan is part of it."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._borrow()
                try:
                    yield
                finally:
                    if self._depth == 1:
                        # What failed may have left work on the device, which is another's from the next message on.
                        with suppress(Exception):
                            self._settle()
                        messages.send(self._channel, Kind.DEVICE_RETURNED, {})
            finally:
                self._depth -= 1

    def _borrow(self) -> None:
        messages.send(self._channel, Kind.DEVICE_WANTED, {})
        answer = messages.receive(self._channel)
        if answer.kind is not Kind.DEVICE_LENT:
            raise WireError(f"{answer.kind.name} was sent; DEVICE_LENT was expected")


@contextmanager
def comparing_times_in(context: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Let Inductor compare times of kernels in a context of its own each time.

    torch 2.13 has a setting for that. In earlier ones the method that measures is replaced.
    """
    from torch._inductor.runtime import benchmarking

    register: Any = getattr(benchmarking, "set_gpu_benchmark_lock_context", None)
    if register is not None:
        before = register(context)
        try:
            yield
        finally:
            register(before)
        return
    kind: Any = type(benchmarking.benchmarker)
    method = kind.benchmark_gpu
    kind.benchmark_gpu = _within(context, method)
    try:
        yield
    finally:
        kind.benchmark_gpu = method


def _within(context: Callable[[], AbstractContextManager[None]], method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return method(*args, **kwargs)

    return run


class NotCompiledError(RuntimeError):
    """torch.compile, or the code that it made, raised."""


def shortened(error: BaseException) -> str:
    """Return an error's text with what matters of a long one: its beginning and its end, where a compiler's output is.

    Advice on how to get more of it is left out.
    """
    text = f"{type(error).__name__}: {error}".partition("Set TORCHDYNAMO_VERBOSE=1")[0].strip()
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} [...] {text[-TAIL:]}"


def compiled(model: nn.Module, mode: str) -> Callable[..., Any]:
    """Return a module compiled in a mode of torch.compile; code of an earlier one is dropped.

    It compiles at its first call, which raises what the compiler raises.
    """
    torch._dynamo.reset()
    return torch.compile(model, mode=mode)
