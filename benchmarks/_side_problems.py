"""The problems of `side_by_side.py`: sizes for a short run on a GPU and for a CPU, and how constants are replaced.

The problems themselves come from a checkout of KernelBench. `cut` keeps an input at 64 million numbers at most, since
KernelBench's evaluator draws each set of inputs on the host; problems without an entry run at full size. `small` is
what Triton's interpreter can run.
"""

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator import Problem

SOLUTIONS: Final = Path(__file__).parent / "solutions"
LANGUAGES: Final = ("triton", "cuda")
SIZES: Final = ("full", "cut", "small")

Changes = Mapping[str, Any]
_ROWS: Final = {"batch_size": 4096, "dim": 12288}
_FEW: Final = {"batch_size": 6, "dim": 700}
_GEMM: Final = {"batch_size": 12, "in_features": 40, "out_features": 72}
_CONV: Final = {"batch_size": 2, "in_channels": 3, "out_channels": 5, "height": 12, "width": 11}

CUT: Final[dict[tuple[int, int], Changes]] = {
    (1, 4): {"M": 512, "K": 131072},
    (1, 5): {"M": 4096},
    **{(1, number): _ROWS for number in (19, 21, 22, 25, 26, 29, 31)},
    (1, 23): {"batch_size": 128},
    (1, 36): {"batch_size": 3},
    (1, 39): {"batch_size": 768},
    (1, 42): {"batch_size": 3},
    (1, 45): {"batch_size": 1, "channels": 12},
    (1, 47): {"batch_size": 12, "dim1": 1024},
    (1, 49): {"batch_size": 12, "dim1": 1024},
    (1, 89): {"batch_size": 1536},
    (1, 94): {"batch_size": 1024},
    (1, 96): {"batch_size": 1024},
    (2, 1): {"batch_size": 16},
    (2, 5): {"batch_size": 4},
    (2, 7): {"batch_size": 16},
    (2, 25): {"batch_size": 16},
    (2, 31): {"batch_size": 16},
    (2, 32): {"batch_size": 4},
    (2, 40): {"batch_size": 4096},
    (2, 54): {"batch_size": 4},
    (2, 56): {"input_size": 4096, "hidden_size": 16384},
    (2, 68): {"in_features": 8192, "out_features": 8192},
    (2, 87): {"batch_size": 32},
}
SMALL: Final[dict[tuple[int, int], Changes]] = {
    (1, 2): {"M": 70, "K": 50, "N": 90},
    (1, 4): {"M": 9, "K": 5000},
    (1, 5): {"M": 30, "N": 300},
    (1, 12): {"M": 300, "N": 9},
    **{(1, number): _FEW for number in (19, 21, 22, 25, 26, 29, 31, 23, 39, 88)},
    (1, 36): {"batch_size": 2, "features": 6, "dim1": 20, "dim2": 30},
    (1, 40): {"batch_size": 2, "features": 4, "dim1": 50, "dim2": 60},
    (1, 42): {"batch_size": 2, "channels": 2, "height": 14, "width": 15},
    (1, 45): {"batch_size": 2, "channels": 2, "height": 35, "width": 36},
    (1, 47): {"batch_size": 3, "dim1": 40, "dim2": 50},
    (1, 49): {"batch_size": 3, "dim1": 40, "dim2": 50},
    (1, 89): {"batch_size": 3, "input_shape": (700,)},
    (1, 94): {"batch_size": 6, "input_shape": (700,)},
    (1, 96): {"batch_size": 6, "input_shape": (700,)},
    **{(2, number): _GEMM for number in (9, 12, 29, 40, 53, 63, 68, 76, 81, 95, 99)},
    (2, 1): _CONV,
    (2, 5): {**_CONV, "kernel_size": 4},
    (2, 7): {**_CONV, "depth": 6},
    (2, 25): _CONV,
    (2, 31): _CONV,
    (2, 32): _CONV,
    (2, 54): _CONV,
    (2, 56): {"batch_size": 6, "input_size": 40, "hidden_size": 72},
    (2, 57): _CONV,
    (2, 70): {"batch_size": 12, "input_size": 40, "hidden_size": 72},
    (2, 86): {"batch_size": 12, "input_size": 40, "output_size": 72},
    (2, 87): _CONV,
}


@dataclass(frozen=True)
class Solution:
    """One solution of a problem in one language.

    Attributes:
        language: one of LANGUAGES, as KernelBench calls its backends.
        level, number: the problem's place in KernelBench.
        path: the file with `ModelNew`.
    """

    language: str
    level: int
    number: int
    path: Path

    @property
    def key(self) -> str:
        return f"{self.language}/{self.level}/{self.number}"


def solutions(languages: tuple[str, ...] = LANGUAGES, only: frozenset[tuple[int, int]] | None = None) -> list[Solution]:
    """Return the solutions by language; the levels alternate, so that a run that is cut off has some of each.

    Args:
        languages: those of LANGUAGES that are wanted, in this order.
        only: level and number of the problems that are wanted; None for all.
    """
    found = []
    for language in languages:
        of_level: dict[int, list[Solution]] = {}
        for path in (SOLUTIONS / language).glob("level*_*.py"):
            level, number = (int(part) for part in path.stem.removeprefix("level").split("_"))
            if only is None or (level, number) in only:
                of_level.setdefault(level, []).append(Solution(language, level, number, path))
        places = [
            (place, level, one)
            for level, every in of_level.items()
            for place, one in enumerate(sorted(every, key=lambda solution: solution.number))
        ]
        found += [one for _, _, one in sorted(places, key=lambda each: each[:2])]
    return found


def problem_of(checkout: Path, level: int, number: int, sizes: str) -> Problem:
    """Read a problem from a checkout of KernelBench, with its constants replaced by those of `sizes`.

    Raises:
        SystemExit: the checkout has no such problem, or not the constants that are to be replaced.
    """
    found = sorted((checkout / "KernelBench" / f"level{level}").glob(f"{number}_*.py"))
    if not found:
        sys.exit(f"{checkout} has no problem {number} of level {level}; pass the path of a checkout of KernelBench.")
    problem = Problem.from_file(found[0])
    changes = {"full": {}, "cut": CUT, "small": SMALL}[sizes].get((level, number), {})
    source, unknown = with_constants(problem.source, changes)
    if unknown:
        sys.exit(
            f"{found[0]} does not assign {', '.join(sorted(unknown))}; this needs KernelBench of another revision."
        )
    return replace(problem, source=source)


def with_constants(source: str, changes: Changes) -> tuple[str, frozenset[str]]:
    """Replace the values of a module's constants.

    Args:
        source: the module. Each constant is assigned once and on one line, alone (`a = 1`), with others (`a = b = 1`)
            or in a tuple (`a, b = 1, 2`).
        changes: new values by name; all names of `a = b = 1` get the value of the first that is given.

    Returns:
        The module, and the names that it does not assign.
    """
    lines = source.splitlines(keepends=True)
    spans = {
        name: node
        for statement in ast.parse(source).body
        for name, node in _assigned(statement)
        if name in changes and node.end_lineno == node.lineno
    }
    # From the end on, so that earlier places stay; a value of several names is replaced once.
    places = {(node.lineno, node.col_offset): (name, node) for name, node in reversed(spans.items())}
    for (line, start), (name, node) in sorted(places.items(), reverse=True):
        text = lines[line - 1].encode()
        lines[line - 1] = (text[:start] + repr(changes[name]).encode() + text[node.end_col_offset :]).decode()
    return "".join(lines), frozenset(changes) - spans.keys()


def _assigned(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    """Return the names that a statement assigns, each with the expression of its value."""
    if not isinstance(node, ast.Assign):
        return []
    found = []
    for target in node.targets:
        match target, node.value:
            case ast.Name(id=name), value:
                found.append((name, value))
            case ast.Tuple(elts=names), ast.Tuple(elts=values):
                found += [
                    (one.id, value) for one, value in zip(names, values, strict=True) if isinstance(one, ast.Name)
                ]
    return found
