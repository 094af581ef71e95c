"""Calls constructors and `forward` with what a problem's functions return: by position, by name, or both."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Arguments = tuple[list[Any], dict[str, Any]]


def init_arguments(returned: Any, constructor: Callable[..., Any]) -> Arguments:
    """Return a constructor's arguments from the result of `get_init_inputs()`.

    KernelBench returns a list of arguments, KernelBook `[[...], {...}]`: arguments and keyword arguments. Some problems
    return a dict of keyword arguments.

    Raises:
        TypeError: it is none of these.
    """
    match returned:
        case None:
            return [], {}
        case Mapping():
            return [], _named(returned)
        case [list() | tuple() as positional, dict() as named] if not hasattr(positional, "_fields") and _are_names(
            named, constructor
        ):
            return list(positional), _named(named)
        case list() | tuple():
            return list(returned), {}
        case _:
            raise TypeError(
                "get_init_inputs() must return a list of the arguments of Model, a dict of its keyword arguments, or "
                f"[[arguments], {{keyword arguments}}]; got {type(returned).__name__}"
            )


def _named(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in mapping.items()}


def _are_names(named: dict[Any, Any], constructor: Callable[..., Any]) -> bool:
    """Whether each key names a parameter; otherwise the dict is an argument itself."""
    parameters = inspect.signature(constructor).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return all(isinstance(name, str) and (takes_any or name in parameters) for name in named)


def forward_arguments(returned: Any) -> list[Any] | dict[str, Any]:
    """Return the result of `get_inputs()` as arguments of `forward`: a list, or a dict of keyword arguments.

    Raises:
        TypeError: it is neither.
    """
    match returned:
        case Mapping():
            return _named(returned)
        case list() | tuple():
            return list(returned)
        case _:
            raise TypeError(
                "get_inputs() must return a list of the arguments of forward, or a dict of its keyword arguments; "
                f"got {type(returned).__name__}"
            )


def called(function: Callable[..., Any], arguments: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Call with a list of arguments, or with a dict of keyword arguments."""
    return function(**arguments) if isinstance(arguments, Mapping) else function(*arguments)


def constructed(constructor: Callable[..., Any], arguments: Any) -> Any:
    """Call with `[arguments, keyword arguments]`, as `init_arguments` returns them."""
    positional, named = arguments
    return constructor(*positional, **named)
