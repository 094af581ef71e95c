"""The signatures of the launches in a trace: what is compiled is the replayed launches, whatever else was reported."""

from collections.abc import Mapping
from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES

ALIGNMENT: Final = 16
INTEGERS: Final = frozenset({"i32", "i64", "u64"})
FLOATS: Final = ("fp", "bf")


def launches_of(events: list[Any]) -> list[dict[str, Any]]:
    """Return `kernel`, `arguments` and `options` of each launch in a trace, as a compile worker expects them.

    A tensor becomes its dtype and whether its address is a multiple of 16 bytes; memory of a trace has that alignment.
    WireError: an event is not a list, or a launch lacks the form described in `recorder.py`.
    """
    for event in events:
        if not isinstance(event, list):
            raise WireError(f"{str(event)[:80]} is not an event of a trace.")
    return [_launch(event) for event in events if event[:1] == ["launch"]]


def _launch(event: list[Any]) -> dict[str, Any]:
    match event:
        case ["launch", str(kernel), list(), dict(arguments), dict(options)]:
            described = {str(name): _argument(value) for name, value in arguments.items()}
            return {"kernel": kernel, "arguments": described, "options": options}
        case _:
            raise WireError(f"{str(event)[:80]} is not a launch of a trace.")


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
        case ["named", str(name), list(items)]:
            return ["named", name, [_argument(item) for item in items]]
        case ["value", None | bool() | int() | float() | str()] | ["dtype", str()]:
            return list(described)
        case ["kernel" | "library" | "captured", *_]:
            return _constant(described)
        case _:
            raise WireError(f"{str(described)[:80]} is not an argument of a traced launch.")


def _constant(described: Any) -> list[Any]:
    """Return a function that is passed, or what a kernel captures, as they are described (`triton.captures`)."""
    match described:
        case ["value", bool() | int() | float() | str() | None]:
            found: list[Any] = list(described)
        case ["dtype" | "library" | "kernel" | "unsupported", str()]:
            found = list(described)
        case ["constexpr", inner]:
            found = ["constexpr", _constant(inner)]
        case ["tuple", list(items)]:
            found = ["tuple", [_constant(item) for item in items]]
        case ["named", str(name), list(items)]:
            found = ["named", name, [_constant(item) for item in items]]
        case [("kernel" | "captured") as kind, *names, dict(captured)] if all(isinstance(name, str) for name in names):
            found = [kind, *names, {str(name): _constant(value) for name, value in captured.items()}]
        case _:
            raise WireError(f"{str(described)[:80]} is not a constant of a traced launch.")
    return found


def kinds_of(binary: Any) -> dict[str, Any]:
    """Return the kind of each argument in the code, from the fields of a `Binary` (`loaded_kernels.py`).

    A worker that compiles a candidate's source reports the fields, so malformed ones are ignored.
    """
    match binary:
        case {"parameters": list(parameters)}:
            pairs = (pair for pair in parameters if isinstance(pair, list) and len(pair) == 2)
            return {name: kind for name, kind in pairs if isinstance(name, str)}
        case _:
            return {}


def same_code(one: Mapping[str, Any], other: Mapping[str, Any], kinds: Mapping[str, Any]) -> bool:
    """Whether Triton compiles a launch to exactly the same code as another one.

    For a number that is not a constexpr, the code depends only on its type, on whether it is 1 and on whether it is a
    multiple of 16: launches on other sizes mostly share code.

    Args:
        one: `kernel`, `arguments` and `options` of the compiled launch.
        other: those of the launch to compile.
        kinds: the kind of each argument of the first in the code; `constexpr` if its value is part of the code.
    """
    before, after = one["arguments"], other["arguments"]
    if one["kernel"] != other["kernel"] or list(before) != list(after) or not _equal(one["options"], other["options"]):
        return False
    return all(
        _equal(before[name], after[name]) or _no_difference(before[name], after[name], kinds.get(name))
        for name in before
    )


def _equal(one: Any, other: Any) -> bool:
    """Whether two descriptions are bitwise equal: 1 is neither True nor 1.0, and 0.0 is not -0.0."""
    return codec.encode(one) == codec.encode(other)


def _no_difference(one: Any, other: Any, kind: Any) -> bool:
    match one, other:
        case ["value", int(before)], ["value", int(after)] if isinstance(kind, str) and kind in INTEGERS:
            return _specialised(before) == _specialised(after) is not None
        case ["value", float()], ["value", float()]:
            return isinstance(kind, str) and kind.startswith(FLOATS)
        case _:
            return False


def coded(described: list[Any]) -> list[Any]:
    """Return what the code depends on in a described argument that is no constexpr."""
    match described:
        case ["value", float()]:
            return ["value", "float"]
        case ["value", int(number)] if not isinstance(number, bool):
            return ["value", _specialised(number) or number]
        case ["tuple", list(items)]:
            return ["tuple", [coded(item) for item in items]]
        case ["named", str(name), list(items)]:
            return ["named", name, [coded(item) for item in items]]
        case _:
            return described


def _specialised(value: int) -> tuple[str, bool] | None:
    """Return what Triton specializes on in an integer; None for a bool, for 1 (a constant) and for an invalid one."""
    if isinstance(value, bool) or value == 1 or not -(2**63) <= value < 2**64:
        return None
    narrow, unsigned = -(2**31) <= value < 2**31, 2**63 <= value < 2**64
    return "i32" if narrow else "u64" if unsigned else "i64", value % ALIGNMENT == 0
