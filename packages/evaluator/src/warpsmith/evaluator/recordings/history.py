"""The calls of one module in order, and the earlier calls that each depends on: those whose memory it uses.

A module can keep a workspace, or a table that its first call fills. To replay a later call, the calls that it depends
on are replayed first, on other inputs. So a module that caches an answer returns a wrong one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.recordings import sharing
from warpsmith.evaluator.recordings.library_policy import written_arguments
from warpsmith.evaluator.reference.draw_plan import PLAINLY, DrawPlan
from warpsmith.evaluator.reference.form import Form

FRESH: Final = "fresh"
STATE_BEFORE: Final = "state_before"
"""Parameters and buffers of earlier calls, which have changed since."""


@dataclass(frozen=True)
class Past:
    """The inputs of an earlier call: their form, the sizes and draws to make them with, their name in the events."""

    form: Form
    sizes: Mapping[str, int]
    name: str
    draws: DrawPlan = PLAINLY


@dataclass(frozen=True)
class Called:
    """One recorded call of a module.

    Attributes:
        form: the form of its inputs.
        sizes: the sizes they were made with, where they differ from the sample's.
        events: what the call did.
        outputs: its outputs, then the module's buffers after it.
        buffers: the number of buffers in `outputs`.
        draws: how inputs of its form are made; other plain numbers than the sample's are drawn too.
        checks: whether it only checked others. Its memory matters to later calls, what it did with others' does not.
    """

    form: Form
    sizes: Mapping[str, int]
    events: list[Any]
    outputs: list[Any]
    buffers: int = 0
    draws: DrawPlan = PLAINLY
    checks: bool = False

    @property
    def returned(self) -> set[int]:
        """The ids of the memory that holds its outputs, except inputs and the judge's parameters."""
        return set(_used(self.outputs[: len(self.outputs) - self.buffers]))

    @property
    def overwritten(self) -> set[int]:
        """The ids of memory of earlier calls that it can write to: it copies there, or passes it to a launch."""
        return {*_used([_writable(event) for event in self.events])} - {*_made(self.events)}

    @property
    def returns_written_state(self) -> bool:
        """Whether an output lies in the memory of a buffer that the call writes and the next call overwrites.

        A buffer that it only reads is in the judge's memory afterwards.
        """
        first = len(self.outputs) - self.buffers
        return not {*_used(self.outputs[:first])}.isdisjoint(_used(self.outputs[first:]))

    @property
    def shares(self) -> set[str]:
        """How its outputs lie in memory that is not theirs alone."""
        outputs = self.outputs[: len(self.outputs) - self.buffers]
        return sharing.of_references(outputs) | ({sharing.STATE} if self.returns_written_state else set())

    @property
    def memory(self) -> set[int]:
        """The ids of all memory that it makes or uses, except inputs and the judge's parameters."""
        return {*_used([self.events, self.outputs]), *self.made}

    @property
    def made(self) -> set[int]:
        """The ids of all memory that it makes."""
        return {*_made(self.events)}


class History:
    """The recorded calls of one module."""

    def __init__(self) -> None:
        self.calls: list[Called] = []

    def pattern(self, call: Called) -> bytes:
        """Return a pattern that is equal for calls that do the same, whatever the ids of their own memory."""
        return whole_pattern(call.form, call.events, call.outputs)

    def overwrites_outputs(self, call: Called) -> bool:
        """Whether a call can write to memory that an earlier call returned, or returns memory of an earlier call."""
        return any(call.overwritten & one.returned for one in [*self.calls, call])

    def dependencies(self, call: Called) -> list[Called]:
        """Return the earlier calls whose memory a call uses, directly or through others, in order."""
        wanted, found = call.memory, []
        for earlier in reversed(self.calls):
            if earlier is not call and wanted & (earlier.made if earlier.checks else earlier.memory):
                found.append(earlier)
                wanted |= earlier.memory
        return found[::-1]

    def with_dependencies(self, call: Called) -> tuple[list[Any], tuple[Past, ...]]:
        """Return the events of the calls that a call depends on followed by its own, and the inputs of the former."""
        events: list[Any] = []
        past: list[Past] = []
        for earlier in self.dependencies(call):
            name = f"before{len(past)}"
            past.append(Past(earlier.form, earlier.sizes, name, earlier.draws))
            events += _renamed(earlier.events, {"inputs": name, "state": STATE_BEFORE})
        return events + call.events, tuple(past)


def whole_pattern(form: Form, events: list[Any], outputs: list[Any]) -> bytes:
    """Return a pattern that is equal for events that do the same, whatever the ids of the memory that they make."""
    own = {number: place for place, number in enumerate(_made(events))}
    streams: dict[int, int] = {}
    events = [_with_own_streams(event, streams) for event in events]
    return codec.encode([form.tree, _renumbered([events, outputs], own)])


def pattern_in_any_memory(form: Form, events: list[Any], outputs: list[Any]) -> bytes:
    """Return a pattern that is also equal for events that do the same in memory of an earlier call as in their own."""
    streams: dict[int, int] = {}
    kept = [_with_own_streams(event, streams) for event in events if event[:1] != ["alloc"]]
    places: dict[int, int] = {}
    for number in (*_made(kept), *_used([kept, outputs])):
        places.setdefault(number, len(places))
    return codec.encode([form.tree, _renumbered([kept, outputs], places)])


def _with_own_streams(event: Any, numbers: dict[int, int]) -> Any:
    """Return a launch with its stream's number among those of the call.

    A stream made in each call has a different handle each time.
    """
    match event:
        case ["launch", kernel, grid, arguments, {"stream": int(stream), **options}] if stream:
            number = numbers.setdefault(stream, len(numbers) + 1)
            return ["launch", kernel, grid, arguments, {**options, "stream": number}]
        case _:
            return event


def _made(events: list[Any]) -> Iterator[int]:
    for event in events:
        match event:
            case ["alloc" | "const" | "literal", int(number), *_]:
                yield number


def _writable(event: Any) -> Any:
    """Return the part of an event that names the memory it can write: all arguments, for a launch."""
    match event:
        case ["fill" | "copy", to, _] | ["call", _, _, to]:
            return to
        case ["launch", _, _, arguments, _]:
            return arguments
        case ["operator", str(name), list(arguments), _, results]:
            return [results, written_arguments(name, arguments)]
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
    """Return events in which the call's own memory has the ids -1, -2, ..., and other memory keeps its ids."""
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
    """Return events in which memory is renamed."""
    match part:
        case ["tensor", str(memory), *rest] if memory in names:
            return ["tensor", names[memory], *rest]
        case list() | tuple():
            return [_renamed(item, names) for item in part]
        case dict():
            return {key: _renamed(item, names) for key, item in part.items()}
        case _:
            return part
