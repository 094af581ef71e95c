"""The lock on disk: numbered directories, of which the highest counts.

RUN/lock/3/
    token            tells this generation from another of the same number
    command.json     one of the processes that hold it, `ProcessIdentity`
    command.beat     a count that this process raises while it lives
    rank-0.json ...

A generation without members is free. To take a directory over is to make the next generation, by renaming a finished
directory to its name: of many processes that try, one succeeds, on any file system whose rename is atomic. Nobody
ever removes or changes the entry of another that may live, so a takeover cannot hit the wrong one.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from warpsmith.records.ownership.process import ProcessIdentity, from_json

LOCK = "lock"
_TOKEN, _MEMBER, _BEAT = "token", ".json", ".beat"
_UNREADABLE = ProcessIdentity("an unknown host", "unreadable", 0, 0, "an unknown command", "an unknown time")


@dataclass(frozen=True)
class Member:
    """One process that holds a generation.

    Attributes:
        identity: the process; a damaged entry is one of an unknown host.
        beat: its count when it was read.
    """

    identity: ProcessIdentity
    beat: bytes = field(compare=False)


@dataclass(frozen=True)
class Generation:
    """One generation of the lock of a run directory."""

    number: int
    path: Path
    token: str

    def members(self) -> dict[str, Member]:
        """Return the processes that hold it, by name; none of a generation that is gone."""
        found = {}
        for path in _listed(self.path):
            # Whoever ends meanwhile takes its entry away.
            with suppress(FileNotFoundError):
                if path.suffix == _MEMBER and not path.name.startswith("."):
                    found[path.stem] = Member(_identity(path), _content(path.with_suffix(_BEAT)))
        return found

    def is_intact(self) -> bool:
        """Whether it is still there, and not another of the same number."""
        return _content(self.path / _TOKEN) == self.token.encode()

    def add(self, name: str, identity: ProcessIdentity) -> None:
        """Enter a process, whole at once."""
        self.beat(name, 0)
        _write_member(self.path, name, identity)

    def beat(self, name: str, count: int) -> None:
        """Write a member's count, in place: that takes no room on a full disk, and closing makes it seen over NFS."""
        flags = os.O_WRONLY | (os.O_CREAT if count == 0 else 0)
        descriptor = os.open(self.path / f"{name}{_BEAT}", flags, 0o644)
        try:
            os.pwrite(descriptor, b"%020d\n" % count, 0)
        finally:
            os.close(descriptor)

    def leave(self, name: str) -> None:
        """Take a process's entry away."""
        (self.path / f"{name}{_MEMBER}").unlink(missing_ok=True)
        (self.path / f"{name}{_BEAT}").unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the directory in one step, whatever it holds."""
        gone = self.path.with_name(f".gone-{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            self.path.rename(gone)
            shutil.rmtree(gone)


def existing(run_dir: Path) -> list[Generation]:
    """Return the generations of a run directory's lock, oldest first."""
    return sorted(_generations(run_dir / LOCK), key=lambda generation: generation.number)


def make(run_dir: Path, number: int, members: Mapping[str, ProcessIdentity]) -> Generation | None:
    """Make a generation with its members, whole at once; None where that number is taken."""
    lock, token = run_dir / LOCK, uuid.uuid4().hex
    made = Generation(number, lock / str(number), token)
    unfinished = Generation(number, lock / f".new-{token}", token)
    unfinished.path.mkdir()
    try:
        (unfinished.path / _TOKEN).write_text(token, encoding="ascii")
        for name, identity in members.items():
            unfinished.add(name, identity)
        unfinished.path.rename(made.path)
    except OSError:
        shutil.rmtree(unfinished.path, ignore_errors=True)
        # A directory with files in it is in the way, which NFS may also say of a rename that it did and repeated.
        if not made.path.is_dir():
            raise
        return made if made.is_intact() else None
    return made


def _generations(lock: Path) -> Iterator[Generation]:
    for path in _listed(lock):
        if path.name.isdecimal():
            yield Generation(int(path.name), path, _content(path / _TOKEN).decode("ascii", "replace"))


def _listed(folder: Path) -> list[Path]:
    """Return what a folder holds, nothing of one that goes at this moment."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _identity(path: Path) -> ProcessIdentity:
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (LookupError, TypeError, ValueError):
        return _UNREADABLE


def _write_member(folder: Path, name: str, identity: ProcessIdentity) -> None:
    partial = folder / f".{name}{_MEMBER}"
    partial.write_text(json.dumps(asdict(identity), indent=2) + "\n", encoding="utf-8")
    partial.rename(folder / f"{name}{_MEMBER}")


def _content(path: Path) -> bytes:
    """Return what a file holds, nothing of one that is gone. It is opened anew, so that NFS asks its server."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
