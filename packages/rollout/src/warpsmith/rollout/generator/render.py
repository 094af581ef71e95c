"""Renders a draft of a problem as two texts: the problem in KernelBench's form and its Triton solution.

Every solution has one skeleton (imports, one kernel, `ModelNew` whose `forward` allocates and launches), so that a
small language model can learn the form from few examples.
"""

from dataclasses import dataclass, field

_PROBLEM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


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

@triton.jit
def kernel({parameters}):
{kernel}

class ModelNew(torch.nn.Module):
{init}    def forward({arguments}):
{forward}
"""


@dataclass(frozen=True)
class Tensor:
    """An input tensor: its name in `forward` and its shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def maker(self) -> str:
        """The expression in `get_inputs` that creates it, uniform in [-2, 2)."""
        return f"torch.rand({', '.join(map(str, self.shape))}) * 4.0 - 2.0"


@dataclass(frozen=True)
class Draft:
    """A problem before it is rendered as text.

    Args:
        composition: what the problem computes, without constants and shapes.
        slug: a short name for file names.
        inputs: the tensors of `forward`.
        torch: lines of `Model.forward`.
        parameters: the kernel's parameters.
        kernel: lines of the kernel.
        launch: lines of `ModelNew.forward`.
        init: lines that both constructors share, after `super().__init__()`.
        init_arguments: names and values of the constructors' arguments.
    """

    composition: str
    slug: str
    inputs: tuple[Tensor, ...]
    torch: tuple[str, ...]
    parameters: str
    kernel: tuple[str, ...]
    launch: tuple[str, ...]
    init: tuple[str, ...] = ()
    init_arguments: tuple[tuple[str, int], ...] = field(default=())

    @property
    def arguments(self) -> str:
        """The parameter list of `forward`."""
        return ", ".join(["self", *(tensor.name for tensor in self.inputs)])

    @property
    def constructor(self) -> str:
        """The parameter list of `__init__`."""
        return ", ".join(["self", *(name for name, _ in self.init_arguments)])


def problem_text(draft: Draft) -> str:
    """Return the problem: `Model`, `get_inputs`, `get_init_inputs`."""
    text = _PROBLEM.format(
        constructor=draft.constructor,
        init=_indented(draft.init, 8),
        arguments=draft.arguments,
        forward=_indented(draft.torch, 8).rstrip(),
        inputs=", ".join(tensor.maker for tensor in draft.inputs),
        init_inputs=", ".join(str(value) for _, value in draft.init_arguments),
    )
    return text if "F." in text else text.replace("import torch.nn.functional as F\n", "")


def solution_text(draft: Draft) -> str:
    """Return the solution: one Triton kernel and `ModelNew`."""
    return _SOLUTION.format(
        parameters=draft.parameters,
        kernel=_indented(draft.kernel, 4).rstrip(),
        init=_solution_init(draft),
        arguments=draft.arguments,
        forward=_indented(draft.launch, 8).rstrip(),
    )


def _solution_init(draft: Draft) -> str:
    if not draft.init:
        return ""
    lines = [f"    def __init__({draft.constructor}):", "        super().__init__()"]
    return "\n".join(lines) + "\n" + _indented(tuple(line.replace("nn.", "torch.nn.") for line in draft.init), 8)


def _indented(lines: tuple[str, ...], spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in lines)
