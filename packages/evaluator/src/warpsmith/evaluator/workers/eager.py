"""Lets host code run eagerly: functions that compile or capture Python return it unchanged.

`torch.compile` would need a C compiler, which no worker can run, and importing its parts takes seconds. Run eagerly,
the same code makes the same allocations and launches. Custom operators run their Python implementation.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import wraps
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final

import torch
import torch._library.triton
import torch.compiler
import torch.library
import torch.utils.checkpoint
from torch import nn

from warpsmith.evaluator.recordings.operators import with_outer_modes
from warpsmith.evaluator.workers import inductor_stand_ins

DYNAMO: Final = "torch._dynamo"
CHECKPOINT_OPTIONS: Final = frozenset(
    {"use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state"}
)


def install() -> None:
    """Replace torch's compilers and capture in this process, which must belong to a candidate."""
    changed: Any = torch
    changed.compile = _compiled
    dynamo = _dynamo()
    changed._dynamo = sys.modules[DYNAMO] = dynamo
    compiler: Any = torch.compiler
    compiler.compile = _compiled
    for name in ("disable", "allow_in_graph", "assume_constant_result", "nested_compile_region"):
        setattr(compiler, name, _as_it_is)
    compiler.reset = compiler.cudagraph_mark_step_begin = _nothing
    compiler.set_stance = _no_context
    module: Any = nn.Module
    module.compile = lambda self, *_, **__: _compiled_module(self)
    _install_library()
    inductor_stand_ins.install()
    checkpoints: Any = torch.utils.checkpoint
    checkpoints.checkpoint = _checkpoint
    checkpoints.checkpoint_sequential = _checkpoint_sequential


def _install_library() -> None:
    for place in (torch.library, torch._library, torch._library.triton):
        for name, value in {"wrap_triton": _wrapped, "capture_triton": _wrapped, "triton_op": _triton_op}.items():
            setattr(place, name, value)
    library: Any = torch.library.Library
    register = library.impl

    def impl(self: Any, op_name: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return register(self, op_name, with_outer_modes(fn) if callable(fn) else fn, *args, **kwargs)

    library.impl = impl


def _triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """Define a plain custom operator, since operators are never captured here."""
    return torch.library.custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def _wrapped(triton_kernel: Any, /) -> Any:
    """Return a kernel unchanged: there is no graph to capture it into."""
    return triton_kernel


def _as_it_is(function: Any = None, /, *_: Any, **options: Any) -> Any:
    """Return a function undecorated; replaces decorators that are used with and without arguments."""
    function = options.get("model", options.get("fn", function))
    return _undecorated if function is None else function


_COMPILED: Final[ContextVar[bool]] = ContextVar("_COMPILED", default=False)


def is_compiled() -> bool:
    """Whether a function that host code passed to `torch.compile` is running."""
    return _COMPILED.get()


def _compiled(function: Any = None, /, *_: Any, **options: Any) -> Any:
    """Return a function that runs eagerly and counts as compiled while it runs; replaces `torch.compile`."""
    function = options.get("model", options.get("fn", function))
    if function is None:
        return _compiled
    if isinstance(function, nn.Module):
        return _compiled_module(function)
    return _known_as_compiled(function) if isinstance(function, FunctionType | MethodType) else function


def _compiled_module(module: nn.Module) -> nn.Module:
    module.forward = _known_as_compiled(module.forward)
    return module


def _known_as_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        token = _COMPILED.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _COMPILED.reset(token)

    return run


def _undecorated(function: Any) -> Any:
    return function


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _no_context(*_: Any, **__: Any) -> AbstractContextManager[None]:
    return nullcontext()


def _checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; without a backward pass there is nothing to recompute."""
    return function(*args, **{name: value for name, value in kwargs.items() if name not in CHECKPOINT_OPTIONS})


def _checkpoint_sequential(functions: Any, segments: int, input: Any, *_: Any, **__: Any) -> Any:
    for function in functions:
        input = function(input)
    return input


def _dynamo() -> ModuleType:
    """Return a replacement of `torch._dynamo`, whose submodules are still torch's own."""
    module: Any = ModuleType(DYNAMO)
    module.__path__ = [str(place) + "/_dynamo" for place in torch.__path__]
    module.config = SimpleNamespace(cache_size_limit=8, recompile_limit=8, suppress_errors=False, verbose=False)
    for name in ("disable", "allow_in_graph", "disallow_in_graph", "assume_constant_result", "run"):
        setattr(module, name, _as_it_is)
    for name in ("reset", "graph_break", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "mark_static_address"):
        setattr(module, name, _nothing)
    module.optimize = lambda *_, **__: _compiled
    module.is_compiling = lambda: False
    return module  # type: ignore[no-any-return]
