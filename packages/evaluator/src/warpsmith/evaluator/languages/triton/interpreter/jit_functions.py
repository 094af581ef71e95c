"""Interpreted kernels that answer whatever host code may ask a compiled one.

`@triton.jit` returns a `JITFunction`, and an `InterpretedFunction` where kernels are interpreted, which lacks most of
its attributes. Host code must not see the difference: libraries unwrap decorators until they meet a `JITFunction`, and
read its parameters, its source and its key.
"""

from collections.abc import Callable
from typing import Any, Final

from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

_OF_VALUES: Final = frozenset({"type", "_flatten_ir"})
"""Attributes by which Triton's compiler takes a kernel for a value; the interpreter has another way."""


class InterpretedJITFunction(InterpretedFunction):  # type: ignore[misc]
    """A kernel that is interpreted, and is a `JITFunction` to `isinstance` and by its attributes."""

    def __init__(self, fn: Callable[..., Any], **options: Any) -> None:
        InterpretedFunction.__init__(self, fn, **options)
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        self._compiled: JITFunction | None = None

    __class__ = property(lambda _: JITFunction)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel as `@triton.jit` makes it for the compiler, which nothing here runs."""
        # A copy that is not initialized yet has neither of these, and would ask for them forever.
        if name in {"fn", "kwargs", "_compiled"} or name in _OF_VALUES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._compiled is None:
            self._compiled = JITFunction(self.fn, **self.kwargs)
        return getattr(self._compiled, name)


def install() -> None:
    """Let `@triton.jit` in this process, which interprets kernels, return kernels of this kind."""
    interpreter.InterpretedFunction = InterpretedJITFunction
