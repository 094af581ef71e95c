"""`tl.static_assert` in the interpreter: an error of its own, since Triton's autotuner skips what raises it."""

from typing import Any

import triton.language as tl


class StaticAssertionError(AssertionError):
    """A condition that a kernel asserts at compile time does not hold."""


def install() -> None:
    """Replace the interpreter's version in this process; after `_patch_lang`."""
    tl.static_assert = tl.core.static_assert = _check


def _check(cond: Any, msg: Any = "") -> None:
    if not cond:
        said = str(getattr(msg, "value", msg))
        raise StaticAssertionError(f"tl.static_assert does not hold{': ' if said else ''}{said}")
