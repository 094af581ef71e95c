"""Writes checked kernels and the names that they reach as the source that is compiled and interpreted.

Every statement is written from its checked nodes, and begins on the line where it begins in the candidate's source, so
that a message of the compiler or the interpreter names the candidate's own lines.
"""

import ast
import math
from collections.abc import Sequence
from typing import Final

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.check import LANGUAGE_NAME, Checked, field_name
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.values import (
    RESERVED_PREFIX,
    Binding,
    Constexpr,
    ExtractionError,
    Library,
    Record,
    Value,
)
from warpsmith.evaluator.parsing import parse

JIT_NAME: Final = f"{RESERVED_PREFIX}_jit"
COMPUTE_NAME: Final = f"{RESERVED_PREFIX}_compute"
RECORD_NAME: Final = f"{RESERVED_PREFIX}_record"
INDENT: Final = "    "


def render(kernels: Sequence[Checked]) -> str:
    """Return the source of checked kernels; ExtractionError where it would not read as what was checked."""
    names = {name: bound for checked in kernels for name, bound in checked.names.items()}
    made = [statement for checked in kernels for statement in _definition(checked)]
    bindings = [_binding(name, bound) for name, bound in names.items() if not _is_definition(name, bound.value)]
    ordered = sorted([*made, *bindings], key=lambda statement: statement.lineno)
    page = _Page()
    page.block(ordered, 0)
    _check_reads_back(page.text(), ordered)
    return page.text()


def _is_definition(name: str, value: Value) -> bool:
    return isinstance(value, Kernel) and value.text_name == name


def _definition(checked: Checked) -> list[ast.stmt]:
    """Return a kernel's definition, and the call that makes a kernel of it where no decorator does."""
    function, kernel = checked.definition, checked.kernel
    function.args.defaults = [
        value_node(checked.defaults[argument.arg])
        for argument in function.args.args
        if argument.arg in checked.defaults
    ]
    options = [ast.keyword(arg=name, value=value_node(value)) for name, value in kernel.options.items()]
    jit = ast.Name(id=COMPUTE_NAME if kernel.computes else JIT_NAME, ctx=ast.Load())
    if not kernel.made_in:
        function.decorator_list = [ast.Call(func=jit, args=[], keywords=options) if options else jit]
        return [function]
    plain = ast.Name(id=kernel.text_name, ctx=ast.Load())
    called = ast.Call(func=jit, args=[plain], keywords=options)
    target = ast.Name(id=kernel.text_name, ctx=ast.Store())
    return [function, ast.Assign(targets=[target], value=called, lineno=kernel.made_in)]


def _binding(name: str, bound: Binding) -> ast.stmt:
    """Return the statement that binds a name of the module to the value that was computed for it."""
    if isinstance(bound.value, Library):
        statement = _import(name, bound.value.name)
    else:
        statement = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value_node(bound.value))
    statement.lineno = bound.line
    return statement


def _import(name: str, full: str) -> ast.stmt:
    module, rest = library.split(full)
    if not rest:
        return ast.Import(names=[_alias(module, name)])
    if len(rest) == 1:
        return ast.ImportFrom(module=module, names=[_alias(rest[0], name)], level=0)
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=_member(full))


def _alias(name: str, bound: str) -> ast.alias:
    return ast.alias(name=name, asname=None if name == bound else bound)


def value_node(value: Value) -> ast.expr:
    """Return the expression that gives a computed value."""
    match value:
        case Constexpr() | Record():
            return _called(value)
        case Library(name=name):
            number = library.number(name)
            return _member(name) if number is None else _number(number)
        case Kernel():
            return ast.Name(id=value.text_name, ctx=ast.Load())
        case tuple() | list():
            kind = ast.Tuple if isinstance(value, tuple) else ast.List
            return kind(elts=[value_node(item) for item in value], ctx=ast.Load())
        case bool() | None | str():
            return ast.Constant(value=value)
        case int() | float():
            return _number(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not a value of a kernel")


def _called(value: Constexpr | Record) -> ast.expr:
    """Return the call that makes a value."""
    if isinstance(value, Constexpr):
        return ast.Call(func=_member(library.CONSTEXPR), args=[value_node(value.value)], keywords=[])
    made = [value_node(value.name), value_node(tuple(map(field_name, value.fields))), value_node(value.defaults)]
    return ast.Call(func=ast.Name(id=RECORD_NAME, ctx=ast.Load()), args=made, keywords=[])


def _number(value: float) -> ast.expr:
    if math.isnan(value):
        return ast.Call(func=ast.Name(id="float", ctx=ast.Load()), args=[ast.Constant(value="nan")], keywords=[])
    if math.copysign(1, value) < 0:
        return ast.UnaryOp(op=ast.USub(), operand=_number(-value))
    if math.isinf(value):
        return ast.Call(func=ast.Name(id="float", ctx=ast.Load()), args=[ast.Constant(value="inf")], keywords=[])
    return ast.Constant(value=value)


def _member(full: str) -> ast.expr:
    """Return the path to a member of the language, from the name provided by the code that executes the source."""
    node: ast.expr = ast.Name(id=LANGUAGE_NAME, ctx=ast.Load())
    for part in full.removeprefix(f"{library.LANGUAGE}.").split("."):
        node = ast.Attribute(value=node, attr=part, ctx=ast.Load())
    return node


class _Page:
    """Lines of text on which statements are put at the numbers that they carry."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the page."""
        return "\n".join(self._lines) + "\n"

    def block(self, statements: Sequence[ast.stmt], depth: int, *, header: bool = False) -> None:
        """Put statements one after another; the first may follow a header on its line, and each another."""
        joins = header
        for statement in statements:
            joins = self._put(statement, depth, joins=joins, header=header and statement is statements[0])

    def _put(self, statement: ast.stmt, depth: int, *, joins: bool, header: bool) -> bool:
        """Put one statement, and return whether another may follow on its line."""
        match statement:
            case ast.FunctionDef(body=body):
                self._function(statement, depth)
                self.block(body, depth + 1, header=True)
            case ast.If():
                self._if(statement, depth, "if")
            case ast.For(target=target, iter=items, body=body):
                self._header(f"for {ast.unparse(target)} in {ast.unparse(items)}:", statement.lineno, depth)
                self.block(body, depth + 1, header=True)
            case ast.While(test=test, body=body):
                self._header(f"while {ast.unparse(test)}:", statement.lineno, depth)
                self.block(body, depth + 1, header=True)
            case _:
                self._simple(ast.unparse(statement), statement.lineno, depth, joins=joins, header=header)
                return True
        return False

    def _simple(self, text: str, line: int, depth: int, *, joins: bool, header: bool) -> None:
        if joins and line <= len(self._lines):
            self._lines[-1] += f" {text}" if header else f"; {text}"
        else:
            self._header(text, line, depth)

    def _header(self, text: str, line: int, depth: int) -> None:
        self._lines.extend([""] * (line - 1 - len(self._lines)))
        self._lines.append(INDENT * depth + text)

    def _function(self, statement: ast.FunctionDef, depth: int) -> None:
        for decorator in statement.decorator_list:
            self._header(f"@{ast.unparse(decorator)}", statement.lineno - 1, depth)
        self._header(f"def {statement.name}({ast.unparse(statement.args)}):", statement.lineno, depth)

    def _if(self, statement: ast.If, depth: int, word: str) -> None:
        self._header(f"{word} {ast.unparse(statement.test)}:", statement.lineno, depth)
        self.block(statement.body, depth + 1, header=True)
        match statement.orelse:
            case []:
                return
            case [ast.If(lineno=line) as inner] if line > len(self._lines):
                self._if(inner, depth, "elif")
            case [first, *_]:
                self._header("else:", max(first.lineno - 1, len(self._lines) + 1), depth)
                self.block(statement.orelse, depth + 1, header=True)


def _check_reads_back(text: str, statements: Sequence[ast.stmt]) -> None:
    """Raise unless the text parses to exactly the statements that were built, each on its line."""
    found = parse(text).body
    for statement, other in zip(statements, found, strict=True):
        if ast.dump(statement) != ast.dump(other) or _lines(statement) != _lines(other):
            raise ExtractionError(
                f"`{ast.unparse(statement)[:60]}` cannot be written as it is meant.",
                "Write it in a simpler way.",
                statement.lineno,
            )


def _lines(statement: ast.stmt) -> list[int]:
    return [node.lineno for node in ast.walk(statement) if isinstance(node, ast.stmt)]
