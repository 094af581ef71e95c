"""Where the compiler's scopes differ from Python's: names that a branch or a loop binds."""

import ast
from collections.abc import Callable, Iterator

from warpsmith.evaluator.languages.triton.extract.values import ExtractionError

Refused = Callable[[ast.AST, str, str], ExtractionError]


def stored(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield each name that statements bind."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def read_where_unbound(function: ast.FunctionDef) -> set[str]:
    """Return the locals that are read where the compiler may know no binding of them: it takes a global's then.

    What a branch or a loop binds first is forgotten after it, except for what both branches bind.
    """
    arguments = frozenset(argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg))
    reads = _Reads(arguments | frozenset(stored(function.body)))
    reads.follow(function.body, arguments)
    return reads.unbound


class _Reads:
    def __init__(self, local: frozenset[str]) -> None:
        self.unbound: set[str] = set()
        self._local = local

    def follow(self, statements: list[ast.stmt], bound: frozenset[str]) -> frozenset[str]:
        """Follow statements, and return the names that are bound after them."""
        for statement in statements:
            bound = self._step(statement, bound)
        return bound

    def _step(self, statement: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._read(test, bound)
                return self.follow(body, bound) & self.follow(orelse, bound)
            case ast.While(test=test, body=body):
                self._read(test, bound)
                self.follow(body, bound)
                return bound
            case ast.For(target=target, iter=items, body=body):
                self._read(items, bound)
                self.follow(body, bound | frozenset(stored([ast.Expr(target)])))
                return bound
            case ast.AnnAssign(value=None):
                return bound
            case ast.AugAssign(target=ast.Name(id=name)):
                self._note(name, bound)
        self._read(statement, bound)
        return bound | frozenset(stored([statement]))

    def _read(self, node: ast.AST, bound: frozenset[str]) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                self._note(part.id, bound)

    def _note(self, name: str, bound: frozenset[str]) -> None:
        if name in self._local and name not in bound:
            self.unbound.add(name)


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
