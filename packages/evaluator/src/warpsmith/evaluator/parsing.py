"""Parsing Python from several threads."""

import ast
import threading
from typing import Final, Literal, overload

_ATTEMPTS: Final = 100
_ONE_AT_A_TIME: Final = threading.Lock()


@overload
def parse(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...


def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.Module | ast.Expression:
    """Return the syntax tree of `source`, as `ast.parse` does; from any thread.

    CPython 3.11.7 counts the depth of a tree that it builds in one place for all threads (later versions do not). A
    garbage collection that lets another thread parse meanwhile ends in a SystemError, of a sound source. Here parsing
    is done one at a time; where another library's parsing interferes, it is repeated.

    Args:
        mode: `eval` for a single expression.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse`.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _parse(source, mode)
        except SystemError:
            continue
    return _parse(source, mode)


def _parse(source: str, mode: Literal["exec", "eval"]) -> ast.Module | ast.Expression:
    with _ONE_AT_A_TIME:
        tree = ast.parse(source, mode=mode)
    assert isinstance(tree, ast.Module | ast.Expression)
    return tree
