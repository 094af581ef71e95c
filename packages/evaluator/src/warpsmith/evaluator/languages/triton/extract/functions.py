"""Computes what a candidate's plain function returns, where a constant is made by one.

Of statements only those are followed that bind the function's own names: nothing that it is given is changed.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final, Protocol

from warpsmith.evaluator.languages.triton.extract.values import NotConstantError, Unknown, Value

UNBOUND: Final = Unknown("it is not bound there")


class Expressions(Protocol):
    """Computes expressions among the function's names, which are bound while it is followed."""

    def known(self, node: ast.expr) -> Value:
        """Return what `node` stands for; NotConstantError where that cannot be determined."""

    def holds(self, node: ast.expr) -> bool:
        """Return whether `node` holds; NotConstantError where that cannot be determined."""

    def spend(self, steps: int) -> None:
        """Count steps; NotConstantError where there are too many."""


def bound_arguments(function: ast.FunctionDef, given: list[Value], named: dict[str, Value]) -> dict[str, Any]:
    """Return what a call binds the arguments of a function to: values, and its defaults' nodes."""
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    names = [*positional, *(one.arg for one in arguments.kwonlyargs)]
    defaults: dict[str, Any] = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    defaults |= {
        one.arg: value
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }
    found = defaults | dict(zip(positional, given, strict=False)) | named
    twice = positional[: len(given)]
    taken = {*names} - {one.arg for one in arguments.posonlyargs}
    if arguments.vararg or arguments.kwarg or len(given) > len(positional) or not named.keys() <= taken - {*twice}:
        raise NotConstantError(f"the arguments of {function.name}() are not followed")
    if {*names} - found.keys() or any(
        isinstance(value, ast.expr) and not isinstance(value, ast.Constant) for value in found.values()
    ):
        raise NotConstantError(f"{function.name}() has arguments that are not given, or computed defaults")
    return found


class Body:
    """A call of a function.

    Args:
        expressions: computes them.
        function: what is called.
        local: its names, with the arguments bound; `expressions` reads them there.
    """

    def __init__(self, expressions: Expressions, function: ast.FunctionDef, local: dict[str, Value]) -> None:
        self._expressions = expressions
        self._function = function
        self._local = local
        self._returned: Value = None

    def value(self) -> Value:
        """Return what the function returns."""
        for name in _bound_in(self._function):
            self._local.setdefault(name, UNBOUND)
        self._follow(self._function.body)
        return self._returned

    def _follow(self, statements: list[ast.stmt]) -> bool:
        """Follow statements until one returns, and say whether one did."""
        return any(map(self._step, statements))

    def _step(self, statement: ast.stmt) -> bool:
        self._expressions.spend(1)
        match statement:
            case ast.Return(value=value):
                self._returned = None if value is None else self._expressions.known(value)
                return True
            case ast.If(test=test, body=body, orelse=orelse):
                return self._follow(body if self._expressions.holds(test) else orelse)
            case ast.For(orelse=[]):
                return self._for(statement)
            case ast.While(orelse=[]):
                return self._while(statement)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                self._assign(statement)
        return False

    def _while(self, statement: ast.While) -> bool:
        while self._expressions.holds(statement.test):
            if self._follow(statement.body):
                return True
        return False

    def _for(self, statement: ast.For) -> bool:
        items = self._expressions.known(statement.iter)
        if not isinstance(items, tuple | list | str):
            raise NotConstantError("a loop over this is not computed")
        for item in items:
            self._bind(statement.target, item)
            if self._follow(statement.body):
                return True
        return False

    def _assign(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self._expressions.known(value)
                for target in targets:
                    self._bind(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._expressions.known(value))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                old = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), statement)
                if isinstance(self._expressions.known(old), list | dict):
                    raise NotConstantError(f"{name} is changed in place")
                made = ast.copy_location(ast.BinOp(left=old, op=op, right=value), statement)
                self._bind(target, self._expressions.known(made))
            case _:
                raise NotConstantError(f"a {type(statement).__name__} statement in {self._function.name}()")

    def _bind(self, target: ast.expr, value: Value) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._local[name] = value
            case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), (tuple() | list())) if len(parts) == len(value):
                for part, item in zip(parts, value, strict=True):
                    self._bind(part, item)
            case _:
                raise NotConstantError(f"an assignment to a part in {self._function.name}()")


def _bound_in(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function binds: Python takes each for its own, wherever it stands."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
