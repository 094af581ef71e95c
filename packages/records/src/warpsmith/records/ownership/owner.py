"""Owning a run directory: claimed by a command, shared with the rank that it starts, kept by a heartbeat."""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from warpsmith.records import commands
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.ownership.errors import OwnershipLostError, RunInUseError
from warpsmith.records.ownership.generations import LOCK, Generation, existing, make
from warpsmith.records.ownership.judgement import COMMAND, Timing, await_free
from warpsmith.records.ownership.process import this_process

_HANDOVER = "WARPSMITH_RUN_OWNER"
_RANK = "rank-0"
_ATTEMPTS = 20
"""Each is lost to another process that makes a generation at the same moment; that one then is seen to live."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ownership:
    """A run directory that is this process's, or its command's.

    Attributes:
        generation: of the lock.
        member: this process's name in it.
    """

    generation: Generation
    member: str

    @property
    def handover(self) -> Mapping[str, str]:
        """Environment variables by which a process that this one starts shares the directory."""
        return {_HANDOVER: json.dumps([str(self.generation.path), self.generation.token])}

    def check(self) -> None:
        """Make sure that it is still so: whoever takes a directory over removes the generations before its own.

        Raises:
            OwnershipLostError: the lock was removed, or another took it over.
        """
        if not self.generation.is_intact():
            raise self.lost()

    def lost(self) -> OwnershipLostError:
        """Return the error that says who has the directory now."""
        run_dir = self.generation.path.parent.parent
        holders = [str(member.identity) for one in existing(run_dir) for member in one.members().values()]
        usurped = f"{' and '.join(holders)} took it over" if holders else "its lock was removed"
        return OwnershipLostError(
            f"{run_dir} is no longer this run's: {usurped}; nothing more is written to it.",
            "If this process was suspended for a minute, that is why. Continue with --resume once it is free.",
        )


@contextmanager
def owned(
    run_dir: Path,
    *,
    timing: Timing | None = None,
    say: Say | None = None,
    on_lost: Callable[[WarpsmithError], object] = commands.end_at_once,
) -> Iterator[Ownership]:
    """Own a run directory for the time of a `with` block; made if it is absent, removed again if it stays empty.

    A process whose command owns the directory (see `Ownership.handover`) shares it.

    Args:
        run_dir: the run's directory.
        timing: deadlines.
        say: prints a line for the user; to stderr by default.
        on_lost: called from another thread when somebody else has taken the directory; ends the process by default.

    Raises:
        RunInUseError: another process owns it.
    """
    run_dir, timing, say = run_dir.absolute(), timing or Timing(), say or _to_stderr
    missing = [path for path in (run_dir / LOCK, *(run_dir / LOCK).parents) if not path.exists()]
    shared = _shared(run_dir)
    ownership = _joined(shared) if shared else _claimed(run_dir, timing, say)
    stop = threading.Event()
    beats = threading.Thread(
        target=_keep_alive, args=(ownership, timing, stop, say, on_lost), name="run lock", daemon=True
    )
    beats.start()
    try:
        yield ownership
    finally:
        stop.set()
        beats.join()
        _release(ownership, missing)


def _claimed(run_dir: Path, timing: Timing, say: Say) -> Ownership:
    for _ in range(_ATTEMPTS):
        (run_dir / LOCK).mkdir(parents=True, exist_ok=True)
        dead = {generation: await_free(run_dir, generation, timing, say) for generation in existing(run_dir)}
        number = 1 + max((generation.number for generation in dead), default=0)
        # The lock's directory goes with an owner that leaves it empty at this very moment.
        with suppress(FileNotFoundError):
            mine = make(run_dir, number, {COMMAND: this_process()})
            if mine is not None and _is_alone(run_dir, mine, dead):
                return Ownership(mine, COMMAND)
            if mine is not None:
                mine.leave(COMMAND)
        time.sleep(random.uniform(0.0, timing.poll_s))
    raise RunInUseError(
        f"{run_dir} could not be locked in {_ATTEMPTS} attempts: other processes are starting in it at the same time.",
        "Run one command at a time in a run directory.",
    )


def _is_alone(run_dir: Path, mine: Generation, dead: Mapping[Generation, frozenset[str]]) -> bool:
    """Whether nobody came between the look at the generations and the making of `mine`; if so, the older ones go."""
    *older, newest = existing(run_dir) or [mine]
    if newest != mine:
        return False
    if any(set(one.members()) - dead.get(one, frozenset()) for one in older):
        return False
    for one in older:
        one.remove()
    return True


def _shared(run_dir: Path) -> Generation | None:
    """Return the generation that the command which started this process holds, if it is of this directory."""
    told = os.environ.get(_HANDOVER)
    if told is None:
        return None
    path, token = json.loads(told)
    generation = Generation(int(Path(path).name), Path(path), token)
    return generation if generation.path.parent == run_dir / LOCK else None


def _joined(generation: Generation) -> Ownership:
    """Enter this process beside its command, unless that has died and somebody else is about to take over."""
    ownership = Ownership(generation, _RANK)
    ownership.check()
    generation.add(_RANK, this_process())
    if existing(generation.path.parent.parent)[-1:] != [generation]:
        raise ownership.lost()
    return ownership


def _keep_alive(
    ownership: Ownership, timing: Timing, stop: threading.Event, say: Say, on_lost: Callable[[WarpsmithError], object]
) -> None:
    """Raise the count until `stop`; a temporary error of the file system is reported once and retried."""
    count, told = 0, False
    while not stop.wait(timing.beat_s):
        count += 1
        try:
            ownership.check()
            ownership.generation.beat(ownership.member, count)
        except OwnershipLostError as error:
            on_lost(error)
            return
        except FileNotFoundError:
            # Removed between the look and the beat; the next look says so.
            continue
        except OSError as error:
            if not told:
                say(f"Warning: the lock {ownership.generation.path} cannot be renewed: {error}. Trying again.")
            told = True


def _release(ownership: Ownership, missing: list[Path]) -> None:
    """Take this process's entry away, and where nothing else is left the directories that were made for it.

    Only the first generation may go: whoever has seen a later one must never find its number free.
    """
    generation = ownership.generation
    generation.leave(ownership.member)
    if ownership.member != COMMAND:
        return
    for name, member in generation.members().items():
        if member.identity.is_local and not member.identity.lives:
            generation.leave(name)
    if generation.number == 1 and generation.is_intact() and not generation.members():
        generation.remove()
        for path in dict.fromkeys([generation.path.parent, *missing]):
            # Somebody else uses it.
            with suppress(OSError):
                path.rmdir()


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
