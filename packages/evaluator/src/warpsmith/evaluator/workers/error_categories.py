"""Maps exceptions of a candidate's process to the error category of a verdict."""

import re
from typing import Final

import torch

from warpsmith.evaluator._native import NativeError
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.recordings.errors import (
    BooleanBytesError,
    DetachedError,
    IllegalAccessError,
    InputMutationError,
    MemorylessError,
    UnsupportedDtypeError,
    UnsupportedFeatureError,
)
from warpsmith.evaluator.recordings.outputs import OutputError
from warpsmith.evaluator.recordings.recorder import UntraceableError
from warpsmith.evaluator.verdict import ErrorCategory
from warpsmith.evaluator.workers.foreign_code import root_cause


class CandidateError(RuntimeError):
    """The candidate's source does not have the required form."""


_KINDS: Final[dict[type[BaseException], ErrorCategory]] = {
    SyntaxError: "syntax_error",
    CandidateError: "parse_error",
    OutputError: "output_error",
    UntraceableError: "recording_limit",
    MemorylessError: "device_error",
    torch.OutOfMemoryError: "out_of_memory",
    MemoryError: "out_of_memory",
    UnsupportedDtypeError: "unsupported_dtype",
    UnsupportedFeatureError: "unsupported_feature",
    BooleanBytesError: "dtype_error",
    IllegalAccessError: "illegal_memory_access",
    InputMutationError: "memory_fault",
    WireError: "process_error",
    DetachedError: "needs_device",
}
"""Our own types and those of torch and Triton, which say more than their base types, causes or effects."""

_MESSAGES: Final[dict[str, ErrorCategory]] = {
    "an illegal memory access was encountered": "illegal_memory_access",
    "misaligned address": "illegal_memory_access",
    "CUDA error: out of memory": "out_of_memory",
    "CUDA_ERROR_OUT_OF_MEMORY": "out_of_memory",
    "CUDA error: invalid configuration argument": "argument_error",
}
"""Messages of torch and the driver for errors without a specific type."""

_PATTERNS: Final[dict[ErrorCategory, re.Pattern[str]]] = {
    "device_error": re.compile(
        r"on the same device|cannot be accessed from Triton|No CUDA GPUs|no NVIDIA driver|not compiled with CUDA"
        r"|CUDA error|CUDA driver error|invalid device ordinal|must be on (the )?(cpu|cuda)"
    ),
    "shape_error": re.compile(
        r"is invalid for input of size|must match (the )?(existing |size)|[Ss]izes of tensors must match|size mismatch"
        r"|cannot be (multiplied|broadcast)|view size is not compatible|match the broadcast shape|[Ss]hape mismatch"
        r"|[Dd]imension out of range|number of (sizes|dimensions|dims)|only one dimension can be inferred"
        r"|cannot reshape|split_with_sizes|exceeds dimension size|out of bounds for storage|negative dimension"
        r"|broadcastable|equal size|must have the same (shape|size)|expected .*\b\d-?D\b"
        r"|same number of dim|in same dimension"
    ),
    "dtype_error": re.compile(
        r"expected scalar type|have the same dtype|not implemented for '\w+'|can't be cast|expected m1 and m2"
        r"|same dtype|Unsupported dtype|unsupported ScalarType"
    ),
}
"""Wording of errors that torch raises as a plain RuntimeError, IndexError, ValueError or TypeError."""

_OF_PYTHON: Final[dict[type[BaseException], ErrorCategory]] = {
    NameError: "name_error",
    ImportError: "import_error",
    AttributeError: "attribute_error",
    NotImplementedError: "not_implemented_error",
    RecursionError: "recursion_error",
    ArithmeticError: "arithmetic_error",
    AssertionError: "assertion_error",
    KeyError: "key_error",
    IndexError: "index_error",
    TypeError: "type_error",
    ValueError: "value_error",
    OSError: "os_error",
    SystemExit: "system_exit",
    NativeError: "device_error",
    RuntimeError: "runtime_error",
}
"""Python's own types, from specific to general."""
_WORDED: Final = (RuntimeError, IndexError, ValueError, TypeError, AssertionError)


def categorise(error: BaseException, language: KernelLanguage) -> str:
    """Return the category of a candidate's error, looking at the first cause before the last.

    Args:
        error: what was raised.
        language: that the candidate's kernels are written in.
    """
    chain = (root_cause(error), error)
    found = next(filter(None, (_of_the_evaluator(one, language) for one in chain)), None)
    return found or next(filter(None, map(_of_python, chain)), "unknown")


def _of_the_evaluator(error: BaseException, language: KernelLanguage) -> str | None:
    carried = language.carried_category(error)
    if carried is not None:
        return carried
    text = str(error)
    for message, category in _MESSAGES.items():
        if message in text:
            return category
    for kind, category in _KINDS.items():
        if isinstance(error, kind):
            return category
    return language.category_of_kind(error)


def _of_python(error: BaseException) -> str | None:
    if isinstance(error, _WORDED):
        text = str(error)
        for category, pattern in _PATTERNS.items():
            if pattern.search(text):
                return category
    return next((category for kind, category in _OF_PYTHON.items() if isinstance(error, kind)), None)
