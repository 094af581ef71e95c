"""Takes a candidate's kernels out of its source by syntax, so that they run without its host code.

Nothing of the source is executed. `module` follows the module's statements and knows what its names are bound to,
`constants` computes the values of constants, `check` rebuilds each kernel from the parts of Python's grammar that mean
the same compiled and interpreted (`grammar`, `flow`) and from the parts of Triton's language that kernels may use
(`library`), and `render` writes the result as text. What is compiled and what is interpreted is that text.

Triton's code generator runs Python while it compiles: it calls any function that a kernel's body names, reads any
attribute of a module that the body can reach, and offers `getattr`. Its interpreter runs the body itself. So a kernel
may only name what is allowed here, and of a value it may touch only listed attributes: none that leads out of the
language, and none that distinguishes interpretation from compilation.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from warpsmith.evaluator.languages.triton import kernel_names
from warpsmith.evaluator.languages.triton.extract.check import (
    Checked,
    check,
    field_name,
)
from warpsmith.evaluator.languages.triton.extract.computing import check_computing
from warpsmith.evaluator.languages.triton.extract.inductor import add_helpers
from warpsmith.evaluator.languages.triton.extract.kernel import Kernel
from warpsmith.evaluator.languages.triton.extract.library import is_dtype
from warpsmith.evaluator.languages.triton.extract.module import Module, follow
from warpsmith.evaluator.languages.triton.extract.render import render
from warpsmith.evaluator.languages.triton.extract.values import (
    Binding,
    Constexpr,
    ExtractionError,
    Library,
    Record,
    Value,
    same,
)
from warpsmith.evaluator.parsing import parse


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Extracted:
    """The rendered source with the original's line numbers, its kernels, and the library names that they reach.

    Whoever executes the source must provide the decorator `JIT_NAME` and `triton.language` as `LANGUAGE_NAME`.

    Attributes:
        source: the text of the kernels and of the names that they reach.
        kernels: the names of the kernels in it.
        reached: dotted names of the library that the kernels reach.
        refused: why other kernels that the candidate defines were refused, by name.
        captured: the names that a kernel reaches and that are bound nowhere in `source`, by its name, with the line
            that first reads each: every launch reports what they are.
        bound: the constants and kernels of the module that a kernel reaches and that `source` binds, by its name. If
            a launch reports something else, that counts.
        records: the fields of the named tuples that the candidate defines, as the rendered source names them.
        text_names: the names in `kernels` and `refused`, by what recordings call the kernels (`kernel_names`).
        decorated: the decorators of functions that are not known to be kernels, by the functions' names.
    """

    source: str
    kernels: tuple[str, ...]
    reached: frozenset[str]
    refused: Mapping[str, ExtractionError] = field(default_factory=_nothing)
    captured: Mapping[str, Mapping[str, int]] = field(default_factory=_nothing)
    bound: Mapping[str, frozenset[str]] = field(default_factory=_nothing)
    records: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
    text_names: Mapping[str, str] = field(default_factory=_nothing)
    decorated: Mapping[str, str] = field(default_factory=_nothing)

    def text_name(self, recorded_name: str) -> str:
        """Return the name of a kernel in a recording; if there is none, a name that is in no mapping."""
        own = kernel_names.own_name(recorded_name)
        return self.text_names.get(recorded_name, own if own in self.refused else recorded_name)


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
    tree = parse(source.removeprefix("\ufeff"))
    module = follow(tree)
    add_helpers(module, tree)
    refused = dict(module.refused)
    checked = {kernel.kernel.text_name: kernel for kernel in _check_each(module, refused)}
    _refuse_conflicts(checked, refused)
    _refuse_callers(checked, refused)
    reached = frozenset(name for kernel in checked.values() for name in kernel.reached)
    captured = {name: kernel.captured for name, kernel in checked.items()}
    text_names = {kernel.identity: kernel.text_name for kernels in module.kernels.values() for kernel in kernels}
    return Extracted(
        render(list(checked.values())),
        tuple(checked),
        reached,
        MappingProxyType(refused),
        MappingProxyType(captured),
        MappingProxyType({name: frozenset(_constants(kernel)) for name, kernel in checked.items()}),
        MappingProxyType({record.name: tuple(map(field_name, record.fields)) for record in module.records.values()}),
        MappingProxyType(text_names),
        MappingProxyType(module.decorated),
    )


def _constants(kernel: Checked) -> Iterator[str]:
    """Yield the names of the module that a kernel reaches, except for what it imports and classes."""
    for name, bound in kernel.names.items():
        match bound.value:
            case Record():
                continue
            case Library(name=full) if not is_dtype(full):
                continue
            case _:
                yield name


def _check_each(module: Module, refused: dict[str, ExtractionError]) -> Iterator[Checked]:
    for kernel in (one for kernels in module.kernels.values() for one in _distinguishable(kernels, refused)):
        try:
            checked = check_computing(kernel, module) if kernel.computes else check(kernel, module)
            render([checked])
            yield checked
        except ExtractionError as error:
            refused[kernel.text_name] = error
        except (RecursionError, ValueError) as error:
            refused[kernel.text_name] = ExtractionError(
                f"kernel {kernel.name} cannot be rendered ({error}).", "Split it.", kernel.node.lineno
            )


def _distinguishable(kernels: list[Kernel], refused: dict[str, ExtractionError]) -> list[Kernel]:
    """Return the kernels of one name, without those of them that recordings cannot distinguish."""
    alike = [kernel for kernel in kernels if kernel.text_name == kernel.name]
    if len(alike) > 1:
        lines = " and ".join(str(kernel.node.lineno) for kernel in alike)
        refused[alike[0].name] = ExtractionError(
            f"the kernel {alike[0].name} is defined in lines {lines}, and which of them runs cannot be determined.",
            "Give every kernel of the file a name of its own.",
            alike[-1].node.lineno,
        )
        return [kernel for kernel in kernels if kernel not in alike]
    return kernels


def _refuse_conflicts(checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> None:
    """Refuse each kernel that reaches a name which the rendered source has for something else."""
    meant: dict[str, Binding] = {}
    for name, kernel in list(checked.items()):
        for reached, bound in kernel.names.items():
            other = checked.get(reached)
            if other is not None and bound.value is not other.kernel:
                refused[name] = _conflict(kernel, reached, bound, "a kernel has that name too", other.kernel.node)
            elif not same(meant.setdefault(reached, bound).value, bound.value):
                refused[name] = _conflict(kernel, reached, bound, "another kernel has that name for something else")
    for name in refused:
        checked.pop(name, None)


def _conflict(
    kernel: Checked, name: str, bound: Binding, why: str, node: ast.FunctionDef | None = None
) -> ExtractionError:
    return ExtractionError(
        f"kernel {kernel.kernel.name} uses the global {name} of line {bound.line}, and {why}.",
        "Give every kernel, constant and import of the file a name of its own.",
        (node or kernel.kernel.node).lineno,
    )


def _refuse_callers(checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> None:
    """Refuse each kernel that reaches a refused one, with the reason of that, until none is left that does."""
    while lost := {name: error for name, kernel in checked.items() if (error := _lost(kernel, checked, refused))}:
        refused.update(lost)
        for name in lost:
            del checked[name]


def _lost(kernel: Checked, checked: dict[str, Checked], refused: dict[str, ExtractionError]) -> ExtractionError | None:
    """Return why a kernel that this one reaches is not there; None where all are."""
    for other in _kernels_reached(kernel):
        if other.text_name in refused:
            return refused[other.text_name]
        if checked[other.text_name].kernel is not other:
            return ExtractionError(
                f"kernel {kernel.kernel.name} reaches another kernel {other.name} than the one that is launched by it.",
                "Give every kernel of the file a name of its own.",
                kernel.kernel.node.lineno,
            )
    return None


def _kernels_reached(kernel: Checked) -> Iterator[Kernel]:
    values: list[Value] = [*(bound.value for bound in kernel.names.values()), *kernel.defaults.values()]
    while values:
        match values.pop():
            case Kernel() as found:
                yield found
            case Constexpr(value=inner):
                values.append(inner)
            case (tuple() | list()) as items:
                values.extend(items)
