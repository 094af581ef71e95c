"""Inductor's own kernels, which the output of `torch.compile` calls: `triton_helpers.maximum` and the like.

Their text is that of the installed torch. A kernel of the candidate that calls one gets it as if the file defined it:
checked, rendered behind the candidate's own lines, compiled and interpreted as all others are.
"""

import ast
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warpsmith.evaluator.languages.triton.extract import library
from warpsmith.evaluator.languages.triton.extract.constants import Evaluator
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.module import Module
from warpsmith.evaluator.languages.triton.extract.values import Binding, Environment, Foreign, Library
from warpsmith.evaluator.parsing import parse

PREFIX: Final = "inductor_"
_LANGUAGE_NAME: Final = f"{PREFIX}tl"
_PATHS: Final = {"tl": (), "math": ("math",), "libdevice": ("extra", "libdevice")}
"""What torch's module has under a name of its own, as a path from `triton.language`."""
_INSTEAD: Final = """
@triton.jit
def is_floating(x):
    return (x + tl.full([], 0, tl.int1)).dtype.is_floating()
"""
"""Kernels that are not torch's: its `is_floating` makes a block of a scalar, and within a reduction the interpreter has
many scalars in one."""


@functools.lru_cache(maxsize=1)
def _definitions() -> dict[str, ast.FunctionDef]:
    """Return the kernels of torch's module by name, with names of their own for everything that they reach."""
    folder, _, name = library.INDUCTOR.rpartition(".")
    places = [Path(place) / f"{name}.py" for place in library.package_folders(folder) or ()]
    text = next((place.read_text(encoding="utf-8") for place in places if place.is_file()), "")
    parts = [*parse(text).body, *parse(_INSTEAD).body] if text else []
    found = {one.name: one for one in parts if isinstance(one, ast.FunctionDef) and _is_kernel(one)}
    renamed = _Renamed(set(found))
    return {name: renamed.visit(one) for name, one in found.items()}


def _is_kernel(function: ast.FunctionDef) -> bool:
    return [ast.unparse(one) for one in function.decorator_list] == [library.JIT]


class _Renamed(ast.NodeTransformer):
    """Gives what a kernel of torch's module reaches the names that it has in the rendered source."""

    def __init__(self, kernels: set[str]) -> None:
        self._kernels = kernels

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = PREFIX + node.name
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._kernels:
            return ast.copy_location(ast.Name(id=PREFIX + node.id, ctx=node.ctx), node)
        if node.id not in _PATHS:
            return node
        path: ast.expr = ast.copy_location(ast.Name(id=_LANGUAGE_NAME, ctx=ast.Load()), node)
        for part in _PATHS[node.id]:
            path = ast.copy_location(ast.Attribute(value=path, attr=part, ctx=ast.Load()), node)
        return path


def add_helpers(module: Module, tree: ast.Module) -> None:
    """Add torch's kernels that a candidate's file names to its kernels, and bind its names for them."""
    imported = {name: helper for name, bound in module.names.items() if (helper := _helper(bound.value))}
    named = {*imported.values(), *_named(module, tree)}
    # Few files name any. Each worker is a process of its own, and would parse torch's module again.
    wanted = named & _definitions().keys() if named else named
    if not wanted:
        return
    start = max(getattr(node, "end_lineno", None) or 0 for node in ast.walk(tree)) + 1
    kernels = _kernels(_reached(wanted), start)
    if {kernel.name for kernel in kernels.values()} & {*module.names, *module.kernels}:
        # The file has such a name for something else: its kernels that call torch's are refused.
        return
    end = max(kernel.node.end_lineno or 0 for kernel in kernels.values()) + 1
    for kernel in kernels.values():
        module.kernels[kernel.name] = [kernel]
        module.inductor[kernel.name.removeprefix(PREFIX)] = kernel
    for name, helper in imported.items():
        if helper in wanted:
            module.names[name] = Binding(module.inductor[helper], end)


def _helper(value: object) -> str:
    """Return the name of a member of torch's module that a value is; an empty string for anything else."""
    inside = isinstance(value, Foreign) and value.name.startswith(f"{library.INDUCTOR}.")
    return value.name.rpartition(".")[2] if inside and isinstance(value, Foreign) else ""


def _named(module: Module, tree: ast.Module) -> Iterator[str]:
    """Yield what a file names as a member of torch's module: `triton_helpers.maximum`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and Evaluator(module.names).value(node.value) == Foreign(library.INDUCTOR):
            yield node.attr


def _reached(wanted: set[str]) -> list[str]:
    """Return kernels with all those that they call, in the order of torch's file."""
    found, left = set[str](), list(wanted)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            parts = (node for node in ast.walk(_definitions()[name]) if isinstance(node, ast.Name))
            left += [part.id.removeprefix(PREFIX) for part in parts if part.id.startswith(PREFIX)]
            left = [one for one in left if one in _definitions()]
    return [name for name in _definitions() if name in found]


def _kernels(names: list[str], start: int) -> dict[str, Kernel]:
    """Return kernels whose lines begin behind `start`."""
    language = Binding(Library(library.LANGUAGE), start)
    around: Environment = {_LANGUAGE_NAME: language}
    kernels: dict[str, Kernel] = {}
    for name in names:
        node = ast.increment_lineno(copy.deepcopy(_definitions()[name]), start)
        node.decorator_list = []
        positional, evaluator = [*node.args.posonlyargs, *node.args.args], Evaluator(around)
        given = zip(reversed(positional), reversed(node.args.defaults), strict=False)
        defaults = {argument.arg: evaluator.value(default) for argument, default in given}
        kernels[name] = Kernel(node, {}, defaults, around=around)
        around[node.name] = Binding(kernels[name], node.lineno)
    return kernels
