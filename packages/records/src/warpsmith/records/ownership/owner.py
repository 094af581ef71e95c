"""Owning a run directory: claimed by a command, shared with its ranks, kept by a heartbeat."""

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from warpsmith.records import commands, process_log
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.ownership.errors import OwnershipLostError, RunInUseError
from warpsmith.records.ownership.generations import LOCK, Generation, existing, make
from warpsmith.records.ownership.judgement import COMMAND, Timing, await_free
from warpsmith.records.ownership.process import this_process

_HANDOVER = "WARPSMITH_RUN_OWNER"
_RANK = "rank-0"
_ATTEMPTS = 20
"""An attempt fails if another process makes a generation at the same moment, which is then seen to be alive."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ownership:
    """A run directory owned by this process or its command.

    Attributes:
        generation: the generation of the lock.
        member: this process's name in it.
    """

    generation: Generation
    member: str

    @property
    def handover(self) -> Mapping[str, str]:
        """Environment variables with which a child process shares the directory."""
        return {_HANDOVER: json.dumps([str(self.generation.path), self.generation.token])}

    def check(self) -> None:
        """Check that the directory is still owned: a takeover removes the earlier generations.

        Raises:
            OwnershipLostError: the lock was removed or taken over.
        """
        if not self.generation.is_intact():
            raise self.lost()

    def lost(self) -> OwnershipLostError:
        """Return the error that names the new owner."""
        run_dir = self.generation.path.parent.parent
        holders = [str(member.identity) for one in existing(run_dir) for member in one.members().values()]
        cause = f"{' and '.join(holders)} took it over" if holders else "its lock was removed"
        return OwnershipLostError(
            f"{run_dir} is no longer this run's: {cause}; nothing more is written to it.",
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
    """Own a run directory during a `with` block; create it if absent, remove it again if it stays empty.

    A process whose command owns the directory (see `Ownership.handover`) shares it.

    Args:
        run_dir: the run's directory.
        timing: deadlines.
        say: prints a line for the user; to stderr by default.
        on_lost: called from another thread when another process has taken over; ends the process by default.

    Raises:
        RunInUseError: another process owns it.
    """
    run_dir, timing, say = run_dir.absolute(), timing or Timing(), say or process_log.show
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
        # An owner that leaves the lock's directory empty may remove it at this moment.
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
    """Whether no other process made a generation since `dead` was read; if so, remove the older ones."""
    *older, newest = existing(run_dir) or [mine]
    if newest != mine:
        return False
    if any(set(one.members()) - dead.get(one, frozenset()) for one in older):
        return False
    for one in older:
        one.remove()
    return True


def _shared(run_dir: Path) -> Generation | None:
    """Return the generation held by the command that started this process, if it is of this directory."""
    handed = os.environ.get(_HANDOVER)
    if handed is None:
        return None
    path, token = json.loads(handed)
    generation = Generation(int(Path(path).name), Path(path), token)
    return generation if generation.path.parent == run_dir / LOCK else None


def _joined(generation: Generation) -> Ownership:
    """Add this process next to its command, unless the command died and another process is about to take over."""
    ownership = Ownership(generation, _RANK)
    ownership.check()
    generation.add(_RANK, this_process())
    if existing(generation.path.parent.parent)[-1:] != [generation]:
        raise ownership.lost()
    return ownership


def _keep_alive(
    ownership: Ownership, timing: Timing, stop: threading.Event, say: Say, on_lost: Callable[[WarpsmithError], object]
) -> None:
    """Increment the count until `stop`; a temporary file-system error is reported once and retried."""
    count, reported = 0, False
    while not stop.wait(timing.beat_s):
        count += 1
        try:
            ownership.check()
            ownership.generation.beat(ownership.member, count)
        except OwnershipLostError as error:
            on_lost(error)
            return
        except FileNotFoundError:
            # Removed between check and beat; the next check reports it.
            continue
        except OSError as error:
            if not reported:
                say(f"Warning: the lock {ownership.generation.path} cannot be renewed: {error}. Trying again.")
            reported = True


def _release(ownership: Ownership, missing: list[Path]) -> None:
    """Remove this process's entry and, if no other is left, the directories that were created for it.

    Only the first generation is removed: a number that another process has seen must never become free again.
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
            # Another process uses it.
            with suppress(OSError):
                path.rmdir()
