"""Which decorators of a module's own may make kernels: those whose text leads to `triton.jit`.

Such a decorator may be a function, what a function returned, a partial of one, a method or a class. What it does is
never worked out. Only a launch shows that it made a kernel, and then the function that it decorates is judged by its
text, as any kernel is.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator

from warpsmith.evaluator.languages.triton.extract import library


class OwnDecorators:
    """The names that a module binds, wherever it does, with the statements that bind them."""

    def __init__(self, tree: ast.Module) -> None:
        self._binding: dict[str, list[ast.AST]] = defaultdict(list)
        for node in ast.walk(tree):
            for name in _bound_by(node):
                self._binding[name].append(node)

    def lead_to_jit(self, decorator: ast.expr, full_name: Callable[[ast.expr], str]) -> bool:
        """Whether a decorator, or what the module binds to a name that it reads, reads `triton.jit`.

        Args:
            decorator: as it is written above a function.
            full_name: returns the dotted name of what an expression imports.
        """
        seen: set[str] = set()
        left: list[ast.AST] = [decorator]
        while left:
            for part in _read_in(left.pop()):
                if full_name(part) == library.JIT:
                    return True
                # A method is reached by its name, whatever object has it.
                name = part.id if isinstance(part, ast.Name) else part.attr
                if name not in seen:
                    seen.add(name)
                    left += self._binding.get(name, [])
        return False


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition or an assignment binds, without imports: those are known by what they name."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _stored_in(target)
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            yield from _stored_in(target)


def _stored_in(target: ast.expr) -> Iterator[str]:
    for part in ast.walk(target):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield part.attr


def _read_in(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names that a node reads, except in decorators: those make kernels of other functions."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node
    kept = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    for child in ast.iter_child_nodes(node):
        if child not in kept:
            yield from _read_in(child)
