"""torch.compile in a baseline's worker: everything in its own process, except the compilers that it may run."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import torch
from torch import nn

from warpsmith.evaluator.devices.base import OnDevice
from warpsmith.evaluator.workers import gpu_stand_in

HEAD: Final = 200
TAIL: Final = 600


def prepare() -> None:
    """Import and set up Inductor before a problem's code runs.

    It would otherwise start Python processes, look for compilers, and compile programs to learn about the processor.
    """
    # Inductor and Triton name their folders after the user, and a sandbox's identity has no user name.
    gpu_stand_in.provide_user()
    from torch._inductor import config, cpu_vec_isa

    config.compile_threads = 1
    config.force_disable_caches = True
    # It hashes headers with a program that a worker may not run.
    config.cpp_cache_precompile_headers = False
    config.cpp.vec_isa_ok = True
    # Some instruction sets are still tried out, in a Python process.
    cpu_vec_isa.VecISA.check_build = _is_missing  # type: ignore[method-assign,assignment]
    config.cpp.cxx = (None, os.environ.get("CXX", "g++"))


def _is_missing(isa: Any, code: str) -> bool:
    """Say that the processor lacks any instruction set that would have to be tried out."""
    return False


@contextmanager
def comparing_times_in(context: OnDevice) -> Iterator[None]:
    """Let Inductor compare times of kernels in a separate context each time.

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


def _within(context: OnDevice, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return method(*args, **kwargs)

    return run


class NotCompiledError(RuntimeError):
    """torch.compile, or the code that it made, raised."""


def shortened(error: BaseException) -> str:
    """Return an error's text; of a long one the beginning and the end, where a compiler's output is.

    Advice on how to get more output is left out.
    """
    text = f"{type(error).__name__}: {error}".partition("Set TORCHDYNAMO_VERBOSE=1")[0].strip()
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} [...] {text[-TAIL:]}"


def compiled(model: nn.Module, mode: str) -> Callable[..., Any]:
    """Return a module compiled in a mode of torch.compile; code of an earlier one is dropped.

    It compiles at its first call, which raises the compiler's errors.
    """
    torch._dynamo.reset()
    return torch.compile(model, mode=mode)
