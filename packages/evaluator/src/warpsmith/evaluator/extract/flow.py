"""Where the compiler's scopes differ from Python's: names that a branch or a loop binds."""

import ast
from collections.abc import Callable, Iterator

from warpsmith.evaluator.extract.values import ExtractionError

Refused = Callable[[ast.AST, str, str], ExtractionError]


def stored(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield each name that statements bind."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def names_bound_on_some_paths(function: ast.FunctionDef) -> set[str]:
    """Return the names that are first bound inside a branch or a loop: after it the compiler forgets them again."""
    known = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    found: set[str] = set()
    for statement in function.body:
        names = set(stored([statement]))
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            known |= names
        else:
            found |= names - known
    return found


class LoopIndices:
    """Refuses to read the index of a loop after the loop: Python has its last value, the compiler has none.

    Args:
        is_static: tells a loop that the compiler unrolls, whose index stays.
        refused: makes the error.
    """

    def __init__(self, is_static: Callable[[ast.expr], bool], refused: Refused) -> None:
        self._is_static = is_static
        self._refused = refused

    def check(self, statements: list[ast.stmt], ended: frozenset[str] = frozenset()) -> frozenset[str]:
        """Follow statements, and return the indices of loops that have ended, of those that nothing bound since."""
        for statement in statements:
            ended = self._step(statement, ended)
        return ended

    def _step(self, statement: ast.stmt, ended: frozenset[str]) -> frozenset[str]:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._read(test, ended)
                return self.check(body, ended) | self.check(orelse, ended)
            case ast.While(test=test, body=body):
                self._read(test, ended)
                again = self.check(body, ended)
                self._read(test, again)
                return ended | self.check(body, ended | again)
            case ast.For(target=target, iter=items, body=body):
                self._read(items, ended)
                index = frozenset(stored([ast.Expr(target)]))
                again = self.check(body, ended - index)
                after = ended | self.check(body, (ended | again) - index)
                return after - index if self._is_static(items) else after | index
            case _:
                self._read(statement, ended)
                return ended - frozenset(stored([statement]))

    def _read(self, node: ast.AST, ended: frozenset[str]) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in ended:
                raise self._refused(
                    part,
                    f"{part.id}, the index of a loop, after the loop",
                    "Keep what you need of it in a variable that is bound before the loop.",
                )
            if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name) and part.target.id in ended:
                self._read(ast.copy_location(ast.Name(id=part.target.id, ctx=ast.Load()), part), ended)
