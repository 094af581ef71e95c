"""What host code was seen to do on the values of a trial and on others: whether it depends on them, and what is new.

Host code keeps state from call to call, so a content can change its own call, the next one, or all that follow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.recordings.history import Called, pattern_in_any_memory, whole_pattern
from warpsmith.evaluator.recordings.recording import Recording

TURNS: Final = (True, False, False, True, False, True, True, False)
"""Whether a call is on the values of a trial. No counter that switches every second or fourth call follows this."""
LEAST: Final = 2
"""Calls at least: one on the values of a trial, and the one after it."""


@dataclass(frozen=True)
class Act:
    """What one call did.

    Attributes:
        whole: its pattern; if it raised an error, the kind of error.
        in_any_memory: the same, but equal for calls that differ only in which call made the memory.
        call: the call, unless it raised an error.
        done: what the worker reported about it.
        error: the error.
    """

    whole: bytes
    in_any_memory: bytes
    call: Called | None = None
    done: codec.Fields | None = None
    error: CandidateFailedError | None = None

    @classmethod
    def of(cls, call: Called, done: codec.Fields | None = None) -> Self:
        """Return what a call did."""
        known = call.form, call.events, call.outputs
        return cls(whole_pattern(*known), pattern_in_any_memory(*known), call, done)

    @classmethod
    def raised(cls, error: CandidateFailedError) -> Self:
        """Return the act of a call that raised an error."""
        kind = codec.encode([error.failure.status, error.failure.category or ""])
        return cls(kind, kind, error=error)


@dataclass
class Known:
    """What recorded calls did.

    Attributes:
        whole: their patterns.
        in_any_memory: the same, as in `Act`.
    """

    whole: set[bytes] = field(default_factory=set)
    in_any_memory: set[bytes] = field(default_factory=set)

    def add(self, act: Act) -> None:
        """Note what a recorded call did."""
        self.whole.add(act.whole)
        self.in_any_memory.add(act.in_any_memory)


@dataclass(frozen=True)
class Finding:
    """What calls on the values of a trial, and after them, showed.

    Attributes:
        depends: whether host code depends on contents.
        unjudged: recordings of calls that did what no recording has, on no account of contents.
    """

    depends: bool = False
    unjudged: tuple[Recording, ...] = ()


def is_settled(acts: list[Act], known: Known) -> bool:
    """Whether calls in the order of TURNS do not depend on contents.

    It needs one call that a content can have changed and that did what is known, or what a call did that no content
    can have changed: of the calls on the content, of those right after it, and of both.
    """
    if len(acts) < LEAST:
        return False
    return all(_is_shared(acts, known, touched) for touched in (_now, _before, _lately))


def _is_shared(acts: list[Act], known: Known, touched: "Callable[[int], bool]") -> bool:
    changed = [act for number, act in enumerate(acts) if touched(number)]
    others = [act for number, act in enumerate(acts) if not touched(number)]
    if touched is _now:
        return any(act.whole in known.whole or act.whole in {one.whole for one in others} for act in changed)
    in_others = {one.in_any_memory for one in others}
    return any(act.in_any_memory in known.in_any_memory | in_others for act in changed)


def _now(number: int) -> bool:
    return TURNS[number]


def _before(number: int) -> bool:
    return number > 0 and TURNS[number - 1]


def _lately(number: int) -> bool:
    return _now(number) or _before(number)
