"""Takes a candidate's kernels out of its source by syntax, so that they run without its host code.

Nothing of the source is executed. `module` follows the module's statements and tells what its names are bound to,
`constants` computes the values of constants, `check` builds each kernel anew from the parts of Python's grammar that
mean the same compiled and interpreted (`grammar`, `flow`) and from the parts of Triton's language that kernels may use
(`library`), and `render` writes the result as text. What is compiled and what is interpreted is that text.

Triton's code generator runs Python while it compiles: it calls any function that a kernel's body names, reads any
attribute of a module that the body can reach, and offers `getattr`. Its interpreter runs the body itself. So a kernel
may only name what is allowed here, and of a value it may touch only listed attributes: none that leads out of the
language, and none that tells interpretation from compilation.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from warpsmith.evaluator.languages.triton.extract.check import BODY_BUILTINS, LANGUAGE_NAME, TYPE_TEST, Checked, check
from warpsmith.evaluator.languages.triton.extract.library import ALLOWED_MODULES, INNER_FUNCTIONS
from warpsmith.evaluator.languages.triton.extract.module import Module, follow
from warpsmith.evaluator.languages.triton.extract.render import JIT_NAME, render
from warpsmith.evaluator.languages.triton.extract.values import (
    RESERVED_PREFIX,
    Constexpr,
    ExtractionError,
    Kernel,
    Value,
)

__all__ = [
    "ALLOWED_MODULES",
    "BODY_BUILTINS",
    "INNER_FUNCTIONS",
    "JIT_NAME",
    "LANGUAGE_NAME",
    "RESERVED_PREFIX",
    "TYPE_TEST",
    "Extracted",
    "ExtractionError",
    "extract",
    "extract_usable",
]


@dataclass(frozen=True)
class Extracted:
    """The rendered source with the original's line numbers, its kernels, and the library names that they reach.

    Whoever executes the source must provide the decorator `JIT_NAME` and `triton.language` as `LANGUAGE_NAME`.

    Attributes:
        source: the text of the kernels and of the names that they reach.
        kernels: the names of the kernels in it.
        reached: dotted names of the library that the kernels reach.
        refused: why kernels that the candidate defines beside them were refused, by name.
    """

    source: str
    kernels: tuple[str, ...]
    reached: frozenset[str]
    refused: Mapping[str, ExtractionError] = field(default_factory=lambda: MappingProxyType({}))


def extract(source: str) -> Extracted:
    """Return all kernels of `source`; ExtractionError or SyntaxError if one of them cannot be taken."""
    found = extract_usable(source)
    for error in found.refused.values():
        raise error
    return found


def extract_usable(source: str) -> Extracted:
    """Return those kernels of `source` that can be taken, and why others are refused. Never executes anything of it.

    Raises:
        SyntaxError: `source` is no Python.
    """
    module = follow(ast.parse(source.removeprefix("\ufeff")))
    refused = dict(module.refused)
    checked = {kernel.kernel.name: kernel for kernel in _check_each(module, refused)}
    _refuse_conflicts(checked, refused)
    _refuse_callers(checked, refused)
    reached = frozenset(name for kernel in checked.values() for name in kernel.reached)
    return Extracted(render(list(checked.values())), tuple(checked), reached, MappingProxyType(refused))


def _check_each(module: Module, refused: dict[str, ExtractionError]) -> Iterator[Checked]:
    for name, kernels in module.kernels.items():
        try:
            checked = check(_only(name, kernels), module)
            render([checked])
            yield checked
        except ExtractionError as error:
            refused[name] = error
        except (RecursionError, ValueError) as error:
            line = kernels[0].node.lineno
            refused[name] = ExtractionError(f"kernel {name} cannot be written anew ({error}).", "Split it.", line)


def _only(name: str, kernels: list[Kernel]) -> Kernel:
    if len(kernels) > 1:
        lines = " and ".join(str(kernel.node.lineno) for kernel in kernels)
        raise ExtractionError(
            f"the kernel {name} is defined in lines {lines}, and which of them runs cannot be told.",
            "Give every kernel of the file a name of its own.",
            kernels[-1].node.lineno,
        )
    return kernels[0]


def _refuse_conflicts(checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> None:
    """Refuse each kernel that reaches a global of the name of a kernel that is not bound to it."""
    for name, kernel in list(checked.items()):
        for reached, bound in kernel.names.items():
            other = checked.get(reached)
            if other is not None and bound.value is not other.kernel:
                refused[name] = ExtractionError(
                    f"kernel {name} uses the global {reached} of line {bound.line}, and a kernel has that name too.",
                    "Give every kernel, constant and import of the file a name of its own.",
                    other.kernel.node.lineno,
                )
    for name in refused:
        checked.pop(name, None)


def _refuse_callers(checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> None:
    """Refuse each kernel that reaches a refused one, with the reason of that, until none is left that does."""
    while lost := {name: error for name, kernel in checked.items() if (error := _lost(kernel, checked, refused))}:
        refused.update(lost)
        for name in lost:
            del checked[name]


def _lost(kernel: Checked, checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> ExtractionError | None:
    """Return why a kernel that this one reaches is not there; None where all are."""
    for other in _kernels_reached(kernel):
        if other.name in refused:
            return refused[other.name]
        if checked[other.name].kernel is not other:
            return ExtractionError(
                f"kernel {kernel.kernel.name} reaches another kernel {other.name} than the one that is launched by it.",
                "Give every kernel of the file a name of its own.",
                kernel.kernel.node.lineno,
            )
    return None


def _kernels_reached(kernel: Checked) -> Iterator[Kernel]:
    values: list[Value] = [*(bound.value for bound in kernel.names.values()), *kernel.kernel.defaults.values()]
    while values:
        match values.pop():
            case Kernel() as found:
                yield found
            case Constexpr(value=inner):
                values.append(inner)
            case (tuple() | list()) as items:
                values.extend(items)
