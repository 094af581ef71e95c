"""What a launch and `kernel.warmup(...)` return: facts about the compiled kernel, which can be launched again.

    compiled = kernel[grid](x, out, n, BLOCK=128)
    compiled[(programs, 1, 1)](x, out, n, 128)

Triton then runs the code that it has, whatever it is given: it ignores constants, and takes for granted what the code
was specialized on. Here such a launch is recorded as one of the kernel itself, which is compiled for its own arguments.
So both must mean the same code; any other launch is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Self

import triton.language as tl

from warpsmith.evaluator.languages.triton import captures
from warpsmith.evaluator.languages.triton.interpreter.tracing import MAX_GRID, GridError, describe_argument
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError, options_of
from warpsmith.evaluator.recordings.errors import DetachedError
from warpsmith.evaluator.recordings.launch_signatures import ALIGNMENT

THREADS: Final = 1024
_RANGES: Final = ((-(2**31), 2**31), (-(2**63), 2**63), (0, 2**64))
"""The integers that a parameter of type i32, i64 or u64 can hold; Triton takes the first type that holds a value."""
Described = Mapping[str, list[Any]]


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel whose facts host code does not get.

    Raises:
        DetachedError: on access to any attribute that Triton's own has.
    """

    launch: Callable[..., None] | None = field(default=None, kw_only=True, compare=False)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Return a function that launches the kernel on a grid of three sizes, with all arguments by position."""
        assert self.launch is not None, "only what `of` returns is given to host code"
        return partial(self.launch, grid)

    def __getattr__(self, name: str) -> Any:
        raise DetachedError(f"host code reads the compiled kernel's {name}")

    def of(self, function: Any, arguments: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Self:
        """Return a copy that can launch the kernel, compiled for these arguments.

        Args:
            function: the kernel as host code has it.
            arguments: those of the launch by name, all of them, and what the kernel captures.
            kwargs: the keywords of the launch, some of which are its options.
        """
        options = options_of(function.arg_names, kwargs)
        # Descriptions alone: a tensor of the first launch must not live as long as what that launch returned.
        compiled = {name: describe_argument(value) for name, value in arguments.items()}
        return replace(self, launch=partial(_launch, function, compiled, options))


@dataclass(frozen=True)
class KnownKernel(CompiledKernel):
    """A compiled kernel and facts about it, under Triton's names."""

    name: str
    n_regs: int
    n_spills: int
    shared: int
    n_max_threads: int = THREADS

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def metadata(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.name, shared=self.shared, tmem_size=0, num_warps=4, num_ctas=1, num_stages=3)

    def _init_handles(self) -> None:
        """Do nothing; Triton's tutorial calls this before it reads the facts."""


PLAUSIBLE: Final = KnownKernel("", n_regs=32, n_spills=0, shared=1024)
"""Facts reported about a kernel without a GPU; whatever host code derives from them, its launch must be right."""


def constants_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters that are compile-time constants."""
    marked = function.__annotations__.items()
    return frozenset(name for name, kind in marked if kind is tl.constexpr or "constexpr" in str(kind))


def _launch(
    function: Any, compiled: Described, options: dict[str, Any], grid: Any, *values: Any, stream: Any = None
) -> None:
    """Launch a kernel that was compiled for some arguments on others; ArgumentError if they need other code."""
    names, name = function.arg_names, function.fn.__name__
    if not isinstance(grid, tuple | list) or len(grid) != len(MAX_GRID):
        raise GridError(f"a grid is {str(grid)[:40]}; a compiled kernel takes three sizes: compiled[(programs, 1, 1)].")
    if len(values) != len(names):
        raise ArgumentError(
            f"{name} is compiled and takes {len(names)} arguments; {len(values)} were given.",
            f"Pass all by position, constants too: {', '.join(names)}.",
        )
    given = captures.with_captured(function.fn, dict(zip(names, values, strict=True)))
    constants, loose = constants_of(function.fn) | {captures.ARGUMENT}, _unspecialized(function)
    for parameter in {**compiled, **given}:
        before, now = compiled.get(parameter), describe_argument(given.get(parameter))
        fits = repr(before) == repr(now) if parameter in constants else _fits(before, now, loose.get(parameter, ()))
        if not fits:
            raise ArgumentError(
                f"{name} was compiled for {parameter}={_shown(before)} and is launched with {_shown(now)}, which needs "
                "other code; a compiled kernel is not compiled again. Launch the kernel itself, or pass what has the "
                "same constants, dtypes, alignment to 16 bytes, divisibility by 16 and equality to 1."
            )
    # From the first parameter on that an option is named like, by keyword, so that it stays the option too.
    first = next((place for place, parameter in enumerate(names) if parameter in options), len(names))
    named = options | dict(zip(names[first:], values[first:], strict=True))
    function.run(*values[:first], grid=grid, warmup=False, **named)


def _unspecialized(function: Any) -> dict[str, tuple[str, ...]]:
    """Return, for parameters of a kernel, what its decorator keeps from being specialized: `value`, `alignment`."""
    return {
        param.name: ("value", "alignment") if param.do_not_specialize else ("alignment",)
        for param in getattr(function, "params", ())
        if param.do_not_specialize or param.do_not_specialize_on_alignment
    }


def _fits(before: Any, now: Any, loose: tuple[str, ...]) -> bool:
    """Whether code that was compiled for an argument is right for another one; both as they are described."""
    match before, now:
        case ["tensor", dtype, aligned], ["tensor", other, other_aligned]:
            found = dtype == other and (other_aligned or not aligned or "alignment" in loose)
        case (["value", bool()], ["value", bool()]) | (["value", float()], ["value", float()]):
            found = True
        case ["value", int(number)], ["value", int(other)] if not isinstance(number, bool) | isinstance(other, bool):
            found = _holds(number, other, loose)
        case ["tuple", list(items)], ["tuple", list(others)]:
            found = len(items) == len(others) and all(map(partial(_fits, loose=loose), items, others))
        case ["named", name, list(items)], ["named", other, list(others)]:
            found = name == other and _fits(["tuple", items], ["tuple", others], loose)
        case _:
            found = repr(before) == repr(now)
    return bool(found)


def _holds(number: int, other: int, loose: tuple[str, ...]) -> bool:
    """Whether code that was compiled for an integer is right for another one."""
    low, high = next((span for span in _RANGES if span[0] <= number < span[1]), (0, 0))
    constant = number == 1 and "value" not in loose
    divisible = number % ALIGNMENT == 0 and "alignment" not in loose
    return number == other or (low <= other < high and not constant and not (divisible and other % ALIGNMENT))


def _shown(described: Any) -> str:
    match described:
        case ["value", value]:
            return repr(value)[:40]
        case ["tensor", dtype, aligned]:
            return f"a {dtype} tensor at an address that is {'' if aligned else 'not '}a multiple of 16"
        case _:
            return str(described)[:60]
