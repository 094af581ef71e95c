"""What a kernel that is defined in a function reads of that: recorded with each launch, as constants are.

    def scaled_by(factor, act):
        @triton.jit
        def kernel(...): ...  # reads factor and act

The host says what `factor` and `act` are, and so it does of the arguments of a launch; neither can hold more than plain
values and functions of the source or of Triton. In a launch they are one more argument, `ARGUMENT`, described as
`["captured", {name: constant}]`. A constant is `["value", plain]`, `["dtype", name]`, `["tuple", constants]`,
`["named", class, constants]`, `["constexpr", constant]`, `["library", dotted name]`, or `["kernel", name]` with, as a
third item, what that kernel captures. A kernel that is passed as an argument is described in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import triton.language as tl

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.kernel_names import identity

ARGUMENT: Final = "warpsmith_captured"
"""The name of the argument; no parameter of a kernel begins so."""
_PLAIN: Final = (bool, int, float, str, type(None))
Constant = list[Any]


@dataclass(frozen=True)
class Captured:
    """Names of functions around a kernel, with what they are bound to when it is launched."""

    values: Mapping[str, Any]

    def described(self) -> Constant:
        """Return them as plain values."""
        return ["captured", _described(self.values)]


def with_captured(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a launch, and what the launched plain function captures, if it captures anything."""
    values = _captured_by(function)
    return {**arguments, ARGUMENT: Captured(values)} if values else arguments


def _captured_by(function: Any) -> dict[str, Any]:
    """Return what a function captures; modules are known from the source."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if not isinstance(value, ModuleType):
            found[name] = value
    return found


def _described(values: Mapping[str, Any]) -> dict[str, Constant]:
    return {name: described_constant(value) for name, value in values.items()}


def described_constant(value: Any) -> Constant:
    """Return a constant as plain values; `["unsupported", kind]` for what is none."""
    match value:
        case tl.constexpr():
            return ["constexpr", described_constant(value.value)]
        case tl.dtype():
            return ["dtype", str(value)]
        case tuple() if hasattr(value, "_fields"):
            return ["named", type(value).__name__, [described_constant(item) for item in value]]
        case tuple():
            return ["tuple", [described_constant(item) for item in value]]
        case _ if isinstance(value, _PLAIN):
            return ["value", value]
        case _:
            return described_function(value) or ["unsupported", type(value).__name__]


def described_function(value: Any) -> Constant | None:
    """Return a kernel, or a function of Triton's, as plain values; None for anything else."""
    function = getattr(value, "fn", value)
    if not hasattr(function, "__code__"):
        return None
    module = str(getattr(function, "__module__", ""))
    if module.partition(".")[0] == "triton":
        return ["library", canonical(f"{module}.{function.__name__}")]
    if function is value:
        return None
    captured = _captured_by(function)
    return ["kernel", identity(function), *([_described(captured)] if captured else [])]


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
