"""Renders solutions in CUDA C++: one skeleton of source, `load_inline` and `ModelNew`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Final, Literal

from warpsmith.rollout.generator.render import Input, ProblemDraft, arguments_of, indented, solution_init

Grade = Literal["naive", "good"]
Lines = tuple[str, ...]

_SOLUTION: Final = '''\
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
{kernels}
torch::Tensor run({parameters}) {{
{host}}}
"""
module = load_inline("solution", "torch::Tensor run({parameters});", SOURCE, functions=["run"])


class ModelNew(torch.nn.Module):
{init}    def forward({arguments}):
        return module.run({passed})
'''


@dataclass(frozen=True)
class CudaKernel:
    """A `__global__` function: its name, parameters and lines."""

    name: str
    parameters: str
    lines: Lines

    @property
    def text(self) -> str:
        """The function."""
        return f"__global__ void {self.name}({self.parameters}) {{\n{indented(self.lines, 2)}}}\n"


@dataclass(frozen=True)
class CudaPattern:
    """A way to write a solution in CUDA C++.

    Args:
        name: unique in its problem.
        grade: whether its choices are slow or fast.
        kernels: its kernels; `$THREADS` and the like are filled with the choices, in the host function too.
        host: lines of the host function, which returns the output.
        choices: values to draw, by name.
        passed: what `forward` passes to the host function, as expressions with the parameter's name.
    """

    name: str
    grade: Grade
    kernels: tuple[CudaKernel, ...]
    host: Lines
    choices: Mapping[str, tuple[int, ...]]
    passed: Mapping[str, str]

    def text(self, draft: ProblemDraft, inputs: Sequence[Input], choices: Mapping[str, int]) -> str:
        """Return the solution with these choices."""
        source = _SOLUTION.format(
            kernels="\n".join(kernel.text for kernel in self.kernels),
            parameters=", ".join(f"torch::Tensor {name}" for name in self.passed),
            host=indented(self.host, 2),
            init=solution_init(draft),
            arguments=arguments_of(inputs),
            passed=", ".join(self.passed.values()),
        )
        return Template(source).substitute({name: str(value) for name, value in choices.items()})
