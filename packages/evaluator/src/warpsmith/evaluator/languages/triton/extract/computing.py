"""Checks a `@triton.constexpr_function`, which the compiler and the interpreter call as Python, with constants.

It may compute with constants and call functions of its kind, `math`, `triton.cdiv` and some of Python's own: nothing of
it sees a tensor, a module or the compiler. That it is given constants alone is checked where it is called
(`kernel_set`).
"""

import ast
from dataclasses import replace
from typing import Any, Final

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.check import Checked, KernelCheck
from warpsmith.evaluator.languages.triton.extract.grammar import COMPUTING_FIELDS
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.module import Module
from warpsmith.evaluator.languages.triton.extract.values import Binding, Value, frozen

COMPUTING_BUILTINS: Final = frozenset(
    {"min", "max", "abs", "int", "float", "bool", "len", "range", "tuple", "list", "sum", "round", "any", "all"}
    | {"sorted", "divmod", "enumerate", "zip", "reversed"}
)
"""Functions of Python that such a function may call."""


METHODS: Final = frozenset({"bit_length", "bit_count", "is_integer", "startswith", "endswith", "count", "index"})
"""Methods of numbers, texts and tuples that change nothing."""


def check_computing(kernel: Kernel, module: Module) -> Checked:
    """Return such a function rebuilt from what was checked; ExtractionError where anything is refused."""
    return _ComputingCheck(kernel, module).run()


class _ComputingCheck(KernelCheck):
    """Rebuilds one function that computes constants."""

    fields = COMPUTING_FIELDS
    builtins = COMPUTING_BUILTINS
    title = "constexpr function"

    def __init__(self, kernel: Kernel, module: Module) -> None:
        super().__init__(kernel, module)
        self._built |= {ast.Raise: self._raise, ast.comprehension: self._comprehension}

    def _check_scopes(self) -> None:
        """Accept what Python accepts: the compiler does not read this function."""

    def _for(self, node: ast.For) -> ast.AST:
        body, otherwise = self._body(node.body), self._body(node.orelse) if node.orelse else []
        return ast.For(
            target=self._target(node.target),
            iter=self._copy(node.iter),
            body=body,
            orelse=otherwise,
            lineno=node.lineno,
        )

    def _while(self, node: ast.While) -> ast.AST:
        otherwise = self._body(node.orelse) if node.orelse else []
        return ast.While(test=self._copy(node.test), body=self._body(node.body), orelse=otherwise)

    def _comprehension(self, node: ast.comprehension) -> ast.AST:
        ifs = [self._copy(condition) for condition in node.ifs]
        return ast.comprehension(target=self._target(node.target), iter=self._copy(node.iter), ifs=ifs, is_async=0)

    def _raise(self, node: ast.Raise) -> ast.AST:
        """`raise E("...")` as an assertion that fails: exceptions have no names here."""
        message = node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
        text = message if isinstance(message, ast.Constant) else ast.Constant(value=ast.unparse(node)[:200])
        return ast.Assert(test=ast.Constant(value=False), msg=self._copy(ast.copy_location(text, node)))

    def _call(self, node: ast.Call) -> ast.AST:
        full = self._dotted(node.func) or ""
        if full and not (full.startswith("math.") or full in library.HELPERS):
            raise self.refused(node, f"a call of {library.shown(full)}", _CALLS)
        if isinstance(node.func, ast.Name) and not full:
            bound = None if node.func.id in self._local else self._scope.get(node.func.id)
            if node.func.id in self._local or not (bound is None or _computes(bound)):
                raise self.refused(node, f"a call of {node.func.id}", _CALLS)
        elif not full and not self._is_method(node.func):
            raise self.refused(node, f"a call of {ast.unparse(node.func)[:60]}", _CALLS)
        self._called.add(node.func)
        arguments: list[Any] = [self._copy(argument) for argument in node.args]
        return ast.Call(
            func=self._copy(node.func), args=arguments, keywords=[self._copy(keyword) for keyword in node.keywords]
        )

    @staticmethod
    def _is_method(node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in METHODS

    def _attribute(self, node: ast.Attribute) -> ast.AST:
        if node in self._called and self._is_method(node):
            return ast.Attribute(value=self._copy(node.value), attr=node.attr, ctx=ast.Load())
        return super()._attribute(node)

    @classmethod
    def _is_reported(cls, value: Value) -> bool:
        """See `KernelCheck`: what this function returns is a constant of the text."""
        return False

    def _check_value(self, name: str, bound: Binding, node: ast.Name) -> None:
        if isinstance(bound.value, Kernel) and not (bound.value.computes and node in self._called):
            raise self.refused(node, f"{name}, a function, as a value", _CALLS)
        super()._check_value(name, bound, node)

    def _global(self, node: ast.Name) -> None:
        """Note a name of the module. Of a list a tuple is made."""
        super()._global(node)
        if (bound := self._names.get(node.id)) is not None:
            self._names[node.id] = replace(bound, value=frozen(bound.value))


def _computes(bound: Binding) -> bool:
    return isinstance(bound.value, Kernel) and bound.value.computes


_CALLS: Final = (
    "A function under triton.constexpr_function may call others of its kind, math, triton.cdiv, "
    "triton.next_power_of_2 and Python's min, max, abs, len, range and the like."
)
