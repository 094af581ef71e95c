"""Whether the holders of a generation are alive: by their processes if those are visible, else by their beats."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsmith.records.ownership.errors import RunInUseError
from warpsmith.records.ownership.generations import LOCK, Generation, Member

COMMAND = "command"


@dataclass(frozen=True)
class Timing:
    """Deadlines of a lock, in seconds of the local monotonic clock: clocks of two hosts are never compared.

    Attributes:
        beat_s: how often a holder increments its count and checks that it still has the lock.
        lease_s: a holder whose process is not visible is dead if its count did not change for this long.
        orphan_s: how long the ranks of a dead command may take to end.
        poll_s: how often a holder is checked while it is waited for.
    """

    beat_s: float = 5.0
    lease_s: float = 60.0
    orphan_s: float = 30.0
    poll_s: float = 0.2


def await_free(run_dir: Path, generation: Generation, timing: Timing, say: Callable[[str], None]) -> frozenset[str]:
    """Return the names of a generation's members once all of them are dead.

    A holder on this host, whose process is visible, is checked at once. One on another host (or of another boot, or in
    another container) is watched for `lease_s`. If the command is dead but its ranks are not, they are about to end and
    are waited for.

    Raises:
        RunInUseError: one of them is alive.
    """
    first, begin, reported = generation.members(), time.monotonic(), False
    while True:
        members, waited = generation.members(), time.monotonic() - begin
        here = {name: member for name, member in members.items() if member.identity.is_local}
        living = {name: member for name, member in here.items() if member.identity.lives}
        away = {name: member for name, member in members.items() if name not in here}
        beating = {name: member for name, member in away.items() if _beats(first, name, member)}
        if beating or (living and not _are_orphans(living, members, waited, timing)):
            raise _in_use(run_dir, {**beating, **living})
        if not living and (not away or waited >= timing.lease_s):
            return frozenset(members)
        if not reported:
            say(_wait(run_dir, away or living, timing))
            reported = True
        time.sleep(timing.poll_s)


def _beats(first: Mapping[str, Member], name: str, member: Member) -> bool:
    """Whether a member has changed its count since it was first seen."""
    return name not in first or (member, member.beat) != (first[name], first[name].beat)


def _are_orphans(living: Mapping[str, Member], members: Mapping[str, Member], waited: float, timing: Timing) -> bool:
    return COMMAND in members and COMMAND not in living and waited < timing.orphan_s


def _wait(run_dir: Path, members: Mapping[str, Member], timing: Timing) -> str:
    member = next(iter(members.values()))
    if member.identity.is_local:
        return f"The command that had {run_dir} is dead; waiting for {member.identity} to end."
    return (
        f"{run_dir} was last held by {member.identity}. Watching for up to {timing.lease_s:g} s whether that process "
        "still renews its lock."
    )


def _in_use(run_dir: Path, living: Mapping[str, Member]) -> RunInUseError:
    identity = living.get(COMMAND, next(iter(living.values()))).identity
    # On another host or in another container this pid can be any process here.
    stop = f"stop it with `kill -INT {identity.pid}`" if identity.is_local else f"stop it on {identity.host}"
    return RunInUseError(
        f"{run_dir} is in use by {identity}. A run directory has one owner at a time.",
        f"Wait for that process to end, {stop}, or choose another directory. "
        f"To override, remove {run_dir / LOCK}: an owner that is still running then stops.",
    )
