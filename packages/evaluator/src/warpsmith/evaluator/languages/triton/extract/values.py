"""What a module-level name of a candidate's source can stand for, as far as it is known without running the source."""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.records.errors import WarpsmithError

RESERVED_PREFIX: Final = "warpsmith"
"""Names that begin so are ours: the decorator, the language, and what an interpreted kernel is rewritten to call."""


class ExtractionError(WarpsmithError):
    """A kernel cannot be taken out of the source, or it uses what no kernel may use."""

    def __init__(self, message: str, remedy: str, line: int) -> None:
        super().__init__(f"line {line}: {message}", remedy)
        self.line = line


class NotConstantError(Exception):
    """An expression is nothing that can be computed from its syntax."""


@dataclass(frozen=True)
class Library:
    """A module that kernels may use, or a member of one, by its full dotted name."""

    name: str


@dataclass(frozen=True)
class Foreign:
    """An object of another library, by its dotted name: all that is known is that it is true and not None."""

    name: str


@dataclass(frozen=True)
class Constexpr:
    """`tl.constexpr(value)`."""

    value: "Value"


@dataclass(frozen=True)
class Version:
    """A release number that compares as `packaging.version` does, for plain releases."""

    release: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Function:
    """A plain function: host code, unless `triton.jit` is called with it."""

    node: ast.FunctionDef


@dataclass(frozen=True)
class Record:
    """A class of named tuples.

    Attributes:
        name: its own.
        fields: names of its items.
        defaults: values of the last items.
    """

    name: str
    fields: tuple[str, ...]
    defaults: "tuple[Value, ...]" = ()


@dataclass(frozen=True)
class Instance:
    """A class of constants, a member of an enumeration, or what a dataclass makes: what its attributes are.

    Attributes:
        attributes: their values.
        fields: the arguments that a call of it takes, of a dataclass; None where it cannot be called.
    """

    attributes: "Mapping[str, Value]"
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Unknown:
    """What cannot be determined without running the source, and why.

    Attributes:
        why: the reason, as a part of a sentence.
        is_class: whether it is a class, which no launch can report.
    """

    why: str
    is_class: bool = False


@dataclass(frozen=True)
class Ambiguous:
    """A name with several bindings, of which the source's run picks one."""

    lines: tuple[int, ...]


Plain: TypeAlias = "bool | int | float | str | None"
Value: TypeAlias = (
    "Plain | tuple[Value, ...] | list[Value] | dict[Plain, Value] | Library | Foreign | Constexpr | Version | Function "
    "| Kernel | Record | Instance | Unknown | Ambiguous"
)


@dataclass(frozen=True)
class Binding:
    """What a name is bound to, and the line of the statement that bound it."""

    value: Value
    line: int


Environment: TypeAlias = dict[str, Binding]


def same(one: Value, other: Value) -> bool:
    """Whether two values are known to be the same for a kernel: 1 is neither True nor 1.0, and NaN is NaN."""
    if isinstance(one, Kernel | Function) and isinstance(other, Kernel | Function):
        return one is other or (type(one) is type(other) and ast.dump(one.node) == ast.dump(other.node))
    if isinstance(one, Constexpr) and isinstance(other, Constexpr):
        return same(one.value, other.value)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and not isinstance(one, Unknown | Ambiguous | Instance | dict) and one == other


def frozen(value: Value) -> Value:
    """Return a value with tuples in place of lists: what a function does to a list, its next call would see."""
    return tuple(map(frozen, value)) if isinstance(value, tuple | list) else value


def is_number(value: Value) -> bool:
    """Whether a value is a finite number or a truth value."""
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
