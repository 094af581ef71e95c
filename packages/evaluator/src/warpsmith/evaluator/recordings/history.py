"""The calls of one module, in order, and which earlier calls a call rests on: those whose memory it uses.

A module may keep a workspace, or a table that its first call fills. A replay of a later call is a replay of the calls
that it rests on, on inputs of their own, and then of the call itself. So a module that keeps an answer gives that one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.reference.session import Placed

FRESH: Final = "fresh"
STATE_BEFORE: Final = "state_before"
"""Parameters and buffers of earlier calls: they have changed since."""


@dataclass(frozen=True)
class Past:
    """The inputs of an earlier call: their form, the sizes that they are made with, and their name in the events."""

    form: Placed
    sizes: Mapping[str, int]
    name: str


@dataclass(frozen=True)
class Called:
    """One call of a module, as it was recorded.

    Attributes:
        form: of its inputs.
        sizes: that they were made with, where these are not the sample's.
        events: what it did.
        outputs: its outputs, and the module's buffers after it.
        buffers: how many of these are buffers.
    """

    form: Placed
    sizes: Mapping[str, int]
    events: list[Any]
    outputs: list[Any]
    buffers: int = 0

    @property
    def returned(self) -> set[int]:
        """The numbers of the memory that its outputs lie in, but for the inputs and the judge's parameters."""
        return set(_used(self.outputs[: len(self.outputs) - self.buffers]))

    @property
    def overwritten(self) -> set[int]:
        """The numbers of the memory of earlier calls that it may write: it moves there, or a launch is given it."""
        return {*_used([_writable(event) for event in self.events])} - {*_made(self.events)}

    @property
    def memory(self) -> set[int]:
        """The numbers of all memory that it makes or uses, but for the inputs and the judge's parameters."""
        return {*_used([self.events, self.outputs]), *_made(self.events)}


class History:
    """The calls of one module."""

    def __init__(self) -> None:
        self.calls: list[Called] = []

    def pattern(self, call: Called) -> bytes:
        """Return what is the same for calls that do the same, whatever numbers their own memory has."""
        own = {number: place for place, number in enumerate(_made(call.events))}
        return codec.encode([call.form.tree, _renumbered([call.events, call.outputs], own)])

    def overwrites_outputs(self, call: Called) -> bool:
        """Whether a call may write what an earlier one returned, or returns itself what it kept and may write."""
        return any(call.overwritten & one.returned for one in [*self.calls, call])

    def rests_on(self, call: Called) -> list[Called]:
        """Return the earlier calls whose memory a call uses, and those that these rest on, in order."""
        wanted, found = call.memory, []
        for earlier in reversed(self.calls):
            if earlier is not call and wanted & earlier.memory:
                found.append(earlier)
                wanted |= earlier.memory
        return found[::-1]

    def with_its_past(self, call: Called) -> tuple[list[Any], tuple[Past, ...]]:
        """Return the events of a call after those of the calls that it rests on, and the inputs of these."""
        events: list[Any] = []
        past: list[Past] = []
        for earlier in self.rests_on(call):
            name = f"before{len(past)}"
            past.append(Past(earlier.form, earlier.sizes, name))
            events += _renamed(earlier.events, {"inputs": name, "state": STATE_BEFORE})
        return events + call.events, tuple(past)


def _made(events: list[Any]) -> Iterator[int]:
    for event in events:
        match event:
            case ["alloc" | "const" | "literal", int(number), *_]:
                yield number


def _writable(event: Any) -> Any:
    """Return the part of an event that names what it may write: of a launch, all that it is given."""
    match event:
        case ["fill" | "copy", to, _] | ["call", _, _, to]:
            return to
        case ["launch", _, _, arguments, _]:
            return arguments
        case _:
            return []


def _used(part: Any) -> Iterator[int]:
    match part:
        case ["tensor", str(memory), int(number), *_] if memory == FRESH:
            yield number
        case list() | tuple():
            for item in part:
                yield from _used(item)
        case dict():
            for item in part.values():
                yield from _used(item)


def _renumbered(part: Any, own: dict[int, int]) -> Any:
    """Return events in which the call's own memory is numbered from 0 below zero, and all other as it is."""
    match part:
        case ["tensor", str(memory), int(number), *rest] if memory == FRESH and number in own:
            return ["tensor", memory, ~own[number], *rest]
        case ["alloc" | "const" | "literal" as kind, int(number), *rest] if number in own:
            return [kind, ~own[number], *rest]
        case list() | tuple():
            return [_renumbered(item, own) for item in part]
        case dict():
            return {key: _renumbered(item, own) for key, item in part.items()}
        case _:
            return part


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    """Return events in which memory has other names."""
    match part:
        case ["tensor", str(memory), *rest] if memory in names:
            return ["tensor", names[memory], *rest]
        case list() | tuple():
            return [_renamed(item, names) for item in part]
        case dict():
            return {key: _renamed(item, names) for key, item in part.items()}
        case _:
            return part
