"""Which names of a module hold tables that something may change after they are written.

A list or a dict is what its literal says only while it is read. Whoever calls a method of it that changes it, gives it
another name, passes it on or assigns to a part of it may change it, wherever that is written.
"""

import ast
from collections.abc import Iterator
from typing import Final

_READERS: Final = frozenset({"items", "keys", "values", "get", "index", "count", "copy"})
"""Methods of lists and dicts that change nothing."""
_READING_CALLS: Final = frozenset(
    {"len", "tuple", "list", "dict", "set", "frozenset", "sorted", "reversed", "min", "max", "sum", "any", "all"}
    | {"range", "zip", "enumerate", "print", "str", "repr", "isinstance", "iter", "next"}
)
"""Built-in functions that change no argument."""
_KERNEL_DECORATORS: Final = frozenset({"jit", "constexpr_function"})
_READING_NODES: Final = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.IfExp,
    ast.If,
    ast.While,
    ast.For,
    ast.comprehension,
    ast.FormattedValue,
    ast.Subscript,
    ast.Slice,
    ast.Assert,
    ast.Expr,
)


def exposed_names(tree: ast.Module) -> frozenset[str]:
    """Return the names with a use that may change what they hold."""
    uses = _Uses(tree)
    names = (node for node in _outside_kernels(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return frozenset(node.id for node in names if uses.expose(node))


def names_bound_within(node: ast.AST) -> Iterator[str]:
    """Yield the names that `:=` binds in an expression or statement, but for those inside functions."""
    if isinstance(node, ast.NamedExpr):
        yield node.target.id
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from names_bound_within(child)


def _outside_kernels(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module but for the bodies of kernels, whose statements are checked one by one."""
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

    def expose(self, name: ast.Name) -> bool:
        """Whether this use of a name may change what it holds, in a way that is not followed line by line."""
        part: ast.AST = name
        while isinstance(above := self._parents[part], ast.Subscript) and above.value is part:
            if not isinstance(above.ctx, ast.Load):
                return id(above) not in self._in_order
            part = above
        match above:
            case ast.Attribute(attr=attribute):
                return self._is_called(above) and attribute not in _READERS
            case ast.Call() | ast.keyword() | ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.Return():
                # A part is mostly a number, which has no other name by which it could change.
                return part is name and not self._only_reads(above)
            case _:
                return part is name and not isinstance(above, _READING_NODES)

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
