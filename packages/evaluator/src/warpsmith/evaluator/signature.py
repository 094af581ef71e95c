"""The signatures of the launches in a trace: what is replayed is compiled, whatever else was reported."""

from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.layout import ITEM_BYTES

ALIGNMENT: Final = 16


def launches_of(events: list[Any]) -> list[dict[str, Any]]:
    """Return `kernel`, `arguments` and `options` of each launch in a trace, as a compile worker takes them.

    Tensors become their dtype and whether their address is a multiple of 16 bytes; memory of a trace begins at one.
    WireError for an event that is no list, and for a launch that has not the form that `trace.py` describes.
    """
    for event in events:
        if not isinstance(event, list):
            raise WireError(f"{str(event)[:80]} is no event of a trace.")
    return [_launch(event) for event in events if event[:1] == ["launch"]]


def _launch(event: list[Any]) -> dict[str, Any]:
    match event:
        case ["launch", str(kernel), list(), dict(arguments), dict(options)]:
            described = {str(name): _argument(value) for name, value in arguments.items()}
            return {"kernel": kernel, "arguments": described, "options": options}
        case _:
            raise WireError(f"{str(event)[:80]} is no launch of a trace.")


def _argument(described: Any) -> list[Any]:
    match described:
        case ["tensor", str(memory), int(start), str(dtype), list(), list(), int(offset)] if dtype in ITEM_BYTES:
            address = offset * ITEM_BYTES[dtype] + (0 if memory == "fresh" else start)
            return ["tensor", dtype, address % ALIGNMENT == 0]
        case ["descriptor", ["tensor", str(), int(), str(dtype), *_], list(), list(), list(block), str(), bool()] if (
            dtype in ITEM_BYTES and all(type(side) is int for side in block)
        ):
            return ["descriptor", dtype, block]
        case ["tuple", list(items)]:
            return ["tuple", [_argument(item) for item in items]]
        case ["value", None | bool() | int() | float() | str()] | ["dtype" | "kernel", str()]:
            return list(described)
        case _:
            raise WireError(f"{str(described)[:80]} is no argument of a traced launch.")
