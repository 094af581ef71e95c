"""Which common bugs a solution can have: those of its kernel language."""

from collections.abc import Sequence

from warpsmith.rollout.datasets.formats import language_in
from warpsmith.trainer.data import cuda_bugs, kernel_bugs
from warpsmith.trainer.data.kernel_bugs import KernelBug


def is_cuda(solution: str) -> bool:
    """Whether a solution is in CUDA C++."""
    return language_in(solution) == "cuda_cpp"


def bugs_of(solution: str) -> Sequence[KernelBug]:
    """Return the bugs to draw from for a solution."""
    return cuda_bugs.BUGS if is_cuda(solution) else kernel_bugs.BUGS
