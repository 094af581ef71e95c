"""A module of compiled host code in a candidate's process: its functions in Python, and what it asks Python for.

The layout of `Value` and `Bridge` is that of `headers/warpsmith/values.h`. Tensors cross as numbers: Python keeps the
tensor until C++ releases the number.
"""

import atexit
import ctypes
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from warpsmith.evaluator.languages.cuda_cpp.errors import LaunchError
from warpsmith.evaluator.recordings.errors import DetachedError, InputMutationError

MISSING, NONE, TENSOR, INTEGER, REAL, BOOLEAN, TEXT, LIST, TUPLE, DTYPE, DEVICE, POINTER = range(-1, 11)
DTYPES: Final = {
    **{0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16},
    **{6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16},
}
"""torch's numbers of scalar types."""
NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()}
_RAISED: Final = {2: TypeError, 3: IndexError, 4: ValueError, 5: NotImplementedError}
"""By the code that a function of the module returns; RuntimeError for others."""

_UNSURVIVABLE: Final = (DetachedError, InputMutationError, LaunchError, SystemExit, KeyboardInterrupt)
_OF_RUNTIME: Final = (b"cuda.", b"stream.", b"event.")


class Value(ctypes.Structure):
    """One argument or result."""

    _fields_ = (("kind", ctypes.c_int32), ("size", ctypes.c_int32), ("data", ctypes.c_int64))


class Pointer(int):
    """An address, in a result for C++."""


_CALL: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(Value), ctypes.c_int32, ctypes.POINTER(Value)
)
_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Bridge(ctypes.Structure):
    _fields_ = (("call", _CALL), ("release", _RELEASE))


Operation = Callable[..., Any]


class Bridge:
    """Answers what compiled host code asks.

    Args:
        operations: what it can ask for, by name; each gets the arguments and returns the answer.
        otherwise: returns the operation of any other name; raises if there is none.

    Attributes:
        unsurvivable: an error that ends the call even if host code ignores it.
    """

    def __init__(self, operations: Mapping[str, Operation], otherwise: Callable[[str], Operation]) -> None:
        self.unsurvivable: BaseException | None = None
        self._operations = operations
        self._otherwise = otherwise
        self._tensors: dict[int, torch.Tensor] = {}
        self._next = 1
        self._raised: BaseException | None = None
        self._kept: list[Any] = []
        # ctypes' functions must live as long as C++ may call them.
        self.table = _Bridge(_CALL(self._call), _RELEASE(self._release))

    def begin(self) -> None:
        """Forget the errors of an earlier call."""
        self._raised = self.unsurvivable = None

    def raised(self, message: str, code: int) -> BaseException:
        """Return the exception for a call that failed: Python's own, or one for what C++ threw."""
        if self._raised is not None and str(self._raised) == message:
            return self._raised
        return _RAISED.get(code, RuntimeError)(message)

    def _call(self, name: bytes, args: Any, count: int, result: Any) -> int:
        try:
            operation = self._operations.get(name.decode()) or self._otherwise(name.decode())
            answer = operation(*(self.decoded(args[number]) for number in range(count)))
            self._kept = []
            self.encode(answer, result[0], self._kept)
        except BaseException as error:  # noqa: BLE001  (nothing may unwind through C++; it is raised again after it)
            self._raised = error
            # An error code of the runtime can be ignored; what was not recorded cannot.
            if name.startswith(_OF_RUNTIME) or isinstance(error, _UNSURVIVABLE):
                self.unsurvivable = self.unsurvivable or error
            self._kept = []
            self.encode(str(error), result[0], self._kept)
            return 1
        return 0

    def _release(self, number: int) -> None:
        self._tensors.pop(number, None)

    def tensor(self, number: int) -> torch.Tensor:
        """Return a tensor by the number that C++ has for it."""
        return self._tensors[number]

    def decoded(self, value: Value) -> Any:
        """Return what a value of C++ means; TypeError if it means nothing."""
        plain = _PLAIN.get(value.kind)
        if plain is not None:
            return plain(value)
        match value.kind:
            case 1:
                return self._tensors[value.data]
            case 6 | 7:
                items = (Value * value.size).from_address(value.data) if value.size else ()
                made = [self.decoded(item) for item in items]
                return made if value.kind == LIST else tuple(made)
            case _:
                raise TypeError(f"a value of kind {value.kind} has no meaning")

    def encode(self, given: Any, into: Value, kept: list[Any]) -> None:
        """Write a value for C++; `kept` must live as long as C++ may read it.

        Raises:
            TypeError: C++ has no such values.
        """
        into.size = 0
        match given:
            case torch.Tensor():
                into.kind, into.data = TENSOR, self._next
                self._tensors[self._next] = given
                self._next += 1
            case str() | torch.device():
                text = str(given).encode("utf-8", "replace")
                kept.append(text)
                into.kind = TEXT if isinstance(given, str) else DEVICE
                into.size, into.data = len(text), ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
            case list() | tuple():
                items = (Value * max(1, len(given)))()
                for item, value in zip(given, items, strict=False):
                    self.encode(item, value, kept)
                kept.append(items)
                into.kind, into.size = (LIST if isinstance(given, list) else TUPLE), len(given)
                into.data = ctypes.addressof(items)
            case _:
                into.kind, into.data = _number_of(given)


def _text_of(value: Value) -> str:
    return ctypes.string_at(value.data, value.size).decode("utf-8", "replace")


_PLAIN: Final[Mapping[int, Callable[[Value], Any]]] = {
    NONE: lambda _: None,
    INTEGER: lambda value: value.data,
    REAL: lambda value: struct.unpack("<d", struct.pack("<q", value.data))[0],
    BOOLEAN: lambda value: bool(value.data),
    TEXT: _text_of,
    DTYPE: lambda value: DTYPES[value.data],
    DEVICE: lambda value: torch.device(_text_of(value)),
    POINTER: lambda value: Pointer(value.data & (2**64 - 1)),
}
"""What a value means that refers to no other, by its kind."""


def _number_of(given: Any) -> tuple[int, int]:
    """Return kind and data of what fits in one number."""
    match given:
        case None:
            return NONE, 0
        case torch.dtype() if given in NUMBERS:
            return DTYPE, NUMBERS[given]
        case bool():
            return BOOLEAN, int(given)
        case _ if hasattr(given, "__index__"):
            return (POINTER if isinstance(given, Pointer) else INTEGER), _signed(given.__index__())
        case _ if hasattr(given, "__float__"):
            return REAL, struct.unpack("<q", struct.pack("<d", float(given)))[0]
        case _:
            raise TypeError(f"a {type(given).__name__} cannot be passed to C++ host code")


def _signed(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


class HostLibrary:
    """A loaded module.

    Args:
        path: of the shared object.
        bridge: answers what it asks.

    Raises:
        OSError: it cannot be loaded.
        RuntimeError: its module function throws.
    """

    def __init__(self, path: Path, bridge: Bridge) -> None:
        self._bridge = bridge
        self._library = library = ctypes.CDLL(str(path))
        library.warpsmith_start.restype = ctypes.c_char_p
        for name in ("warpsmith_name", "warpsmith_argument", "warpsmith_variable", "warpsmith_attribute_name"):
            getattr(library, name).restype = ctypes.c_char_p
        library.warpsmith_attribute.restype = ctypes.POINTER(Value)
        # Static tensors of host code are destroyed when the process has ended Python, and would call it.
        atexit.register(self._stop)
        failed = library.warpsmith_start(ctypes.byref(bridge.table))
        if failed:
            raise RuntimeError(failed.decode("utf-8", "replace"))
        self.names = [library.warpsmith_name(number).decode() for number in range(library.warpsmith_count())]
        self._attributes = {
            library.warpsmith_attribute_name(number).decode(): bridge.decoded(library.warpsmith_attribute(number)[0])
            for number in range(library.warpsmith_attribute_count())
        }

    def _stop(self) -> None:
        self._library.warpsmith_stop()

    def module(self, name: str, documentation: Mapping[str, str]) -> ModuleType:
        """Return a Python module with the library's functions and attributes."""
        made = ModuleType(name)
        for own, value in self._attributes.items():
            setattr(made, own, value)
        for number, own in enumerate(self.names):
            setattr(made, own, self._function(number, own, documentation.get(own)))
        return made

    def _function(self, number: int, name: str, documentation: str | None) -> Callable[..., Any]:
        library, bridge = self._library, self._bridge
        arity = library.warpsmith_arity(number)
        names = [library.warpsmith_argument(number, place).decode() for place in range(arity)]

        def call(*args: Any, **named: Any) -> Any:
            values, kept = (Value * max(1, arity))(), []  # type: ignore[var-annotated]
            for place, given in enumerate(_arranged(name, names, args, named)):
                if given is _LEFT_OUT:
                    values[place].kind = MISSING
                else:
                    bridge.encode(given, values[place], kept)
            result = Value()
            bridge.begin()
            code = library.warpsmith_call(number, values, ctypes.byref(result))
            if code == 0 and bridge.unsurvivable is None:
                return bridge.decoded(result)
            text = ctypes.string_at(result.data, result.size).decode("utf-8", "replace") if code else ""
            if bridge.unsurvivable is not None:
                raise bridge.unsurvivable
            raise bridge.raised(text, code) if code != 2 else TypeError(f"{name}(): {text}")

        call.__name__ = call.__qualname__ = name
        call.__doc__ = documentation
        return call


_LEFT_OUT: Final = object()


def _arranged(function: str, names: list[str], args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Return one argument for each parameter; TypeError if there are too many, or one of an unknown name."""
    if len(args) > len(names):
        raise TypeError(f"{function}() takes {len(names)} arguments; {len(args)} were given")
    found = [*args, *[_LEFT_OUT] * (len(names) - len(args))]
    for name, value in named.items():
        if not name or name not in names[len(args) :]:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        found[names.index(name)] = value
    return found
