"""Which of many candidates a run judges: the fewest that use between them every construct that any of them uses."""

import ast

LIBRARIES = frozenset({"tl", "triton", "libdevice", "torch", "nn", "F", "math"})
"""Modules whose functions, types and modules count as constructs, by the names that candidates give them."""


def constructs(source: str) -> set[str]:
    """Return what a source is written in: kinds of syntax, and names of `LIBRARIES`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        found.add(type(node).__name__)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in LIBRARIES:
            found.add(f"{node.value.id}.{node.attr}")
    return found


def covering(sources: dict[str, str]) -> set[str]:
    """Return the names of few sources that have each construct of all: what is new is therefore among them.

    The next one is always the one with the most constructs that are still missing, by name where several have as many.
    """
    rest = {name: constructs(source) for name, source in sorted(sources.items())}
    missing, chosen = set().union(*rest.values()), set()
    while missing:
        name = max(rest, key=lambda name: len(rest[name] & missing))
        missing -= rest.pop(name)
        chosen.add(name)
    return chosen
