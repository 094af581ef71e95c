"""A module's code without the parts that do not affect its results: names, docstrings, annotations, imports, comments.

Two forms: with constants, to find duplicate problems or kernels, and without, to find a problem with other sizes.
"""

import ast
import builtins
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from warpsmith.evaluator.parsing import parse
from warpsmith.records.errors import UsageError

_BUILTINS: Final = frozenset(dir(builtins))
_INPUTS: Final = ("get_inputs", "get_init_inputs")
_KEPT_METHODS: Final = frozenset({"forward"})
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE: Final = re.compile(r"\s+")
_LONG: Final = 200
"""Text constants longer than this are code in another language, whose comments and spaces do not count."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


def normal_form(source: str, roots: Sequence[str], *, constants: bool) -> str:
    """Return a digest of what a module's definitions `roots` compute, 32 hexadecimal digits.

    The module's own definitions that they use are included; unused ones are not.

    Args:
        source: the module's source.
        roots: names of definitions, in the order in which they count; missing ones are left out.
        constants: whether numbers and texts count.

    Raises:
        UsageError: the source is not Python.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"The code is not Python: {error}.", "Fix it, or leave the row out.") from error
    module = _Module(tree)
    namer = _Namer(module, constants=constants)
    # All are found first: dumping a definition changes its names.
    parts = [namer.dump(definition) for definition in list(module.reachable(roots))]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def problem_form(source: str) -> str:
    """Return the form of a problem regardless of sizes and other constants: the digest of `Model` alone."""
    return normal_form(source, ["Model"], constants=False)


def exact_problem_form(source: str) -> str:
    """Return the form of a problem with its constants and inputs."""
    return normal_form(source, ["Model", *_INPUTS], constants=True)


def kernel_form(source: str) -> str:
    """Return the form of a candidate with its constants."""
    return normal_form(source, ["ModelNew"], constants=True)


class _Module:
    """The definitions of a module by name, and the full names of what it imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, list[Definition]] = {}
        for node in tree.body:
            self._take(node)
        self.attributes = frozenset(_own_attributes(tree))

    def _take(self, node: ast.stmt) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self.imports[bound] = alias.name if alias.asname else bound
            case ast.ImportFrom():
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                self.definitions.setdefault(node.name, []).append(node)
            case ast.Assign() | ast.AnnAssign():
                for name in _bound(node):
                    self.definitions.setdefault(name, []).append(node)
            case _:
                # Expressions, conditions and loops of a module bind nothing that problems rely on.
                return

    def reachable(self, roots: Sequence[str]) -> Iterator[Definition]:
        """Yield the definitions of the roots and of all that they use, each once, in the order of first use."""
        waiting, seen = list(reversed(roots)), set(roots)
        done: set[int] = set()
        while waiting:
            for definition in self.definitions.get(waiting.pop(), ()):
                if id(definition) in done:
                    continue
                done.add(id(definition))
                yield definition
                used = [node.id for node in ast.walk(definition) if isinstance(node, ast.Name)]
                new = [name for name in dict.fromkeys(used) if name in self.definitions and name not in seen]
                seen.update(new)
                waiting += reversed(new)


def _bound(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))


def _own_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of attributes that the module sets on `self`, and of its own methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from (one.name for one in node.body if isinstance(one, ast.FunctionDef) and _is_named_freely(one))


def _is_named_freely(method: ast.FunctionDef) -> bool:
    return not method.name.startswith("__") and method.name not in _KEPT_METHODS


class _Namer(ast.NodeTransformer):
    """Numbers the module's own names in the order of first use, and drops what does not compute."""

    def __init__(self, module: _Module, *, constants: bool) -> None:
        self._module, self._constants = module, constants
        self._names: dict[str, str] = {}
        self._scopes: list[tuple[int, frozenset[str]]] = []
        self._functions = 0

    def dump(self, definition: Definition) -> str:
        """Return a definition's tree as text; the definition is changed."""
        return ast.dump(self.visit(definition), annotate_fields=False)

    def _named(self, name: str, kind: str = "v") -> str:
        return self._names.setdefault(f"{kind} {name}", f"{kind}{len(self._names)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Return the full name of what is imported, a number for what is the module's own."""
        if (local := self._local(node.id)) is not None:
            return ast.Name(local, ast.Load())
        if full := self._module.imports.get(node.id):
            return ast.Name(full, ast.Load())
        if node.id in _BUILTINS and node.id not in self._module.definitions:
            return ast.Name(node.id, ast.Load())
        return ast.Name(self._named(node.id), ast.Load())

    def _local(self, name: str) -> str | None:
        """Return the number of a name in the innermost function that binds it; equal names in two functions differ."""
        for function, bound in reversed(self._scopes):
            if name in bound:
                return self._named(f"{function} {name}")
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Return a dotted name as one, and the module's own attributes as numbers."""
        value = self.visit(node.value)
        if isinstance(value, ast.Name) and not isinstance(value.ctx, ast.Store) and self._is_imported(node.value):
            return ast.Name(f"{value.id}.{node.attr}", ast.Load())
        attr = self._named(node.attr, "a") if node.attr in self._module.attributes else node.attr
        return ast.Attribute(value, attr, ast.Load())

    def _is_imported(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and self._local(node.id) is None and node.id in self._module.imports

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return `super()` for the older `super(Model, self)`, and own keywords as numbers."""
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return ast.Call(ast.Name("super", ast.Load()), [], [])
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Return the constant, or a placeholder of its kind."""
        value = node.value
        if isinstance(value, str) and len(value) > _LONG:
            value = _SPACE.sub(" ", _COMMENT.sub(" ", value)).strip()
        elif not self._constants and isinstance(value, int | float | complex) and not isinstance(value, bool):
            value = 0
        return ast.Constant(value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Return -1 as one constant where constants do not count."""
        self.generic_visit(node)
        if not self._constants and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node.operand
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Return a parameter without its annotation."""
        return ast.arg(self._local(node.arg) or self._named(node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Return an annotated assignment as a plain one."""
        value = self.visit(node.value) if node.value else ast.Constant(None)
        return ast.Assign([self.visit(node.target)], value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Return a function without annotations and docstring; forward and special methods keep their names."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """As for functions."""
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        own = node.name in self._module.attributes
        special = node.name.startswith("__") or node.name in _KEPT_METHODS
        node.name = node.name if special else self._named(node.name, "a" if own else "v")
        node.returns, node.type_comment = None, None
        node.body = _without_docstring(node.body)
        self._functions += 1
        self._scopes.append((self._functions, _bound_in(node)))
        self.generic_visit(node)
        self._scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Return a class without docstring."""
        node.name = self._named(node.name)
        node.body = _without_docstring(node.body)
        self.generic_visit(node)
        return node


def _bound_in(function: ast.AST) -> frozenset[str]:
    """Return the names that a function binds: its parameters, and what it or a function in it assigns."""
    found = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    found |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(found)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    kept = [
        node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]  # fmt: skip
    return kept or [ast.Pass()]
