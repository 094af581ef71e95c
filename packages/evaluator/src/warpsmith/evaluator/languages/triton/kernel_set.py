"""The kernels of a rendered source, ready to be compiled or interpreted; what they capture is bound at each launch."""

import functools
import hashlib
import importlib
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final

import triton
import triton.language as tl
from triton.runtime.jit import ConstexprFunction, JITCallable

from warpsmith.evaluator.errors import EvaluatorError
from warpsmith.evaluator.languages.triton import captures
from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.extract.values import ExtractionError
from warpsmith.evaluator.languages.triton.kernel_names import own_name

_NONE: Final[frozenset[str]] = frozenset()
_COMPARED: Final = (bool, int, str, tl.dtype)


class KernelCompilationError(EvaluatorError):
    """A kernel does not compile for the target chip."""

    def __init__(self, message: str, category: str = "triton_compilation_error") -> None:
        super().__init__(message)
        self.category = category


class KernelSet(Mapping[str, Any]):
    """Kernels by their names in a rendered source. `jit` is what defines them there.

    Args:
        extracted: what the source was rendered from.
    """

    def __init__(self, extracted: Extracted) -> None:
        self._extracted = extracted
        self._functions: dict[str, tuple[FunctionType, dict[str, Any] | None]] = {}
        self._made: dict[str, Any] = {}
        self._instances: dict[str, Any] = {}
        self._records: dict[str, Any] = {}

    def jit(self, function: FunctionType | None = None, **options: Any) -> Any:
        """Stand for `triton.jit` in the source."""
        if function is None:
            return functools.partial(self.jit, **options)
        self._functions[function.__name__] = function, options
        made = self._made[function.__name__] = _jitted(function, options)
        return made

    def compute(self, function: FunctionType) -> Any:
        """Stand for `triton.constexpr_function` in the source."""
        self._functions[function.__name__] = function, None
        made = self._made[function.__name__] = _Computing(function)
        return made

    def record(self, name: str, fields: tuple[str, ...], defaults: tuple[Any, ...] = ()) -> Any:
        """Return a class of named tuples: the source's, or one for an argument of a launch."""
        if name not in self._records:
            self._records[name] = namedtuple(name, fields, defaults=defaults)
        return self._records[name]

    def named(self, name: str, items: list[Any]) -> Any:
        """Return a named tuple; a plain one where the source has no such class."""
        fields = self._extracted.records.get(name, ())
        return self.record(name, fields)(*items) if len(fields) == len(items) else tuple(items)

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def has(self, recorded_name: str) -> bool:
        """Whether there is a kernel that a recording calls so."""
        return self._extracted.text_name(recorded_name) in self._made

    def refused(self, recorded_name: str) -> ExtractionError | None:
        """Return why the kernel that a recording calls so was refused; None for one that was not."""
        return self._extracted.refused.get(self._extracted.text_name(recorded_name))

    def launched(self, recorded_name: str, arguments: Mapping[str, Any]) -> Any:
        """Return the kernel of a launch, given what a recording calls it and its arguments, as they are described."""
        match arguments.get(captures.ARGUMENT):
            case ["captured", dict(captured)]:
                found = self.kernel(recorded_name, captured)
            case _:
                found = self.kernel(recorded_name)
        if isinstance(found, _Computing):
            raise KernelCompilationError(
                f"{own_name(recorded_name)} is a constexpr function, which cannot be launched."
            )
        return found

    def kernel(self, recorded_name: str, captured: Mapping[str, Any] | None = None) -> Any:
        """Return a kernel with what it captures bound to constants, as they are described.

        Raises:
            KernelCompilationError: there is none of that name, or a name that it reads is not reported.
        """
        name = self._extracted.text_name(recorded_name)
        if name not in self._made:
            raise KernelCompilationError(self._missing(own_name(recorded_name)))
        reported = captured or {}
        wanted, known = self._extracted.captured.get(name, {}), self._extracted.bound.get(name, _NONE)
        if missing := sorted(wanted.keys() - reported.keys(), key=wanted.__getitem__):
            raise KernelCompilationError(
                f"line {wanted[missing[0]]}: kernel {own_name(recorded_name)} uses {', '.join(missing)}, which is not "
                "bound when it is launched, or is a module. Bind it before the launch, import modules by an import "
                "statement, or pass it as a tl.constexpr argument."
            )
        bound = {one: value for one, value in reported.items() if one in wanted}
        bound |= {one: value for one, value in reported.items() if one in known and self._differs(name, one, value)}
        return self._instance(name, bound) if bound else self._made[name]

    def _missing(self, name: str) -> str:
        """Return why there is no kernel of a name, and what to write instead."""
        if decorator := self._extracted.decorated.get(name):
            return (
                f"{name} is launched as a kernel, and the text of the file does not show that its decorator "
                f"{decorator} calls triton.jit. Write @triton.jit right above `def {name}`, below every other "
                "decorator."
            )
        return (
            f"The text of the file has no @triton.jit function {name}: a kernel that is made by exec, written to "
            "another file or imported cannot be judged. Paste its source, and that of every device function that it "
            "calls, into the file."
        )

    def _differs(self, name: str, one: str, described: Any) -> bool:
        """Whether a launch reports a value that kernels can read, and another one than the source's text has."""
        if described[:1] == ["unsupported"]:
            return False
        written = self._functions[name][0].__globals__.get(one)
        return not _same(written, self.constant(described))

    def _instance(self, name: str, bound: Mapping[str, Any]) -> Any:
        key = f"{name} {sorted(bound.items())!r}"
        if key not in self._instances:
            function, options = self._functions[name]
            values = {one: self.constant(value) for one, value in bound.items()}
            scope = function.__globals__ | values
            instance = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
            instance.__annotations__ = function.__annotations__
            instance.__module__ = function.__module__
            self._instances[key] = _jitted(instance, options, key)
        return self._instances[key]

    def constant(self, described: Any) -> Any:
        """Return what a description of a constant describes; KernelCompilationError for what no kernel can capture."""
        match described:
            case ["value", value]:
                found = value
            case ["constexpr", inner]:
                found = tl.constexpr(self.constant(inner))
            case ["dtype", str(name)]:
                found = triton_dtype(name)
            case ["tuple", list(items)]:
                found = tuple(map(self.constant, items))
            case ["named", str(name), list(items)]:
                found = self.named(name, [self.constant(item) for item in items])
            case ["library", str(name)]:
                found = library_function(name)
            case ["kernel", str(name), *rest]:
                found = self.kernel(name, *rest[:1])
            case _:
                kind = described[1] if isinstance(described, list) and described[:1] == ["unsupported"] else "value"
                raise KernelCompilationError(
                    f"A kernel uses a {kind} that is not its argument. It may use numbers in tl.constexpr, dtypes, "
                    "tuples of these and @triton.jit functions; pass tensors as arguments."
                )
        return found


class _Computing(ConstexprFunction):  # type: ignore[misc]  # before Triton 3.7 it takes no type argument
    """A function that the compiler calls with constants alone: it gets no tensor, and does not learn who calls."""

    def __call__(self, *args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        found = _constant(self.fn(*map(_constant, args), **{name: _constant(value) for name, value in kwargs.items()}))
        return found if _semantic is None or triton.knobs.runtime.interpret else tl.constexpr(found)


def _constant(value: Any) -> Any:
    """Return a constant as Python has it; TypeError for anything else."""
    match value:
        case tl.constexpr():
            return _constant(value.value)
        case tl.tuple() | tuple():
            return tuple(map(_constant, value))
        case list():
            return list(map(_constant, value))
        case bool() | int() | float() | str() | None | tl.dtype():
            return value
        case _:
            raise TypeError(
                f"a constexpr function is given or returns a {type(value).__name__}; constants were expected. Pass "
                "tl.constexpr values, shapes and dtypes."
            )


def _same(one: Any, other: Any) -> bool:
    """Whether two constants, or two kernels, are the same to the compiler: 1 is neither True nor 1.0, nor 0.0 -0.0."""
    match one, other:
        case (tl.constexpr(), tl.constexpr()):
            return _same(one.value, other.value)
        case (tuple(), tuple()):
            return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))
        case (float(), float()):
            return repr(one) == repr(other)
        case _:
            return one is other or (type(one) is type(other) and isinstance(one, _COMPARED) and bool(one == other))


def _jitted(function: FunctionType, options: Mapping[str, Any] | None, key: str = "") -> Any:
    """Return the kernel of a function. What it captures is part of its key in Triton's cache."""
    made: Any = _Computing(function) if options is None else triton.jit(function, **options)
    if key and isinstance(made, JITCallable):
        made.hash = hashlib.sha256(f"{made.cache_key} {key}".encode()).hexdigest()
    return made


def library_function(name: str) -> Callable[..., Any]:
    """Return a function of Triton's that a launch passes; KernelCompilationError where a kernel may not use it."""
    module, _, last = name.rpartition(".")
    why = "" if name == captures.canonical(name) else "it has another name"
    if why := why or library.why_closed(name) or ("" if library.is_function(name) else "it is not a function"):
        raise KernelCompilationError(
            f"A kernel is passed {library.shown(name)}: {why}. Pass a function of triton.language or libdevice, or "
            "a @triton.jit function of the file."
        )
    found: Callable[..., Any] = getattr(importlib.import_module(module), last)
    return found


def triton_dtype(name: str) -> tl.dtype:
    """Return Triton's dtype by the name that it prints, `fp32` or `int64`."""
    return tl.str_to_ty(_DTYPE_SHORT.get(name, name), None)


_DTYPE_SHORT: Final = {"int1": "i1"} | {
    f"{long}{bits}": f"{short}{bits}" for long, short in (("int", "i"), ("uint", "u")) for bits in (8, 16, 32, 64)
}
