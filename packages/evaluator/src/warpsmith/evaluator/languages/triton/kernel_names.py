"""The names by which a recording tells kernels apart: their own, and the line where several could have that."""

from typing import Any, Final

_BEFORE_LINE: Final = "@"


def name_in_recordings(name: str, line: int, *, nested: bool) -> str:
    """Return the name of a kernel in recordings.

    Args:
        name: the function's own.
        line: where its definition begins, at its first decorator.
        nested: whether it is defined in a function or a class, where others may have its name too.
    """
    return f"{name}{_BEFORE_LINE}{line}" if nested else name


def identity(function: Any) -> str:
    """Return the name in recordings of a kernel that a module has made, given as its plain function.

    The name is that in the text: a decorator can give a function any `__name__`.
    """
    code = function.__code__
    return name_in_recordings(code.co_name, code.co_firstlineno, nested=code.co_qualname != code.co_name)


def own_name(recorded_name: str) -> str:
    """Return the function's own name, of one in a recording."""
    return recorded_name.partition(_BEFORE_LINE)[0]
