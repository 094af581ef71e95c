"""Errors of CUDA C++ in a candidate's process, and their categories in verdicts."""

from typing import Final

from warpsmith.evaluator.languages.cuda_cpp.builds import BuildError
from warpsmith.evaluator.languages.cuda_cpp.flags import FlagError
from warpsmith.evaluator.languages.fencing.fence import FenceError
from warpsmith.evaluator.verdict import ErrorCategory

COMPILATION: Final[ErrorCategory] = "cuda_compilation_error"


class BuildFailedError(RuntimeError):
    """The judge's compile worker could not compile what `load_inline` or `load` asked for."""

    def __init__(self, message: str, category: str) -> None:
        super().__init__(message)
        self.category = category


class LaunchError(RuntimeError):
    """A launch, a copy or another call of the CUDA runtime that no GPU accepts or that no replay could repeat."""


_KINDS: Final[dict[type[BaseException], ErrorCategory]] = {
    BuildError: COMPILATION,
    FlagError: COMPILATION,
    LaunchError: "argument_error",
    FenceError: COMPILATION,
}


def carried_category(error: BaseException) -> str | None:
    """Return the category that an error carries; None for others."""
    return error.category if isinstance(error, BuildFailedError) else None


def category_of_kind(error: BaseException) -> str | None:
    """Return the category for the type of an error; None if it is not one of CUDA C++'s."""
    return next((category for kind, category in _KINDS.items() if isinstance(error, kind)), None)
