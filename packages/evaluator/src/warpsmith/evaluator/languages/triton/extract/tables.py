"""Which names of a module hold tables that something may change after they are written.

A list or a dict is what its literal says only while it is read. Whoever calls a method of it that changes it, gives it
another name, passes it on or assigns to a part of it may change it, wherever that is written. A table in a table is
passed on too by code that walks the outer one.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final

_READERS: Final = frozenset({"index", "count", "keys"})
"""Methods of lists and dicts that change nothing."""
_HANDING_ON: Final = frozenset({"items", "values", "get", "copy"})
"""Those that give the parts to their caller."""
_READING_CALLS: Final = frozenset(
    {"len", "tuple", "list", "dict", "set", "frozenset", "sorted", "reversed", "min", "max", "sum", "any", "all"}
    | {"range", "zip", "enumerate", "print", "str", "repr", "isinstance", "iter", "next"}
)
"""Built-in functions that change no argument; some give its parts to their caller."""
_KERNEL_DECORATORS: Final = frozenset({"jit", "constexpr_function"})
_GOING_THROUGH: Final = (ast.For, ast.comprehension, ast.BinOp)
_READING_NODES: Final = (
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.IfExp,
    ast.If,
    ast.While,
    ast.FormattedValue,
    ast.Subscript,
    ast.Slice,
    ast.Assert,
    ast.Expr,
)


def depth(value: Any) -> int:
    """Return how many tables lie in each other: 0 for a number, 1 for a list or a dict of numbers."""
    if not isinstance(value, list | tuple | dict):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


def exposed_depths(tree: ast.Module) -> dict[str, int]:
    """Return, by name, the least depth at which a use may change what the name holds: 0 for the table itself."""
    uses, found = _Uses(tree), dict[str, int]()
    for node in _outside_kernels(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            exposed = uses.exposed_depth(node)
            if exposed is not None:
                found[node.id] = min(exposed, found.get(node.id, exposed))
    return found


def names_bound_within(node: ast.AST) -> Iterator[str]:
    """Yield the names that `:=` binds in an expression or statement, except for those inside functions."""
    if isinstance(node, ast.NamedExpr):
        yield node.target.id
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from names_bound_within(child)


def _outside_kernels(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module except for the bodies of kernels, whose statements are checked one by one."""
    yield node
    checked = isinstance(node, ast.FunctionDef) and any(map(_makes_a_kernel, node.decorator_list))
    for child in ast.iter_child_nodes(node):
        if not checked or child not in node.body:  # type: ignore[attr-defined]
            yield from _outside_kernels(child)


def _makes_a_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in _KERNEL_DECORATORS


class _Uses:
    """What is done with each name of a module."""

    def __init__(self, tree: ast.Module) -> None:
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
        aliases = (alias for node in imports for alias in node.names)
        self._modules = {alias.asname or alias.name.partition(".")[0] for alias in aliases}
        self._in_order = {id(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}

    def exposed_depth(self, name: ast.Name) -> int | None:
        """Return the depth from which on this use may change what a name holds, unless it is followed in order."""
        part: ast.AST = name
        below = 0
        while isinstance(above := self._parents[part], ast.Subscript) and above.value is part:
            if not isinstance(above.ctx, ast.Load):
                return None if id(above) in self._in_order else below
            part, below = above, below + 1
        match above:
            case ast.Attribute(attr=attribute):
                if not self._is_called(above) or attribute in _READERS:
                    return None
                return below + (attribute in _HANDING_ON)
            case ast.Call() | ast.keyword() if self._only_reads(above):
                return below + 1
            case _ if isinstance(above, _GOING_THROUGH):
                return below + 1
            case _:
                return None if isinstance(above, _READING_NODES) else below

    def _is_called(self, node: ast.AST) -> bool:
        call = self._parents[node]
        return isinstance(call, ast.Call) and call.func is node

    def _only_reads(self, node: ast.AST) -> bool:
        """Whether a call is of a built-in function that reads, or of a library's."""
        call = self._parents[node] if isinstance(node, ast.keyword) else node
        called = call.func if isinstance(call, ast.Call) else None
        if isinstance(called, ast.Name):
            return called.id in _READING_CALLS or called.id in self._modules
        while isinstance(called, ast.Attribute):
            called = called.value
        return isinstance(called, ast.Name) and called.id in self._modules
