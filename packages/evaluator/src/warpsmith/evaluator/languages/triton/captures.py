"""What a kernel reads besides its arguments: recorded with each launch, as constants are.

    SCALE = tl.constexpr(config["scale"])

    def scaled_by(factor, act):
        @triton.jit
        def kernel(...): ...  # reads factor, act and SCALE

Host code reports what `factor`, `act` and `SCALE` are when the kernel is launched, just as it reports the arguments of
a launch; neither can hold more than plain values and functions of the source or of Triton. So a module may compute its
constants in any way: what its text says about them matters only where a recording says nothing.

In a launch they are one more argument, `ARGUMENT`, described as `["captured", {name: constant}]`. A constant is
`["value", plain]`, `["dtype", name]`, `["tuple", constants]`, `["named", class, constants]`, `["constexpr", constant]`,
`["library", dotted name]`, or `["kernel", name]` with, as a third item, what that kernel captures. A kernel that is
passed as an argument is described in the same way.
"""

import dis
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any, Final

import triton.language as tl

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.inductor import PREFIX
from warpsmith.evaluator.languages.triton.kernel_names import identity

ARGUMENT: Final = "warpsmith_captured"
"""The name of the argument; no parameter of a kernel begins so."""
_PLAIN: Final = (bool, int, float, str, type(None))
_ABSENT: Final = object()
Constant = list[Any]
Within = tuple[Any, ...]


@dataclass(frozen=True)
class Captured:
    """Names that a kernel does not bind, with what they are bound to when it is launched."""

    function: Any
    values: Mapping[str, Any]

    def described(self) -> Constant:
        """Return them as plain values."""
        return ["captured", _described(self.values, (self.function,))]


def with_captured(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a launch, and what the launched plain function captures, if it captures anything."""
    values = _captured_by(function)
    return {**arguments, ARGUMENT: Captured(function, values)} if values else arguments


def _captured_by(function: Any) -> dict[str, Any]:
    """Return what a function reads of the functions around it and of its module; modules are known from the source."""
    found = {name: function.__globals__.get(name, _ABSENT) for name in _globals_of(function.__code__)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return {name: value for name, value in found.items() if value is not _ABSENT and not isinstance(value, ModuleType)}


@lru_cache(maxsize=1024)
def _globals_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of the module that a function reads, and of those that the function defines within."""
    read = {step.argval for step in dis.get_instructions(code) if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return tuple(sorted(read.union(*map(_globals_of, inner))))


def _described(values: Mapping[str, Any], within: Within = ()) -> dict[str, Constant]:
    return {name: described_constant(value, within) for name, value in values.items()}


def described_constant(value: Any, within: Within = ()) -> Constant:
    """Return a constant as plain values; `["unsupported", kind]` for what is none.

    Args:
        value: what a name is bound to.
        within: the kernels whose description this is a part of: one that calls itself is described once.
    """
    match value:
        case tl.constexpr():
            return ["constexpr", described_constant(value.value, within)]
        case tl.dtype():
            return ["dtype", str(value)]
        case tuple() if hasattr(value, "_fields"):
            return ["named", type(value).__name__, [described_constant(item, within) for item in value]]
        case tuple():
            return ["tuple", [described_constant(item, within) for item in value]]
        case _ if isinstance(value, _PLAIN):
            return ["value", _plain(value)]
        case _:
            return described_function(value, within) or ["unsupported", type(value).__name__]


def _plain(value: Any) -> Any:
    """Return a number or a text as Python's own type has it: a member of an enumeration is its value."""
    match value:
        case bool() | None:
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case _:
            return str.__str__(value)


def described_function(value: Any, within: Within = ()) -> Constant | None:
    """Return a kernel, or a function of Triton's, as plain values; None for anything else."""
    function = getattr(value, "fn", value)
    if not hasattr(function, "__code__"):
        return None
    module = str(getattr(function, "__module__", ""))
    if module.partition(".")[0] == "triton":
        return ["library", canonical(f"{module}.{function.__name__}")]
    if function is value:
        return None
    if module == library.INDUCTOR:
        return ["kernel", PREFIX + str(function.__name__)]
    captured = {} if function in within else _captured_by(function)
    return ["kernel", identity(function), *([_described(captured, (*within, function))] if captured else [])]


def canonical(name: str) -> str:
    """Return the one dotted name under which a function of the library is passed.

    Two names of one function are one object to the compiler and two to the interpreter: a kernel could compare them.
    """
    last = name.rpartition(".")[2]
    return next((f"{place}.{last}" for place in (library.LANGUAGE, library.LIBDEVICE) if _shows(place, last)), name)


def _shows(module: str, name: str) -> bool:
    return library.is_member(module, name) and not library.why_closed(f"{module}.{name}")


def kernels_in(described: Any) -> list[str]:
    """Return the names of the kernels that a described argument holds, also of those that these capture."""
    match described:
        case ["kernel", str(name), *rest]:
            return [name, *(inner for captured in rest for value in captured.values() for inner in kernels_in(value))]
        case ["captured", dict(captured)]:
            return [name for value in captured.values() for name in kernels_in(value)]
        case ["constexpr", inner]:
            return kernels_in(inner)
        case ["tuple", list(items)] | ["named", _, list(items)]:
            return [name for item in items for name in kernels_in(item)]
        case _:
            return []
