"""Calls to Ray actors, each with a deadline; a failure has its own type and quotes the actor's log."""

import asyncio
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.last_words import memory_note, oom_kills
from warpsmith.rollout.cluster.logs import last_words
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.errors import ActorFailedError, ActorLostError, DeadlinePassedError

if TYPE_CHECKING:
    from ray.exceptions import RayActorError, RayTaskError

T = TypeVar("T")
E = TypeVar("E", bound=WarpsmithError)

_GUESSES: Final = re.compile(r"\s*(?:Some common causes include|There are some potential root causes).*", re.DOTALL)
_EXIT: Final = re.compile(r"Worker exit detail: (.*)", re.DOTALL)
_REASON: Final = re.compile(r"^The actor (?:is dead|died) because .*", re.MULTILINE)


async def call_with_deadline(
    reference: Awaitable[T], seconds: float, who: str, what: str, *, log: Path | None = None
) -> T:
    """Return the result of a call to an actor.

    Args:
        reference: the pending call.
        seconds: its deadline; a call whose caller gives up is cancelled in the actor.
        who: names the actor in messages.
        what: what is waited for, for example `to start`.
        log: the actor's log in the run's directory, if it has one.

    Raises:
        ActorLostError: the actor, its node or the cluster is gone. The error quotes the actor's log.
        ActorFailedError: the method raised an error that is not a WarpsmithError; those are raised unchanged.
        DeadlinePassedError: it took too long.
    """
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError

    kills = oom_kills()
    try:
        return await within(seconds, reference, f"{who} {what}")
    except (asyncio.CancelledError, DeadlinePassedError):
        ray.cancel(reference)
        raise
    except RayActorError as error:
        raise await asyncio.to_thread(lost, error, who, kills, log) from error
    except RayTaskError as error:
        # Our own errors arrive wrapped in Ray's; the caller gets them as they were raised.
        if isinstance(error.cause, WarpsmithError):
            raise error.cause from None
        raise await asyncio.to_thread(_failed, error, who, log) from error
    except RayError as error:
        raise ActorLostError(f"{who} cannot be reached: {_first_line(error)}", "See Ray's log.") from error


def lost(error: "RayActorError", who: str, kills: int, log: Path | None = None) -> ActorLostError:
    """Return the error of a dead actor: how it ended, and the last lines of its log.

    Args:
        error: Ray's.
        who: names the actor.
        kills: the result of `oom_kills()` from when the actor was alive.
        log: the actor's log in the run's directory, if it has one.
    """
    text = str(error)
    return _quoting(text, log, ActorLostError(f"The actor of {who} died: {_how(text)}", memory_note(kills)))


def _failed(error: "RayTaskError", who: str, log: Path | None) -> ActorFailedError:
    return _quoting(str(error), log, ActorFailedError(f"{who} failed: {type(error.cause).__name__}: {error.cause}."))


def _quoting(text: str, log: Path | None, error: E) -> E:
    """Attach the last log lines of the actor that Ray's `text` names."""
    for note in last_words(text, log):
        error.add_note(note)
    return error


def _how(text: str) -> str:
    """Return what Ray reports about the death, without its guesses at causes and its list of ids."""
    raised = text.partition("raised in its creation task,")[2]
    if raised:
        return f"it could not start: {_raised(raised)}"
    found = _EXIT.search(text) or _REASON.search(text)
    reason = found[found.re.groups] if found else _first_line(text)
    return _first_line(_GUESSES.sub("", reason))


def _raised(traceback: str) -> str:
    """Return the exception at the end of a traceback: what follows its last indented line."""
    lines = traceback.strip().splitlines()
    last = max((n for n, line in enumerate(lines) if line.startswith(" ")), default=-1)
    return " ".join(line.strip() for line in lines[last + 1 :])


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
