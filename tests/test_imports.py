"""Imports between modules: no circle in any package. What is imported inside a function or for types alone is left out.

A circle makes it a matter of luck which module can be imported first, and none of its modules can be understood or
tested without the others.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("records", "policy", "evaluator", "rollout", "trainer")

Graph = Mapping[str, set[str]]


def is_for_types_alone(node: ast.stmt) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`."""
    if not isinstance(node, ast.If):
        return False
    name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", None)
    return name == "TYPE_CHECKING"


def executed_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif is_for_types_alone(node):
            yield from executed_imports(node.orelse)  # type: ignore[attr-defined]
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from executed_imports(getattr(node, name, None) or [])
            for handler in getattr(node, "handlers", None) or []:
                yield from executed_imports(handler.body)


def imported(node: ast.Import | ast.ImportFrom, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Return the modules that a statement names. `from a import b` names `a.b` where that is one, else `a`."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parts, *([base] if base else [])])
    return {full if (full := f"{base}.{alias.name}") in known else base for alias in node.names}


def import_graph(source: Path) -> dict[str, set[str]]:
    """Return which modules of a source tree import which others, by their dotted names.

    To import `a.b.c` runs `a.b` first, so a module depends on the packages above what it imports too, except for those
    that it stands in itself: they are being imported already.
    """
    files = {path: ".".join(path.relative_to(source).with_suffix("").parts) for path in sorted(source.rglob("*.py"))}
    modules = {path: name.removesuffix(".__init__") for path, name in files.items()}
    known = set(modules.values())
    graph: dict[str, set[str]] = {}
    for path, module in modules.items():
        above = {module.rsplit(".", depth)[0] for depth in range(module.count(".") + 1)}
        found: set[str] = set()
        for node in executed_imports(ast.parse(path.read_text()).body):
            for name in imported(node, module, path.name == "__init__.py", known):
                parents = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
                found |= ({name} | (parents - above)) & known
        graph[module] = found - {module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that import one another, directly or through others (Tarjan, 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_one_another(package):
    graph = import_graph(ROOT / "packages" / package / "src")
    assert len(graph) > 5
    assert circles(graph) == []


def test_a_circle_is_found_however_it_is_closed(tmp_path):
    files = {
        "a/__init__.py": "",
        "a/one.py": "from a.b import two",
        "a/b/__init__.py": "from a.b.three import x",
        "a/b/two.py": "try:\n    import a.one\nexcept ImportError:\n    pass",
        "a/b/three.py": "from .two import y",
        "a/lazy.py": "def f():\n    from a import one",
        "a/types.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import user",
        "a/user.py": "from a import lazy, one, types",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(import_graph(tmp_path)) == [["a.b", "a.b.three", "a.b.two", "a.one"]]
