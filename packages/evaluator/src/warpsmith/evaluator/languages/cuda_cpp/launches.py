"""Checks the launches in a recording of CUDA C++, which a candidate's process wrote, for the judge."""

from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES

SYMBOL: Final = "cudaMemcpyToSymbol"
"""The kernel's name in the event of a copy to a `__constant__` or `__device__` variable."""
MOST_ARGUMENT_BYTES: Final = 32 << 10
_WORD: Final = 8


def launches_of(events: list[Any]) -> list[dict[str, Any]]:
    """Return kernel and build of each launch, as `KernelLanguage.launches_of`.

    Raises:
        WireError: an event is not a list, or a launch or a copy to a variable has another form.
    """
    found = []
    for event in events:
        match event:
            case ["launch", str(kernel), list(grid), dict(arguments), dict(options)]:
                if kernel == SYMBOL:
                    _check_symbol(arguments, options)
                else:
                    _check_launch(grid, arguments, options)
                    found.append({"kernel": kernel, "arguments": {}, "options": {"build": options["build"]}})
            case ["launch", *_]:
                raise WireError(f"{str(event)[:80]} is not a launch of a trace.")
            case list():
                continue
            case _:
                raise WireError(f"{str(event)[:80]} is not an event of a trace.")
    return found


def _check_launch(grid: list[Any], arguments: dict[str, Any], options: dict[str, Any]) -> None:
    match options:
        case {
            "build": str(),
            "block": [int(), int(), int()],
            "shared": int(shared),
            "stream": int(),
            "cooperative": bool(),
            "cluster": [int(), int(), int()],
        } if shared >= 0 and len(grid) == 3 and all(type(size) is int for size in grid):
            for argument in arguments.values():
                _check_argument(argument)
        case _:
            raise WireError(f"{str(options)[:80]} is not how a launch of CUDA C++ is recorded.")


def _check_symbol(arguments: dict[str, Any], options: dict[str, Any]) -> None:
    match arguments, options:
        case {"source": source}, {"build": str(), "variable": str(), "offset": int(offset), "size": int(size)} if (
            offset >= 0 and size >= 0
        ):
            _check_argument(source, most=64 << 10)
        case _:
            raise WireError(f"{str(options)[:80]} is not a copy to a variable of CUDA C++.")


def _check_argument(argument: Any, *, most: int = MOST_ARGUMENT_BYTES) -> None:
    match argument:
        case ["raw", bytes(content), list(pointers)] if len(content) <= most:
            for pointer in pointers:
                _check_pointer(pointer, len(content))
        case _:
            raise WireError(f"{str(argument)[:80]} is not an argument of a launch of CUDA C++.")


def _check_pointer(pointer: Any, size: int) -> None:
    match pointer:
        case [int(offset), ["tensor", str(), int(), str(dtype), list(), list(), int()]] if (
            0 <= offset <= size - _WORD and dtype in ITEM_BYTES
        ):
            return
        case _:
            raise WireError(f"{str(pointer)[:80]} is not a pointer in an argument.")
