"""Runs foreign source in a contained worker, and reports its exceptions so that its author can act on them."""

import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.system.exhaustion import is_exhaustion, used_much_memory

TRACE_LINES: Final = 12
MAX_MESSAGE: Final = 4000


def execute(source: str, path: Path, module_name: str) -> dict[str, Any]:
    """Execute foreign source as a separate module and return its namespace. The worker must be contained."""
    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module.__dict__


def failure(stage: str, error: BaseException, source_path: Path) -> dict[str, Any]:
    """Return the fields of a FAILED message: the exception, and where in the foreign source it was raised.

    Raises:
        NativeError: `error` itself, to end the worker: our own call lacked a resource that foreign code did not use.
    """
    if isinstance(error, _native.NativeError) and is_exhaustion(error) and not used_much_memory():
        raise error
    return {
        "stage": stage,
        "type": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
        "trace": _trace(error, source_path)[:MAX_MESSAGE],
    }


def _trace(error: BaseException, source_path: Path) -> str:
    """Return only the frames of the foreign file, which its author can act on."""
    frames = [
        f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()}"
        for cause in _causes(error)
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename == str(source_path)
    ]
    # A line that does not parse is in no frame.
    unparsed = [
        f"line {cause.lineno}: {cause.text.strip()[:MAX_MESSAGE]}"
        for cause in _causes(error)
        if isinstance(cause, SyntaxError) and cause.filename == str(source_path) and isinstance(cause.text, str)
    ]
    return "\n".join(dict.fromkeys([*frames[-TRACE_LINES:], *unparsed]))


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 16:
        chain.append(cause)
        cause = cause.__cause__
    return chain


def root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain of `raise ... from`."""
    return _causes(error)[-1]
