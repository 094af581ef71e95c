"""The torch operators that a candidate's forward can use: those that allocate, view, reshape and move, but not compute.

What an operator moves depends only on shapes and plain arguments, never on values, so a recording replays it on any
values. For an operator that host code defines itself (`torch.library`), the operators that it calls are checked. A
policy can allow operators that compute (`library_policy.py`): a recording then says what was called, and the player
computes it.

`OperatorWatch` checks them, a dispatch mode in the candidate's own process. That process belongs to the candidate, so
the check is a heuristic: it catches a fallback to torch, not a determined native attack.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, Final

import torch
import torch.library
from torch.overrides import TorchFunctionMode

from warpsmith.evaluator.devices.uninitialized_memory import Garbage
from warpsmith.evaluator.operator_mode import OperatorMode
from warpsmith.evaluator.recordings import library_calls, movement
from warpsmith.evaluator.recordings.library_calls import LibraryCall
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.recordings.side_effects import GradModeWatch


def _operators(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


ALLOCATION: Final = _operators("""
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like
    new_ones full full_like new_full scalar_tensor arange linspace eye zero_ fill_ zero fill
""")
MOVEMENT: Final = _operators("""
    copy_ clone contiguous _to_copy to lift_fresh lift_fresh_copy detach detach_ alias set_ resize_
    cat stack constant_pad_nd repeat roll narrow_copy complex
    flip rot90 diag_embed pixel_shuffle pixel_unshuffle channel_shuffle im2col
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
""")
VIEWS: Final = _operators("""
    view _unsafe_view reshape _reshape_alias as_strided t transpose permute expand unsqueeze squeeze slice select narrow
    split split_with_sizes chunk unbind unfold diagonal movedim flatten unflatten view_as_real view_as_complex view_as
    expand_as transpose_ t_ unsqueeze_ squeeze_
""") | {"inductor::_reinterpret_tensor"}
SHAPES: Final = _operators("""
    _local_scalar_dense sym_size sym_stride sym_numel is_pinned size stride is_same_size
    promote_types result_type can_cast
""")
ALLOWED: Final = ALLOCATION | MOVEMENT | VIEWS | SHAPES
ANNOTATIONS: Final = frozenset(
    {f"profiler::_record_function_{name}" for name in ("enter", "enter_new", "exit")} | {"aten::record_stream"}
)
"""Operators that compute nothing and are not recorded: `torch.profiler.record_function`, and a hint to the allocator
about the stream that uses a tensor."""

ADVICE: Final = (
    "Compute in {kernels}. Torch can allocate and fill (empty, zeros, full, arange, tensor), view and "
    "reshape, cast (to), copy (copy_, clone, contiguous) and move (cat, stack, pad, repeat, flip, roll, unfold). Casts "
    "that compute belong in a kernel: float to integer, integer to bool or to fewer than 32 bits."
)
"""Advice to the author of a forward that uses another operator; `kernels` is what the language calls kernels."""
COMPILER_ADVICE: Final = (
    "torch.compile would write kernels in place of the candidate: call the function itself, or compute in {kernels}."
)
"""Advice to the author of a forward in which torch compiles the computation."""

READS: Final = _operators("_local_scalar_dense")
"""Operators that read a tensor's values into Python and are allowed; detached, they reveal nothing."""

EXPORTS: Final = frozenset({"numpy", "tolist", "__array__", "__dlpack__", "apply_", "map_"})
"""Functions that read a tensor's values into Python, where computation cannot be watched."""

ALLOCATES: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operators (without `aten::`) that return uninitialised memory."""

CONSTRUCTS: Final = frozenset({"lift_fresh", "lift_fresh_copy"})
"""Operators whose result is new although their schema calls it an alias."""

MAKES: Final = _operators("empty empty_strided empty_permuted zeros ones full scalar_tensor arange linspace eye")
"""Operators that allocate on a given device instead of the device of another tensor."""

OPERATORS: Final = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
"""Types of operators as host code calls them by their own name, which it may have defined itself."""
_OUTER: Final[ContextVar[tuple[TorchFunctionMode, ...]]] = ContextVar("_OUTER", default=())

_INTO: Final = _operators("copy_ fill_ fill")
"""Operators that move their second argument into the first, or into a tensor like the first."""
_CASTS: Final = MOVEMENT | _INTO
_FRESH: Final = frozenset(f"aten::{name}" for name in ALLOCATES)
_METADATA: Final = _operators("transpose_ t_ unsqueeze_ squeeze_ detach_ set_")


COMPILER: Final = "torch.compile"
COUNTER: Final = "num_batches_tracked"
"""The buffer in which torch's norm layers count their calls. Host code can update it: no output depends on it."""


class OperatorWatch(OperatorMode):
    """Records disallowed operators, fills fresh memory with garbage, and detects writes to the judge's memory.

    Args:
        policy: which operators may compute.
        is_read_only: returns whether a tensor lies in read-only memory of the judge.
        on_write: called with the operator's name before it writes to such a tensor; should raise.
        on_dtype: called with each tensor that an operator returns; can raise for a dtype that the device lacks.
        on_done: called after each allowed operator with the operator, its name, its arguments and its result.
        on_library: called after each allowed operator that computes, with the call and its results.

    Attributes:
        computes: whether operators that compute are run; otherwise their results are memory of the right form. Those
            that are not on the written list always run.
        compiled: returns whether a function that host code compiles with torch is running.
        counters: addresses of the buffers to which an integer can be added.
        fills: whether fresh memory is filled with garbage; not needed if nothing is computed.
        path: the source file whose lines are noted; empty for none.
        refused: number of uses of each disallowed operator.
        lines: for each of these, the line in `path` that first used it, if any.
    """

    def __init__(
        self,
        policy: OperatorPolicy,
        is_read_only: Callable[[torch.Tensor], bool],
        on_write: Callable[[str], None],
        on_dtype: Callable[[torch.Tensor], None],
        *,
        on_done: Callable[[Any, str, Sequence[Any], Any], None] | None = None,
        on_library: Callable[[LibraryCall, Sequence[torch.Tensor]], None] | None = None,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.computes = True
        self.compiled: Callable[[], bool] = lambda: False
        self.refused: dict[str, int] = {}
        self.lines: dict[str, int] = {}
        self.path = ""
        self._is_read_only = is_read_only
        self._on_write = on_write
        self._on_dtype = on_dtype
        self._on_done = on_done
        self._on_library = on_library
        self._garbage = Garbage()
        self.counters: frozenset[int] = frozenset()
        self.fills = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func.name()).partition(".")[0]
        if name in ANNOTATIONS:
            return func(*args, **(kwargs or {}))
        allowed = name in ALLOWED
        kernel = None if allowed else kernel_of(func)
        if kernel is not None:
            with self:
                return kernel(*args, **(kwargs or {}))
        if not allowed and not self._counts(name, args):
            call = self._library_call(func, args, kwargs or {})
            if self.policy != "none" and library_calls.is_taken_apart(func):
                with self:
                    return func.decompose(*args, **(kwargs or {}))
            if call is not None:
                return self._compute(func, name, call, args, kwargs or {})
            self.note(name)
        self._check_writes(func, name, args)
        result = func(*args, **(kwargs or {}))
        self._check_casts(name, args, result)
        if isinstance(result, torch.Tensor):
            self._on_dtype(result)
            if name in _FRESH and self.fills:
                self._garbage.fill(result)
        if self._on_done is not None and allowed:
            self._on_done(func, name, args, result)
        return result

    def _library_call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> LibraryCall | None:
        """Return a call of an operator that may compute; None if the policy does not allow it."""
        if self.policy == "none":
            return None
        call = library_calls.call_of(func, args, kwargs)
        if call is None or not library_calls.is_allowed(self.policy, call.name):
            return None
        if self.compiled():
            self.note(f"{COMPILER} of {call.name}")
        elif library_calls.draws(call):
            self.note(f"dropout of {call.name}")
        return call

    def _compute(self, func: Any, name: str, call: LibraryCall, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run a call, or return memory with the form of its results, and report it."""
        for tensor in (*(call.into or ()), *call.updated):
            if tensor.numel() and self._is_read_only(tensor):
                self._on_write(name)
        runs = self.computes or not library_calls.has_form(call)
        result = func(*args, **kwargs) if runs else library_calls.made(call)
        results = (result,) if isinstance(result, torch.Tensor) else tuple(result)
        for tensor in results:
            self._on_dtype(tensor)
        if self._on_library is not None:
            self._on_library(call, results)
        return results[0] if len(results) == 1 else results

    def _check_casts(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Note a cast that computes: any moving operator can have a result of another dtype."""
        if name not in _CASTS or not isinstance(result, torch.Tensor):
            return
        for origin in _tensors(args[1:] if name in _INTO else args):
            if movement.computes(result.dtype, origin.dtype):
                self.note(f"{name} ({_name(origin.dtype)} to {_name(result.dtype)})")

    def _counts(self, name: str, args: Sequence[Any]) -> bool:
        return name == "aten::add_" and args[0].data_ptr() in self.counters and isinstance(args[1], int)

    def note(self, name: str) -> None:
        """Count one use of an operator that is not allowed."""
        if name not in self.refused and (line := _line_in(self.path)):
            self.lines[name] = line
        self.refused[name] = self.refused.get(name, 0) + 1

    def _check_writes(self, func: Any, name: str, args: Sequence[Any]) -> None:
        for position, argument in enumerate(func._schema.arguments):
            written = argument.alias_info is not None and argument.alias_info.is_write and name not in _METADATA
            target = args[position] if written and position < len(args) else None
            if isinstance(target, torch.Tensor) and target.numel() and self._is_read_only(target):
                self._on_write(name)


def _line_in(path: str) -> int:
    """Return the current line in the innermost frame of a file; 0 if no frame is in it."""
    frame: FrameType | None = sys._getframe() if path else None
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    return (frame.f_lineno or 0) if frame is not None else 0


def _tensors(arguments: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments, including those in lists."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, list | tuple):
        for item in arguments:
            yield from _tensors(item)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def kernel_of(func: Any) -> Callable[..., Any] | None:
    """Return the implementation of an operator that host code defined itself; None for torch's operators."""
    if f"{func.namespace}::{func._opname}" not in torch.library._defs:
        return None
    for key in ("CUDA", "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
            # Below the dispatch key of modes, which would call this mode again.
            found: Any = torch._C.DispatchKey.__members__[key]
            return lambda *args, **kwargs: func._op_dk(found, *args, **kwargs)
    return None


@contextmanager
def stays_for(mode: TorchFunctionMode, func: Any) -> Iterator[None]:
    """Remember a mode that torch disables while it calls an operator that host code defined itself."""
    if not isinstance(func, OPERATORS):
        yield
        return
    token = _OUTER.set((mode, *_OUTER.get()))
    try:
        yield
    finally:
        _OUTER.reset(token)


def with_outer_modes(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that runs under the modes that were active when its operator was called."""

    @wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        modes = _OUTER.get()
        token = _OUTER.set(())
        try:
            with ExitStack() as entered:
                for mode in modes:
                    entered.enter_context(mode)
                return kernel(*args, **kwargs)
        finally:
            _OUTER.reset(token)

    return run


class ExportWatch(TorchFunctionMode):
    """Notes reads of a tensor's values into Python that no dispatch mode sees, such as `Tensor.numpy`."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note
        self.grad_mode = GradModeWatch()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(getattr(func, "__name__", ""))
        if name in EXPORTS:
            self._note(f"Tensor.{name}")
        elif name == "_set_grad_enabled":
            self.grad_mode.note()
        with stays_for(self, func):
            return func(*args, **(kwargs or {}))


class Watched:
    """Runs a block under both watches."""

    def __init__(self, operators: OperatorWatch) -> None:
        self.operators = operators
        self.exports = ExportWatch(operators.note)

    def __enter__(self) -> OperatorWatch:
        self.operators.__enter__()  # type: ignore[no-untyped-call]
        self.exports.__enter__()  # type: ignore[no-untyped-call]
        return self.operators

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exports.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self.operators.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
