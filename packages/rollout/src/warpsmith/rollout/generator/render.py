"""Renders drafts as texts: a problem in KernelBench's form, and a Triton solution of it; `cuda` has CUDA C++.

Every solution has one skeleton (imports, kernels, `ModelNew` whose `forward` allocates and launches), so that a
small language model can learn the form from few examples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

_PROBLEM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
{constants}

class Model(nn.Module):
    def __init__({constructor}):
        super().__init__()
{init}
    def forward({arguments}):
{forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{init_inputs}]
"""

_SOLUTION = """\
import torch
import triton
import triton.language as tl

{kernels}
class ModelNew(torch.nn.Module):
{init}    def forward({arguments}):
{forward}
"""


class Input(Protocol):
    """An argument of `forward`."""

    @property
    def name(self) -> str:
        """Its name in `forward`."""

    @property
    def maker(self) -> str:
        """The expression in `get_inputs` that creates it."""


@dataclass(frozen=True)
class Tensor:
    """An input tensor: its name in `forward` and its shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def maker(self) -> str:
        """The expression in `get_inputs` that creates it, uniform in [-2, 2)."""
        return f"torch.rand({', '.join(map(str, self.shape))}) * 4.0 - 2.0"


class SolutionPattern(Protocol):
    """A way to write a solution in one kernel language, with named choices."""

    @property
    def name(self) -> str:
        """Unique in its problem and language."""

    @property
    def grade(self) -> Literal["naive", "good"]:
        """Whether its choices are slow or fast."""

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Values to draw, by name."""

    def text(self, draft: "ProblemDraft", inputs: Sequence[Input], choices: Mapping[str, int]) -> str:
        """Return the solution with these choices."""


@dataclass(frozen=True, kw_only=True)
class ProblemDraft:
    """A problem before it is rendered as text.

    Args:
        composition: what the problem computes, without constants and shapes.
        slug: a short name for file names.
        torch: lines of `Model.forward`.
        init: lines that both constructors share, after `super().__init__()`.
        init_arguments: names of the constructors' arguments, and what is passed for them.
        cuda: patterns of solutions in CUDA C++, at least one of each grade.
    """

    composition: str
    slug: str
    torch: tuple[str, ...]
    init: tuple[str, ...] = ()
    init_arguments: tuple[tuple[str, int | str], ...] = ()
    cuda: "tuple[SolutionPattern, ...]"

    @property
    def constructor(self) -> str:
        """The parameter list of `__init__`."""
        return ", ".join(["self", *(name for name, _ in self.init_arguments)])


@dataclass(frozen=True, kw_only=True)
class Draft(ProblemDraft):
    """A problem with its one solution.

    Args:
        inputs: the tensors of `forward`.
        parameters: the kernel's parameters.
        kernel: lines of the kernel.
        launch: lines of `ModelNew.forward`.
    """

    inputs: tuple[Tensor, ...]
    parameters: str
    kernel: tuple[str, ...]
    launch: tuple[str, ...]


def problem_text(draft: ProblemDraft, inputs: Sequence[Input], sizes: Mapping[str, int] | None = None) -> str:
    """Return the problem: `Model`, `get_inputs`, `get_init_inputs`.

    Args:
        draft: what it computes.
        inputs: the arguments of `forward`.
        sizes: constants of the module that the makers of the inputs use.
    """
    text = _PROBLEM.format(
        constants="".join(f"\n{name} = {size}" for name, size in sizes.items()) + "\n" if sizes else "",
        constructor=draft.constructor,
        init=indented(draft.init, 8),
        arguments=arguments_of(inputs),
        forward=indented(draft.torch, 8).rstrip(),
        inputs=", ".join(one.maker for one in inputs),
        init_inputs=", ".join(str(value) for _, value in draft.init_arguments),
    )
    return text if "F." in text else text.replace("import torch.nn.functional as F\n", "")


@dataclass(frozen=True)
class Kernel:
    """A Triton kernel: its name, parameters and lines."""

    name: str
    parameters: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function with its decorator."""
        return f"@triton.jit\ndef {self.name}({self.parameters}):\n{indented(self.lines, 4)}"


def solution_text(
    draft: ProblemDraft, inputs: Sequence[Input], kernels: Sequence[Kernel], launch: tuple[str, ...]
) -> str:
    """Return a solution: Triton kernels, and `ModelNew` whose `forward` has the lines `launch`."""
    return _SOLUTION.format(
        kernels="\n".join(kernel.text for kernel in kernels),
        init=solution_init(draft),
        arguments=arguments_of(inputs),
        forward=indented(launch, 8).rstrip(),
    )


def arguments_of(inputs: Sequence[Input]) -> str:
    """Return the parameter list of `forward`."""
    return ", ".join(["self", *(one.name for one in inputs)])


def solution_init(draft: ProblemDraft) -> str:
    """Return the constructor of `ModelNew`; empty if it needs none."""
    if not draft.init:
        return ""
    lines = [f"    def __init__({draft.constructor}):", "        super().__init__()"]
    return "\n".join(lines) + "\n" + indented(tuple(line.replace("nn.", "torch.nn.") for line in draft.init), 8)


def indented(lines: tuple[str, ...], spaces: int) -> str:
    """Return lines as text, each with spaces before it."""
    return "".join(f"{' ' * spaces}{line}\n" for line in lines)
