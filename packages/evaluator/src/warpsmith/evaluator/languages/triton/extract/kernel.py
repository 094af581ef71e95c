"""A kernel of a candidate's source: a `@triton.jit` function, as its text defines it."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpsmith.evaluator.languages.triton.kernel_names import name_in_recordings

if TYPE_CHECKING:
    from warpsmith.evaluator.languages.triton.extract.values import Binding, Value


@dataclass(eq=False)
class Kernel:
    """A `@triton.jit` function.

    Attributes:
        node: its definition.
        options: the arguments of `triton.jit` that the compiler gets.
        defaults: the default values, by argument.
        hidden: names that functions around it bind: what they are is known only where the source runs.
        around: names that functions around it import.
        wrapped: the decorator of a foreign library around it, or an empty string.
        made_in: the line of the call `triton.jit(f)` that makes it; 0 where a decorator does.
        nested: whether it is defined in a function or a class.
        computes: whether it is a `@triton.constexpr_function`, which the compiler calls as Python with constants.
        text_name: its name in the rendered source; another one than its own where several kernels have that.
    """

    node: ast.FunctionDef
    options: Mapping[str, "Value"]
    defaults: Mapping[str, "Value"]
    hidden: frozenset[str] = field(default_factory=frozenset)
    around: "Mapping[str, Binding]" = field(default_factory=dict)
    wrapped: str = ""
    made_in: int = 0
    nested: bool = False
    computes: bool = False
    text_name: str = ""

    def __post_init__(self) -> None:
        self.text_name = self.text_name or self.node.name

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.node.name

    @property
    def identity(self) -> str:
        """What its launches are recorded under (`kernel_names.identity`)."""
        decorators = self.node.decorator_list
        return name_in_recordings(
            self.name, decorators[0].lineno if decorators else self.node.lineno, nested=self.nested
        )
