"""The error categories in verdicts of Triton's errors, and of the evaluator's errors about Triton."""

from typing import Final

from triton.runtime.errors import InterpreterError

from warpsmith.evaluator.languages.fencing.fence import FenceError
from warpsmith.evaluator.languages.triton import descriptors, launch_monitors
from warpsmith.evaluator.languages.triton.extract.values import ExtractionError
from warpsmith.evaluator.languages.triton.interpreter import tracing
from warpsmith.evaluator.languages.triton.interpreter.chip_numerics import ChipDiffersError
from warpsmith.evaluator.languages.triton.interpreter.libdevice import UnsupportedOnCpuError
from warpsmith.evaluator.languages.triton.interpreter.races import UnseenOrderError
from warpsmith.evaluator.languages.triton.interpreter.static_assertions import StaticAssertionError
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError
from warpsmith.evaluator.languages.triton.loaded_kernels import ArgumentError
from warpsmith.evaluator.verdict import ErrorCategory

_KINDS: Final[dict[type[BaseException], ErrorCategory]] = {
    ArgumentError: "argument_error",
    FenceError: "triton_compilation_error",
    tracing.GridError: "argument_error",
    tracing.TooManySignaturesError: "recording_limit",
    UnsupportedOnCpuError: "unsupported_architecture",
    ChipDiffersError: "interpreter_differs",
    UnseenOrderError: "interpreter_differs",
    ExtractionError: "triton_compilation_error",
    StaticAssertionError: "assertion_error",
    InterpreterError: "triton_jit_error",
}


def carried_category(error: BaseException) -> str | None:
    """Return the category that an error carries; None for others."""
    return error.category if isinstance(error, launch_monitors.KernelFailedError | KernelCompilationError) else None


def category_of_kind(error: BaseException) -> str | None:
    """Return the category for the type of an error; None if it is not one of Triton's."""
    found = next((category for kind, category in _KINDS.items() if isinstance(error, kind)), None)
    return found or ("triton_jit_error" if descriptors.refuses(error) else None)
