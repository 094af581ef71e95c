"""Computes module-level constants from their syntax, so that kernels get a value and no expression is ever run.

Only what is listed here is computed: literals, arithmetic, comparisons, conditions, subscripts, a few pure functions,
those that the module defines (`functions`), and the questions by which sources find out where they run (versions,
`hasattr(tl, ...)`). Everything is bounded.
"""

import ast
import math
import operator
import re
import string
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.functions import Body, bound_arguments
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.values import (
    Ambiguous,
    Binding,
    Constexpr,
    Foreign,
    Function,
    Instance,
    Library,
    NotConstantError,
    Record,
    Unknown,
    Value,
    Version,
)

MAX_BITS: Final = 4096
MAX_ITEMS: Final = 4096
MAX_STEPS: Final = 100_000
MAX_DEPTH: Final = 32
"""Calls of the module's functions within one another."""


_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
        ast.LShift: operator.lshift,
        ast.RShift: operator.rshift,
        ast.BitAnd: operator.and_,
        ast.BitOr: operator.or_,
        ast.BitXor: operator.xor,
    }
)
_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = MappingProxyType(
    {ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_}
)
_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.In: lambda item, items: item in items,
        ast.NotIn: lambda item, items: item not in items,
    }
)
_BUILTINS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        function.__name__: function
        for function in (min, max, abs, int, float, bool, len, round, sum, tuple, list, str, any, all, sorted, divmod)
    }
)
_HELPERS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "triton.cdiv": lambda x, y: -(-x // y),
        "triton.next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
    }
)
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {f"operator.{name}": vars(operator)[name] for name in ("lt", "le", "eq", "ne", "ge", "gt")}
)
_GROWING: Final = frozenset({"factorial", "comb", "perm"})
_TEXT_METHODS: Final = frozenset(
    {"split", "startswith", "endswith", "lower", "upper", "strip", "lstrip", "rstrip", "replace", "partition"}
    | {"join", "format"}
)
_RELEASE: Final = ("major", "minor", "micro")
_VERSION_CALLS: Final = frozenset({"packaging.version.parse", "packaging.version.Version"})
_ENVIRONMENT_CALLS: Final = frozenset({"os.getenv", "os.environ.get"})


class Evaluator:
    """Computes expressions in an environment; NotConstantError for what is not computed.

    Args:
        names: what the names of the module are bound to where the expressions stand.
    """

    def __init__(self, names: Mapping[str, Binding]) -> None:
        self._names = names
        self._local: dict[str, Value] = {}
        self._steps = MAX_STEPS
        self._depth = 0

    def value(self, node: ast.expr) -> Value:
        """Return what `node` stands for, an Unknown where that cannot be determined."""
        try:
            return self.known(node)
        except NotConstantError as error:
            return Unknown(str(error))

    def truth(self, node: ast.expr) -> bool | None:
        """Return whether `node` holds; None where that cannot be determined."""
        try:
            return _truth(self.known(node))
        except NotConstantError:
            return None

    def known(self, node: ast.expr) -> Value:
        """Return what `node` stands for; NotConstantError where that cannot be determined."""
        self.spend(1)
        compute = _COMPUTED.get(type(node))
        if compute is None:
            raise NotConstantError(f"a {type(node).__name__} is not computed")
        try:
            found = _bounded(compute(self, node))
            self.spend(_size(found) // 64)
            return found
        except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise NotConstantError(f"{type(error).__name__}: {error}") from error

    def spend(self, steps: int) -> None:
        """Count steps; NotConstantError where there are too many."""
        self._steps -= steps
        if self._steps < 0:
            raise NotConstantError("it takes too many steps")

    def holds(self, node: ast.expr) -> bool:
        """Return whether `node` holds; NotConstantError where that cannot be determined."""
        return _truth(self.known(node))

    def constant(self, node: ast.Constant) -> Value:
        """A literal."""
        if isinstance(node.value, bool | int | float | str | None):
            return node.value
        raise NotConstantError(f"a {type(node.value).__name__} is not a constant of a kernel")

    def name(self, node: ast.Name) -> Value:
        """A name of the module, or a builtin function."""
        bound = self._names.get(node.id)
        if node.id not in self._local and bound is None:
            if node.id == "__name__":
                return "candidate"
            raise NotConstantError(f"{node.id} is not known")
        match self._local[node.id] if bound is None or node.id in self._local else bound.value:
            case Unknown(why=why):
                raise NotConstantError(why)
            case Ambiguous(lines=lines):
                raise NotConstantError(f"{node.id} is bound in lines {', '.join(map(str, lines))}")
            case value:
                return value

    def attribute(self, node: ast.Attribute) -> Value:
        """A member of a module, or the value of a constexpr."""
        match self.known(node.value):
            case Library() | Foreign() as base:
                return library.member(base, node.attr)
            case Constexpr(value=value) if node.attr == "value":
                return value
            case Instance(attributes=attributes) if node.attr in attributes:
                return self._resolved(attributes[node.attr])
            case (major, minor, micro) if node.attr in _RELEASE:
                return (major, minor, micro)[_RELEASE.index(node.attr)]
            case _:
                raise NotConstantError(f"the attribute {node.attr} is not computed")

    def unary(self, node: ast.UnaryOp) -> Value:
        """`-a`, `not a`."""
        operand = self.known(node.operand)
        if isinstance(node.op, ast.Not):
            return not _truth(operand)
        found: Value = _UNARY[type(node.op)](_number(operand))
        return _wrapped(found, operand)

    def binary(self, node: ast.BinOp) -> Value:
        """`a + b`."""
        left, right = self.known(node.left), self.known(node.right)
        compute = _BINARY.get(type(node.op))
        if compute is None:
            raise NotConstantError("a matrix product is not computed")
        one, other = _plain(left), _plain(right)
        _check_growth(node.op, one, other)
        return _wrapped(compute(one, other), left, right)

    def boolean(self, node: ast.BoolOp) -> Value:
        """`a and b`. What cannot be determined decides nothing where another operand decides."""
        decisive = isinstance(node.op, ast.Or)
        unknown: NotConstantError | None = None
        value: Value = not decisive
        for operand in node.values:
            try:
                value = self.known(operand)
                if _truth(value) is decisive:
                    return value if unknown is None else decisive
            except NotConstantError as error:
                unknown = error
        if unknown is not None:
            raise unknown
        return value

    def comparison(self, node: ast.Compare) -> Value:
        """`a < b < c`."""
        left = self.known(node.left)
        wrapped = isinstance(left, Constexpr)
        for sign, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.known(comparator)
            wrapped |= isinstance(right, Constexpr)
            if not _compare(sign, left, right):
                return Constexpr(False) if wrapped else False
            left = right
        return Constexpr(True) if wrapped else True

    def choice(self, node: ast.IfExp) -> Value:
        """`a if c else b`."""
        return self.known(node.body if _truth(self.known(node.test)) else node.orelse)

    def sequence(self, node: ast.Tuple | ast.List) -> Value:
        """`(a, b)` and `[a, b]`."""
        items = [self.known(item) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items

    def mapping(self, node: ast.Dict) -> Value:
        """`{a: b}` with plain keys."""
        if None in node.keys:
            raise NotConstantError("** in a dict is not computed")
        keys = [_plain(self.known(key)) for key in node.keys if key is not None]
        return {key: self.value(value) for key, value in zip(keys, node.values, strict=True)}

    def subscript(self, node: ast.Subscript) -> Value:
        """`a[i]` and `a[i:j]`."""
        base = self.known(node.value)
        if not isinstance(base, tuple | list | dict | str):
            raise NotConstantError("a subscript of this is not computed")
        if isinstance(node.slice, ast.Slice):
            return self._sliced(base, node.slice)
        return self._resolved(base[_plain(self.known(node.slice))])

    @staticmethod
    def _resolved(found: Value) -> Value:
        if isinstance(found, Unknown):
            raise NotConstantError(found.why)
        return found

    def _sliced(self, base: "str | tuple[Value, ...] | list[Value] | dict[Any, Value]", part: ast.Slice) -> Value:
        if isinstance(base, dict):
            raise NotConstantError("a dict has no slices")
        ends = [None if end is None else _plain(self.known(end)) for end in (part.lower, part.upper, part.step)]
        return base[slice(*ends)]

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Value:
        """`[f(x) for x in items]`."""
        match node.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=items, ifs=[], is_async=0)]:
                return list(self._each(node.elt, name, self.known(items)))
            case _:
                raise NotConstantError("a comprehension with conditions or several loops is not computed")

    def _each(self, element: ast.expr, name: str, items: Value) -> Iterator[Value]:
        if not isinstance(items, tuple | list | str):
            raise NotConstantError("a comprehension over this is not computed")
        outside = dict(self._local)
        for item in items:
            self._local = outside | {name: item}
            yield self.known(element)
        self._local = outside

    def call(self, node: ast.Call) -> Value:
        """`f(a, key=b)`."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise NotConstantError("a call with * is not computed")
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotConstantError("a call with ** is not computed")
        if isinstance(node.func, ast.Name) and node.func.id not in {*self._names, *self._local}:
            return self._call_builtin(node.func.id, node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS:
            text = self.known(node.func.value)
            if isinstance(text, str):
                return self._call_text(text, node.func.attr, node)
        return self._call_known(self.known(node.func), node)

    def _call_text(self, text: str, method: str, node: ast.Call) -> Value:
        arguments = [_as_text(argument) for argument in self._arguments(node)]
        if method == "format":
            return _formatted(text, arguments, {name: _as_text(value) for name, value in self._keywords(node).items()})
        if method == "replace" and len(text) * max(1, len(arguments[-1])) > MAX_ITEMS * MAX_ITEMS // 64:
            return _too_large()
        return getattr(text, method)(*arguments)  # type: ignore[no-any-return]

    def formatted(self, node: ast.JoinedStr) -> Value:
        """`f"{a}"`, without formats."""
        return "".join(map(self._part, node.values))

    def _part(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return _text(_as_text(self.known(value)))
            case _:
                raise NotConstantError("a format is not computed")

    def _arguments(self, node: ast.Call) -> list[Value]:
        return [self.known(argument) for argument in node.args]

    def _keywords(self, node: ast.Call) -> dict[str, Value]:
        return {str(keyword.arg): self.known(keyword.value) for keyword in node.keywords}

    def _call_builtin(self, name: str, node: ast.Call) -> Value:
        if name in ("hasattr", "getattr"):
            return self._ask(name, node)
        arguments = self._arguments(node)
        match name, arguments:
            case "map", [Foreign() | Library() | Function(), *_]:
                raise NotConstantError("this map is not computed")
            case "range", [*bounds] if all(isinstance(bound, int) for bound in bounds):
                numbers = range(*bounds)  # type: ignore[arg-type]
                return list(numbers) if len(numbers) <= MAX_ITEMS else _too_large()
            case "pow", [base, exponent]:
                _check_growth(ast.Pow(), _plain(base), _plain(exponent))
                return pow(_number(base), _number(exponent))  # type: ignore[no-any-return]
        if name in ("str", "repr"):
            arguments = [_as_text(argument) for argument in arguments]
        function = _BUILTINS.get(name)
        if function is None:
            raise NotConstantError(f"{name} is not computed")
        return _apply(function, arguments, self._keywords(node))

    def _ask(self, name: str, node: ast.Call) -> Value:
        """`hasattr(tl, "x")` and `getattr(tl, "x", None)`."""
        match self._arguments(node):
            case [Library(name=module), str(member), *default] if module in library.ALLOWED_MODULES:
                there = library.is_member(module, member)
                if name == "hasattr":
                    return there
                if there or default:
                    return library.member(Library(module), member) if there else default[0]
        raise NotConstantError(f"{name} of this is not computed")

    def _instance(self, made: Instance, node: ast.Call) -> Value:
        """Return what a dataclass makes."""
        fields = made.fields or ()
        given = dict(zip(fields, self._arguments(node), strict=False)) | self._keywords(node)
        if len(node.args) > len(fields) or not given.keys() <= {*fields} <= given.keys() | made.attributes.keys():
            raise NotConstantError(f"{ast.unparse(node.func)[:60]} takes other arguments")
        return Instance({**made.attributes, **given})

    def _call_known(self, function: Value, node: ast.Call) -> Value:
        match function:
            case Library(name=library.CONSTEXPR):
                [value] = [*self._arguments(node), *self._keywords(node).values()]
                return value if isinstance(value, Constexpr) else Constexpr(value)
            case Library(name=name) if name in _HELPERS:
                return _apply(_HELPERS[name], self._arguments(node), {})
            case Library(name=name) if name.startswith("math."):
                return self._call_math(name.removeprefix("math."), node)
            case Foreign() | Instance(fields=tuple()):
                return self._call_foreign(function, node)
            case Function(node=definition) | Kernel(node=definition, computes=True):
                return self._call_own(definition, node)
            case _:
                raise NotConstantError(f"{ast.unparse(node.func)[:60]} is not computed")

    def _call_own(self, definition: ast.FunctionDef, node: ast.Call) -> Value:
        try:
            return self._by_convention(definition.name, node)
        except NotConstantError:
            return self._call_function(definition, node)

    def _by_convention(self, name: str, node: ast.Call) -> Value:
        """`is_hip()` and `compare_version("triton", operator.ge, "3.0.0")`, which each project writes for itself."""
        last = name.rpartition(".")[2].lower()
        match self._arguments(node):
            case [] if last in library.CONVENTIONS and not node.keywords:
                return library.CONVENTIONS[last]
            case ["triton" | "torch" as package, Foreign(name=sign), str(wanted)] if sign in _OPERATORS:
                return bool(_OPERATORS[sign](_version(library.version(package)), _version(wanted)))
        raise NotConstantError(f"{name}() is known only where the source runs")

    def _call_function(self, function: ast.FunctionDef, node: ast.Call) -> Value:
        """Compute a call of a function of the module. One inside another may read what that binds."""
        if function.col_offset or self._depth >= MAX_DEPTH:
            raise NotConstantError(f"{function.name}() is known only where the source runs")
        given = bound_arguments(function, self._arguments(node), self._keywords(node))
        defaults = {name: self.known(value) for name, value in given.items() if isinstance(value, ast.Constant)}
        outside = self._local
        self._depth += 1
        self._local = {**given, **defaults}
        try:
            return Body(self, function, self._local).value()
        finally:
            self._local = outside
            self._depth -= 1

    def _call_math(self, name: str, node: ast.Call) -> Value:
        function = vars(math).get(name)
        arguments = self._arguments(node)
        if name.startswith("_") or not callable(function):
            raise NotConstantError(f"math.{name} is not computed")
        if name in _GROWING and any(_number(argument) > MAX_BITS // 16 for argument in arguments):
            _too_large()
        return _apply(function, arguments, self._keywords(node))

    def _call_foreign(self, function: Foreign | Instance, node: ast.Call) -> Value:
        if isinstance(function, Instance):
            return self._instance(function, node)
        name = function.name
        if name in library.ANSWERS:
            return library.ANSWERS[name]
        if name in _ENVIRONMENT_CALLS and node.args:
            # A candidate's environment holds none of its author's variables.
            default = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
            return self.known(default[0]) if default else None
        if name == "importlib.util.find_spec":
            match [self.known(argument) for argument in node.args]:
                case [str(module)] if (there := library.module_exists(module)) is not None:
                    return Foreign(f"{module}.__spec__") if there else None
        if name in _VERSION_CALLS:
            match self._arguments(node):
                case [str(text)]:
                    return Version(_version(text))
        return self._by_convention(name, node)


_COMPUTED: Final[Mapping[type[ast.expr], Callable[[Evaluator, Any], Value]]] = MappingProxyType(
    {
        ast.Constant: Evaluator.constant,
        ast.Name: Evaluator.name,
        ast.Attribute: Evaluator.attribute,
        ast.UnaryOp: Evaluator.unary,
        ast.BinOp: Evaluator.binary,
        ast.BoolOp: Evaluator.boolean,
        ast.Compare: Evaluator.comparison,
        ast.IfExp: Evaluator.choice,
        ast.Tuple: Evaluator.sequence,
        ast.List: Evaluator.sequence,
        ast.Dict: Evaluator.mapping,
        ast.Subscript: Evaluator.subscript,
        ast.ListComp: Evaluator.comprehension,
        ast.GeneratorExp: Evaluator.comprehension,
        ast.Call: Evaluator.call,
        ast.JoinedStr: Evaluator.formatted,
    }
)


def _version(text: str) -> tuple[int, ...]:
    """Return a release without the zeros that end it: 3.0 and 3 are the same release."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text)
    if found is None:
        raise NotConstantError(f"{text[:40]} is not a version")
    return tuple(int(part) for part in re.sub(r"(\.0+)+$", "", found[1]).split(".")[:8])


def _truth(value: Value) -> bool:
    match value:
        case Constexpr(value=inner):
            return _truth(inner)
        case Library() | Foreign() | Function() | Kernel() | Record() | Version() | Instance():
            return True
        case Unknown(why=why):
            raise NotConstantError(why)
        case _:
            return bool(value)


def _plain(value: Value) -> Any:
    """Return a value as Python computes with it; NotConstantError for one that is an object of a library."""
    match value:
        case Constexpr(value=inner):
            return _plain(inner)
        case bool() | int() | float() | str() | None | Version():
            return value
        case tuple() | list():
            return type(value)(map(_plain, value))
        case Library(name=name) if (number := library.number(name)) is not None:
            return number
        case _:
            raise NotConstantError("it holds an object of a library")


def _as_text(value: Value) -> Any:
    """Return a plain value whose text is that of the value itself: a constexpr's depends on the version of Triton."""
    if _holds_constexpr(value):
        raise NotConstantError("the text of a constexpr is not computed: take its .value")
    return _plain(value)


def _holds_constexpr(value: Value) -> bool:
    return isinstance(value, Constexpr) or (isinstance(value, tuple | list) and any(map(_holds_constexpr, value)))


def _text(value: Any) -> str:
    if isinstance(value, bool | int | float | str | None):
        return str(value)
    raise NotConstantError("only numbers and texts are formatted")


def _formatted(text: str, given: list[Any], named: dict[str, Any]) -> str:
    """Return what `text.format(...)` gives for fields that are a name or a place, without a format."""
    found, places = [], iter(range(len(given)))
    for literal, name, form, conversion in string.Formatter().parse(text):
        found.append(literal)
        if name is None:
            continue
        if form or conversion or not (name == "" or name.isdecimal() or name.isidentifier()):
            raise NotConstantError("a format is not computed")
        found.append(
            _text(named[name] if name.isidentifier() else given[int(name) if name else next(places, len(given))])
        )
    return "".join(found)


def _number(value: Value) -> Any:
    found = _plain(value)
    if not isinstance(found, int | float):
        raise NotConstantError("it is not a number")
    return found


def _wrapped(value: Any, *operands: Value) -> Value:
    """Return a constexpr where an operand is one: their arithmetic stays in the language."""
    return Constexpr(value) if any(isinstance(operand, Constexpr) for operand in operands) else value


def _apply(function: Callable[..., Any], arguments: list[Value], keywords: dict[str, Value]) -> Value:
    named = {name: _plain(value) for name, value in keywords.items()}
    return function(*map(_plain, arguments), **named)  # type: ignore[no-any-return]


def _compare(sign: ast.cmpop, left: Value, right: Value) -> bool:
    if isinstance(sign, ast.Is | ast.IsNot):
        if left is not None and right is not None and not (isinstance(left, bool) and isinstance(right, bool)):
            raise NotConstantError("`is` between these is not computed")
        return (left is right) is isinstance(sign, ast.Is)
    if isinstance(left, Library) and isinstance(right, Library) and isinstance(sign, ast.Eq | ast.NotEq):
        return (left == right) is isinstance(sign, ast.Eq)
    one, other = _plain(left), _plain(right)
    if isinstance(one, Version) and isinstance(other, Version):
        one, other = one.release, other.release
    return bool(_COMPARE[type(sign)](one, other))


def _check_growth(sign: ast.operator, left: Any, right: Any) -> None:
    """Raise where the result would take much time or memory."""
    if isinstance(sign, ast.Mod) and isinstance(left, str):
        raise NotConstantError("a formatted string is not computed")
    if isinstance(sign, ast.Pow | ast.LShift) and isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * right if isinstance(sign, ast.Pow) else left.bit_length() + right
        if bits > MAX_BITS:
            _too_large()
    for items, count in ((left, right), (right, left)):
        repeated = isinstance(sign, ast.Mult) and isinstance(items, str | tuple | list) and isinstance(count, int)
        if repeated and len(items) * count > MAX_ITEMS:
            _too_large()


def _bounded(value: Value) -> Value:
    match value:
        case bool():
            return value
        case complex():
            raise NotConstantError("it is a complex number")
        case int() if value.bit_length() > MAX_BITS:
            return _too_large()
        case str() | tuple() | list() | dict() if _size(value) > MAX_ITEMS:
            return _too_large()
        case Constexpr(value=inner):
            _bounded(inner)
    return value


def _size(value: Value) -> int:
    """Return how many parts a value has, also those of its parts; more than `MAX_ITEMS` are not counted."""
    size, left = 0, [value]
    while left and size <= MAX_ITEMS:
        match left.pop():
            case str() as text:
                size += len(text)
            case (tuple() | list()) as items:
                size += len(items)
                left.extend(items[:MAX_ITEMS])
            case dict() as items:
                size += len(items)
                left.extend(items.values())
            case Constexpr(value=inner):
                left.append(inner)
    return size


def _too_large() -> Value:
    raise NotConstantError("its value is too large")
