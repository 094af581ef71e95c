"""Watches Triton kernels run under the interpreter: launch signatures and memory accesses.

It runs in the candidate's own process, so its findings are hints: it explains honest mistakes (a missing mask, a store
to an input, bf16, which the interpreter silently computes wrongly) and catches simple cheats.
"""

import ctypes
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final, SupportsFloat, SupportsIndex

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.evaluator.devices.tensor_views import NAMES
from warpsmith.evaluator.languages.triton import captures, reinterpreted
from warpsmith.evaluator.languages.triton.interpreter import (
    chip_numerics,
    jit_functions,
    missing_operations,
    races,
    reductions,
    semantics,
    static_assertions,
    undefined_behavior,
    versions,
)
from warpsmith.evaluator.languages.triton.kernel_names import identity, own_name
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError, bound_arguments, options_of
from warpsmith.evaluator.recordings import launch_signatures
from warpsmith.evaluator.recordings.errors import (
    IllegalAccessError,
    InputMutationError,
    UnsupportedDtypeError,
    behind_end,
)

BF16_MESSAGE: Final = (
    "bfloat16 is not supported on the cpu device: Triton's interpreter computes it wrongly without an error. "
    "Use float32 or float16, or evaluate on a GPU."
)
MAX_SIGNATURES: Final = 64
MAX_GRID: Final = (2**31 - 1, 65535, 65535)
"""Maximum programs along x, y and z on a GPU (CUDA C++ Programming Guide, technical specifications)."""


class TooManySignaturesError(RuntimeError):
    """A candidate launches its kernels with too many different signatures."""


class GridError(RuntimeError):
    """A launch has more programs along an axis than a GPU can launch."""


@dataclass(frozen=True)
class MemoryRange:
    """The bytes of one tensor's storage, [start, end)."""

    start: int
    end: int
    name: str
    read_only: bool


class Access:
    """One load, store or atomic operation of a program.

    Args:
        kind: `load`, `store` or `atomic`.
        pointers: addresses of the elements that the mask selects.
        item_bytes: size of an element.
        values: the values stored to these elements.
        lanes: the mask, or the places in the block of the elements that it selects.
        exchanged: the values that an atomic exchange writes; None for any other access.
    """

    def __init__(
        self,
        kind: str,
        pointers: Any,
        item_bytes: int,
        values: Any = None,
        lanes: Any = None,
        *,
        exchanged: Any = None,
    ) -> None:
        self.kind = kind
        self.pointers = pointers
        self.item_bytes = item_bytes
        self.exchanged = exchanged
        self._values = values
        self._lanes = lanes

    @property
    def is_atomic(self) -> bool:
        return self.kind in {"atomic", races.OF_BLOCK}

    @property
    def lanes(self) -> Any:
        """The elements' places in the block, counted from 0 row by row."""
        return np.flatnonzero(self._lanes) if self._lanes.dtype == np.bool_ else self._lanes

    def of(self, held: Any) -> "Access":
        """Return this access restricted to some of its elements."""
        values = None if self._values is None else self._values[held]
        lanes = None if self._lanes is None else self.lanes[held]
        exchanged = None if self.exchanged is None else self.exchanged[held]
        return Access(self.kind, self.pointers[held], self.item_bytes, values, lanes, exchanged=exchanged)

    def leaves_as_it_is(self, held: Any) -> bool:
        """Whether this stores the values that are already there."""
        if self._values is None:
            return False
        stored = np.ascontiguousarray(self._values[held])
        there = b"".join(ctypes.string_at(int(pointer), self.item_bytes) for pointer in self.pointers[held])
        return chip_numerics.sharp(stored) == chip_numerics.sharp(np.frombuffer(there, dtype=stored.dtype))


FOREIGN_BYTES: Final = 1 << 30
"""Distance from every tensor beyond which a missing mask cannot be the cause."""
_ACCESSES: Final = {"load": "loads", "store": "stores to", "atomic": "updates", races.OF_BLOCK: "updates"}
_MOVES: Final = {"load": 1, "store": 1, "atomic": 2, races.OF_BLOCK: 2}
"""How often an access moves its bytes: an atomic operation reads and writes them."""


def refuse_bf16(tensor: torch.Tensor) -> None:
    """Raise UnsupportedDtypeError for a tensor of bfloat16."""
    if tensor.dtype == torch.bfloat16:
        raise UnsupportedDtypeError(BF16_MESSAGE)


class LaunchMonitor:
    """Handles every kernel launch of this process once `install` has been called.

    Args:
        report: called once for each new signature, before the kernel runs.
        is_read_only: returns whether a tensor lies in read-only memory of the judge.

    Attributes:
        bytes_moved: see `MemoryTraffic`.
    """

    def __init__(self, report: Callable[[dict[str, Any]], None], is_read_only: Callable[[torch.Tensor], bool]) -> None:
        self.launches = 0
        self.bytes_moved = 0
        self.ghost = False
        self.on_launch: Callable[[str, dict[str, Any], dict[str, Any]], list[Any]] | None = None
        self._report = report
        self._only_reports = False
        self._is_read_only = is_read_only
        self._seen: set[str] = set()
        self._ranges: list[MemoryRange] = []
        self._touched: dict[int, races.Memory] = {}
        self._lanes: dict[int, races.Lanes] = {}
        self._exchanges: dict[int, races.Exchanges] = {}
        self._exchanging: set[str] = set()
        self._loads: set[tuple[str, str]] = set()
        self._kernel = ""

    def launch(
        self, name: str, arguments: dict[str, Any], options: dict[str, Any], numbers: frozenset[str] = frozenset()
    ) -> list[Any] | None:
        """Note a launch; return the event whose third item is to be set to the grid, or None: do not run.

        `numbers` are the parameters whose values are no part of the code.
        """
        signature = {
            "kernel": name,
            "arguments": {key: describe_argument(value) for key, value in arguments.items()},
            "options": options,
        }
        self._note(signature, numbers)
        if self._only_reports:
            return None
        self.launches += 1
        self._kernel = own_name(name)
        self._ranges = [*self._memory(arguments)]
        self._touched, self._lanes, self._exchanges = {}, {}, {}
        if self.ghost:
            return None
        return self.on_launch(name, arguments, options) if self.on_launch else [None, None, None]

    def report_only(self, launch: Callable[[], Any]) -> None:
        """Call `launch`; kernels that it launches are reported but not run."""
        self._only_reports = True
        try:
            launch()
        finally:
            self._only_reports = False

    def _note(self, signature: dict[str, Any], numbers: frozenset[str]) -> None:
        given = signature["arguments"].items()
        coded = {key: launch_signatures.coded(value) if key in numbers else value for key, value in given}
        text = repr(signature | {"arguments": coded})
        if text in self._seen:
            return
        if len(self._seen) >= MAX_SIGNATURES:
            raise TooManySignaturesError(
                f"forward launches kernels with more than {MAX_SIGNATURES} different signatures (dtypes, constants, "
                "options). Pass as tl.constexpr only what must be one."
            )
        self._seen.add(text)
        self._report(signature)

    def _memory(self, arguments: dict[str, Any]) -> Iterator[MemoryRange]:
        for name, tensor in _tensors(arguments):
            if tensor.dtype == torch.bfloat16:
                raise UnsupportedDtypeError(BF16_MESSAGE)
            storage = tensor.untyped_storage()
            start = storage.data_ptr()
            yield MemoryRange(start, start + storage.nbytes(), name, self._is_read_only(tensor))

    def check_access(self, access: Access) -> None:
        """Count an access; raise unless every active pointer is in an argument's storage and races with no program."""
        pointers = access.pointers
        if not pointers.size:
            return
        self.bytes_moved += pointers.size * access.item_bytes * _MOVES[access.kind]
        if access.kind == "atomic":
            interpreter.interpreter_builder.launch.atomics = True
        low, high = int(pointers.min()), int(pointers.max()) + access.item_bytes
        for memory in self._ranges:
            if memory.start <= low and high <= memory.end:
                self._check_writable(memory, access)
                self._check_alone(memory, access)
                self._check_lanes(memory, access)
                self._check_exchanged(memory, access)
                return
        self._check_each(access)

    def _check_each(self, access: Access) -> None:
        pointers = access.pointers
        inside = np.zeros(pointers.shape, dtype=bool)
        for memory in self._ranges:
            held = (pointers >= memory.start) & (pointers + access.item_bytes <= memory.end) & ~inside
            if held.any():
                self._check_writable(memory, access)
                self._check_alone(memory, access.of(held))
                self._check_lanes(memory, access.of(held))
                self._check_exchanged(memory, access.of(held))
            inside |= held
        if not inside.all():
            raise IllegalAccessError(self._explain(pointers[~inside], access))

    def _check_alone(self, memory: MemoryRange, access: Access) -> None:
        """Raise if another program of the launch stores there, or stores another value."""
        launch = interpreter.interpreter_builder.launch
        if memory.read_only or launch.size == 1:
            return
        touched = self._touched.get(memory.start)
        if touched is None:
            touched = self._touched[memory.start] = races.Memory(memory.start, memory.end - memory.start)
        raced = touched.touched(access.kind, launch.program, access.pointers, access.item_bytes)
        if raced is not None and not access.leaves_as_it_is(raced):
            raise self._race(memory, access, int(access.pointers[raced][0]))

    def _check_lanes(self, memory: MemoryRange, access: Access) -> None:
        """Raise if a lane loads what another lane of its program stored since the last barrier.

        Stores are noted only in arguments that the kernel is known to load from; most kernels have none.
        """
        if memory.read_only or access.is_atomic:
            return
        lanes, argument = self._lanes.get(memory.start), (self._kernel, memory.name)
        if access.kind == "load":
            self._loads.add(argument)
            if lanes is not None:
                self._check_exchange(lanes, memory, access)
        elif argument in self._loads:
            if lanes is None:
                lanes = self._lanes[memory.start] = races.Lanes(memory.start, memory.end - memory.start)
            lanes.store(interpreter.interpreter_builder.launch.moment, access.lanes, access.pointers, access.item_bytes)

    def _check_exchange(self, lanes: races.Lanes, memory: MemoryRange, access: Access) -> None:
        moment = interpreter.interpreter_builder.launch.moment
        foreign = lanes.exchanged(moment, access.lanes, access.pointers, access.item_bytes)
        if foreign is not None:
            first = int(access.pointers[foreign][0]) - memory.start
            raise races.RaceError(
                f"a race in kernel {self._kernel}: a program loads byte {first} of {memory.name} into another "
                "place of a block than it stored it from, without a barrier. The threads of a program run at the same "
                "time. Call tl.debug_barrier() between the store and the load, or keep the values in a variable."
            )

    def _check_exchanged(self, memory: MemoryRange, access: Access) -> None:
        """Raise if programs exchange different values and the last one stays, or if one of them loses another's update.

        Other atomic operations are noted only in kernels that are known to exchange; most never do.
        """
        if access.exchanged is not None:
            self._exchanging.add(self._kernel)
        launch = interpreter.interpreter_builder.launch
        if not access.is_atomic or self._kernel not in self._exchanging or launch.size == 1:
            return
        exchanges = self._exchanges.get(memory.start)
        if exchanges is None:
            exchanges = self._exchanges[memory.start] = races.Exchanges(memory.start, memory.end - memory.start)
        if access.exchanged is None:
            exchanges.update(launch.program, access.pointers, access.item_bytes)
            return
        raced = exchanges.exchange(launch.program, access.pointers, access.item_bytes, access.exchanged)
        if raced.any():
            raise races.UnseenOrderError(
                f"cannot be judged: in kernel {self._kernel} several programs of a launch exchange values at byte "
                f"{int(access.pointers[raced][0]) - memory.start} of {memory.name}, or one exchanges what another "
                f"updated after it was read, so that the result depends on their order. {races.UNORDERED} Here, update "
                "by one operation that does not depend on the order (tl.atomic_add, atomic_max, atomic_min; a value "
                "and its index packed into one integer of 64 bits), by a loop of tl.atomic_cas, or in a second launch."
            )

    def check_stored(self, stored: Any, found: Any) -> None:
        """Raise if memory differs from what was just stored, since lanes of the store wrote to the same elements."""
        if chip_numerics.sharp(stored) != chip_numerics.sharp(found):
            raise races.RaceError(
                f"a race in kernel {self._kernel}: one store writes different values to the same element, and any of "
                "them may be the last. Mask all lanes but one, or store to distinct elements."
            )

    def _race(self, memory: MemoryRange, access: Access, first: int) -> races.RaceError:
        may_be_ordered = interpreter.interpreter_builder.launch.atomics
        kind, begin = (races.UnseenOrderError, "cannot be judged") if may_be_ordered else (races.RaceError, "a race")
        text = (
            f"{begin}: in kernel {self._kernel} a program {_ACCESSES[access.kind]} byte {first - memory.start} of "
            f"{memory.name}, which another program of the same launch stores to, loads or updates."
        )
        if access.kind == races.OF_BLOCK:
            text += ' With scope="cta" it is atomic among the threads of one program alone: leave `scope` out.'
        if may_be_ordered:
            return kind(f"{text} {races.UNORDERED} Here, use atomic operations on the values, or a second launch.")
        return kind(
            f"{text} Programs run in any order and at the same time. Let each element be stored by one program and "
            "loaded by no other; use tl.atomic_add on memory that the host has filled, or a second launch."
        )

    def _check_writable(self, memory: MemoryRange, access: Access) -> None:
        if access.kind != "load" and memory.read_only:
            raise InputMutationError(
                f"kernel {self._kernel} stores to {memory.name}, which is an input or a parameter; both are read-only. "
                "Store to an output made with torch.empty_like, or to a clone."
            )

    def _explain(self, outside: Any, access: Access) -> str:
        first = int(outside.flat[0])
        verb = "loads" if access.kind == "load" else "stores"
        text = f"kernel {self._kernel} {verb} {outside.size} elements outside every tensor that it was given"
        if min((abs(first - memory.start) for memory in self._ranges), default=FOREIGN_BYTES) >= FOREIGN_BYTES:
            return (
                f"{text}; the first lies near none of them. A kernel may not follow an address that it reads from "
                "memory: pass each tensor as an argument (several as one tuple), or launch once for each."
            )
        before = [memory for memory in self._ranges if memory.start <= first]
        if before:
            nearest = max(before, key=lambda memory: memory.end)
            text += f"; the first lies {behind_end(first - nearest.end, nearest.name)}"
        return f"{text}. A mask or an offset is missing or wrong: mask every load and store by the tensor's size."


def _tensors(arguments: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, TensorDescriptor):
            yield name, value.base
        elif isinstance(value, tuple):
            yield from _tensors({f"{name}[{index}]": item for index, item in enumerate(value)})


def describe_argument(value: Any) -> list[Any]:
    """Return a launch argument as plain values: what its specialization depends on, and no tensor values."""
    match value:
        case torch.Tensor():
            return ["tensor", NAMES.get(value.dtype, str(value.dtype)), value.data_ptr() % 16 == 0]
        case TensorDescriptor():
            return ["descriptor", NAMES.get(value.base.dtype, ""), [int(side) for side in value.block_shape]]
        case None | bool() | int() | float() | str():
            return ["value", value]
        case _:
            return _describe_constexpr(value)


def _describe_constexpr(value: Any) -> list[Any]:
    match value:
        case tl.constexpr():
            return describe_argument(value.value)
        case tl.dtype():
            return ["dtype", str(value)]
        case tuple() if hasattr(value, "_fields"):
            return ["named", type(value).__name__, [describe_argument(item) for item in value]]
        case tuple():
            return ["tuple", [describe_argument(item) for item in value]]
        case captures.Captured():
            return value.described()
        case _:
            return captures.described_function(value) or ["unsupported", type(value).__name__]


def check_arguments(kernel: str, arguments: Mapping[str, Any]) -> None:
    """Raise ArgumentError if an argument of a launch is of a type that no kernel takes."""
    for name, value in arguments.items():
        match describe_argument(value):
            case ["unsupported", kind]:
                number = isinstance(value, SupportsIndex | SupportsFloat)
                raise ArgumentError(
                    f"Argument {name} of {kernel} is of type {kind}, which no kernel takes.",
                    f"Pass int({name}) or float({name})."
                    if number
                    else "Pass tensors, numbers, dtypes, tuples of these, tensor descriptors or @triton.jit functions.",
                )
        if isinstance(value, tuple):
            check_arguments(kernel, {f"{name}[{place}]": item for place, item in enumerate(value)})


def _describe_option(value: Any) -> Any:
    """Return a plain launch option unchanged; for any other its kind in a list, which the compile worker rejects."""
    return value if isinstance(value, bool | int | float | str | None) else describe_argument(value)


class _Kept:
    """Replaces the object from which Triton restores its language after a launch; here the language stays patched."""

    def restore(self) -> None:
        """Restore nothing."""


def keep_language() -> None:
    """Replace Triton's builtins by interpreted ones permanently; the interpreter otherwise does so at every launch.

    A process with TRITON_INTERPRET has no other use for them. Call it before a fork, so that workers share the memory.
    """
    seen_by_kernels = {"tl": tl, "core": tl.core}
    interpreter._patch_lang(FunctionType(keep_language.__code__, seen_by_kernels))
    versions.install()
    static_assertions.install()
    missing_operations.install()
    semantics.install()
    undefined_behavior.install()
    chip_numerics.install()
    reductions.install()

    def patch_lang(fn: Any) -> _Kept:
        if not any(value is tl or value is tl.core for value in fn.__globals__.values()):
            raise AssertionError("triton.language must be visible from within jit'd function")
        return _Kept()

    interpreter._patch_lang = patch_lang


def skip_idle_checks() -> None:
    """Skip the overflow checks of integer arithmetic: without `debug` the interpreter drops their result."""
    builder = interpreter.interpreter_builder
    if not builder.options.debug:
        builder.options = replace(builder.options, sanitize_overflow=False)


def keep_truth_values() -> None:
    """Let a comparison of scalars stay boolean when it is broadcast to a block, as in `(i < n) & (row < rows)`.

    The interpreter gives a comparison the dtype of its operands and would make integers of it.
    """

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        if arg.data.dtype == np.bool_ and not isinstance(arg.dtype, tl.block_type):
            return interpreter.TensorHandle(np.full(ret_ty.shape, arg.data, dtype=np.bool_), arg.dtype.scalar)
        return original(self, ret_ty, arg)

    original = interpreter.InterpreterBuilder.create_splat
    interpreter.InterpreterBuilder.create_splat = create_splat


def install(monitor: LaunchMonitor, facts: Any = None) -> None:
    """Route every launch and every memory access of Triton's interpreter in this process through `monitor`.

    A launch and `kernel.warmup(...)` return `facts` instead of a compiled kernel. Without facts no host code runs here.
    """
    if facts is not None:
        jit_functions.install()
    races.let_barriers_count()
    races.shuffle_lanes()
    _watch_launches(monitor, facts)
    _watch_memory(monitor)


def _watch_launches(monitor: LaunchMonitor, facts: Any) -> None:
    original = interpreter.InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        names: Sequence[str] = self.arg_names
        args, kwargs = reinterpreted.tensors_of(args, kwargs)
        bound = bound_arguments(self.fn.__name__, names, _defaults(self.fn), args, kwargs)
        arguments = captures.with_captured(self.fn, bound)
        compiled = facts and facts.of(self, arguments, kwargs)
        if warmup:
            return compiled
        check_arguments(self.fn.__name__, bound)
        options = {key: _describe_option(value) for key, value in options_of(names, kwargs).items()}
        numbers = frozenset(names) - frozenset(semantics.constants_of(self.fn))
        event = monitor.launch(identity(self.fn), arguments, options, numbers)
        if event is not None:
            original(self, *args, grid=_noted(grid, event), warmup=warmup, **kwargs)
        return compiled

    interpreter.InterpretedFunction.run = run
    interpreter.GridExecutor.__call__ = _run_programs


@functools.cache
def _generator() -> np.random.Generator:
    """Return the generator for the order of programs; seeded by the operating system, after the fork."""
    return default_rng()


def _run_programs(self: Any, *args: Any, **kwargs: Any) -> None:
    """Replace an executor's call: arguments are in host memory and are not copied there and back.

    Copying back would write to the judge's read-only memory.
    """
    names = inspect.signature(self.fn).parameters
    named = {name: value for name, value in kwargs.items() if name in names}
    given = semantics.arguments_as_declared(self.fn, dict(zip(self.arg_names, args, strict=False)) | named)
    for hook in self.pre_run_hooks:
        hook(**given)
    interpreter._patch_lang(self.fn)
    bound = inspect.getcallargs(self.fn, **given)
    arguments = {
        name: value if name in self.constexprs else interpreter._implicit_cvt(value) for name, value in bound.items()
    }
    grid = self.grid(arguments) if callable(self.grid) else self.grid
    sizes = (*grid, 1, 1)[:3]
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*sizes)
    builder.launch = races.Launch(sizes, builder.set_grid_idx, functools.partial(self.fn, **arguments), _generator())
    try:
        builder.launch.run()
    except Exception as error:
        raise interpreter.InterpreterError(repr(error)) from error


def _defaults(kernel: Any) -> dict[str, Any]:
    given = inspect.signature(kernel).parameters.values()
    return {parameter.name: parameter.default for parameter in given if parameter.default is not parameter.empty}


def _noted(grid: Any, event: list[Any]) -> Any:
    """Return the grid, or a function that computes it, so that its value is written to `event` when it is known."""
    if not callable(grid):
        return _sizes(grid, event)
    return lambda meta: _sizes(grid(meta), event)


def _sizes(grid: Any, event: list[Any]) -> tuple[Any, ...]:
    if not isinstance(grid, tuple | list) or not 1 <= len(grid) <= len(MAX_GRID):
        raise GridError(f"a grid is {str(grid)[:40]}; a tuple of one to {len(MAX_GRID)} sizes was expected.")
    event[2] = [int(size) for size in grid]
    for axis, size, most in zip("xyz", event[2], MAX_GRID, strict=False):
        if size > most:
            raise GridError(
                f"a grid has {size} programs along {axis}; a GPU launches at most {most} there. "
                "Put the longest axis first, or let a program do more."
            )
    return tuple(grid)


def _watch_memory(monitor: LaunchMonitor) -> None:
    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas
    read, rng = versions.without_hints(load, 2), np.random.default_rng()

    @functools.wraps(load)
    def create_masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        active = np.asarray(mask.data, dtype=bool)
        monitor.check_access(Access("load", _active(ptrs, mask), _item_bytes(ptrs), lanes=active))
        return load(self, ptrs, mask, *rest, **named)

    @functools.wraps(store)
    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        active, pointers = np.asarray(mask.data, dtype=bool), _active(ptrs, mask)
        value = interpreter.TensorHandle(chip_numerics.blurred(value.data, rng), value.dtype)
        stored = value.data[active]
        monitor.check_access(Access("store", pointers, _item_bytes(ptrs), stored, active))
        result = store(self, ptrs, value, mask, *rest, **named)
        if not races.are_distinct(pointers):
            monitor.check_stored(stored, read(self, ptrs, mask).data[active])
        return result

    def create_atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        exchanged = None
        if op == interpreter._ir.ATOMIC_OP.XCHG:
            exchanged = np.broadcast_to(val.data, ptr.data.shape)[np.asarray(mask.data, dtype=bool)]
        monitor.check_access(Access(_atomic(rest), _active(ptr, mask), _item_bytes(ptr), exchanged=exchanged))
        val = interpreter.TensorHandle(chip_numerics.blurred(val.data, rng), val.dtype)
        found = rmw(self, op, ptr, val, mask, *rest)
        self.launch.interrupt()
        return found

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, *rest: Any) -> Any:
        monitor.check_access(Access(_atomic(rest), ptr.data.ravel(), _item_bytes(ptr)))
        found = cas(self, ptr, cmp, *rest)
        self.launch.compared(bool((found.data == cmp.data).any()))
        self.launch.interrupt()
        return found

    def refuse_bf16(self: Any) -> Any:
        raise UnsupportedDtypeError(BF16_MESSAGE)

    builder.create_masked_load, builder.create_masked_store = create_masked_load, create_masked_store
    builder.create_atomic_rmw, builder.create_atomic_cas = create_atomic_rmw, create_atomic_cas
    builder.get_bf16_ty = refuse_bf16


def _atomic(rest: tuple[Any, ...]) -> str:
    """Return the kind of access of an atomic operation, whose last argument is its scope."""
    return races.OF_BLOCK if rest and rest[-1] == interpreter._ir.MEM_SYNC_SCOPE.CTA else "atomic"


def _active(pointers: Any, mask: Any) -> Any:
    return np.asarray(pointers.data)[np.asarray(mask.data, dtype=bool)]


def _item_bytes(pointers: Any) -> int:
    bits: int = pointers.get_element_ty().primitive_bitwidth
    return max(bits // 8, 1)


def run_trusted_kernel() -> None:
    """Interpret a trusted kernel, so that the interpreter's lazy initialization is done before a fork."""
    x = torch.arange(8, dtype=torch.float32)
    out = torch.empty_like(x)
    _warm_up[(1,)](x, out, 8, BLOCK=8)
    if not torch.equal(out, x + x.sum()):
        raise RuntimeError("Triton's interpreter computed a trusted kernel wrongly.")


@triton.jit  # type: ignore[untyped-decorator]
def _warm_up(x_ptr: Any, out_ptr: Any, n: Any, BLOCK: tl.constexpr) -> None:
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x + tl.sum(x, axis=0), mask=mask)
