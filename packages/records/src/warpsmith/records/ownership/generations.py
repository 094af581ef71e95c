"""The lock on disk: numbered directories, of which the highest number counts.

RUN/lock/3/
    token            distinguishes this generation from another with the same number
    command.json     a process that holds it, as `ProcessIdentity`
    command.beat     a count that this process increments while it lives
    rank-0.json ...

A generation without members is free. To take over a directory, a process creates the next generation by renaming a
finished directory to its name: of many processes that try, exactly one succeeds, on any file system with atomic
renames. No process removes or changes the entry of another that may be alive, so a takeover cannot hit the wrong one.
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
        identity: the process; for a damaged entry, one on an unknown host.
        beat: its count when the entry was read.
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
        """Return the processes that hold it, by name; empty if the generation is gone."""
        found = {}
        for path in _listed(self.path):
            # A process that ends meanwhile removes its entry.
            with suppress(FileNotFoundError):
                if path.suffix == _MEMBER and not path.name.startswith("."):
                    found[path.stem] = Member(_identity(path), _content(path.with_suffix(_BEAT)))
        return found

    def is_intact(self) -> bool:
        """Whether it still exists and was not replaced by another of the same number."""
        return _content(self.path / _TOKEN) == self.token.encode()

    def add(self, name: str, identity: ProcessIdentity) -> None:
        """Add a process's entry atomically."""
        self.beat(name, 0)
        _write_member(self.path, name, identity)

    def beat(self, name: str, count: int) -> None:
        """Write a member's count in place: needs no space on a full disk, and closing makes it visible over NFS."""
        flags = os.O_WRONLY | (os.O_CREAT if count == 0 else 0)
        descriptor = os.open(self.path / f"{name}{_BEAT}", flags, 0o644)
        try:
            os.pwrite(descriptor, b"%020d\n" % count, 0)
        finally:
            os.close(descriptor)

    def leave(self, name: str) -> None:
        """Remove a process's entry."""
        (self.path / f"{name}{_MEMBER}").unlink(missing_ok=True)
        (self.path / f"{name}{_BEAT}").unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the directory and its contents in one step."""
        gone = self.path.with_name(f".gone-{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            self.path.rename(gone)
            shutil.rmtree(gone)


def existing(run_dir: Path) -> list[Generation]:
    """Return the generations of a run directory's lock, oldest first."""
    return sorted(_generations(run_dir / LOCK), key=lambda generation: generation.number)


def make(run_dir: Path, number: int, members: Mapping[str, ProcessIdentity]) -> Generation | None:
    """Create a generation with its members atomically; None if that number is taken."""
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
        # A non-empty directory is in the way; NFS can also report this for a rename that it did and then retried.
        if not made.path.is_dir():
            raise
        return made if made.is_intact() else None
    return made


def _generations(lock: Path) -> Iterator[Generation]:
    for path in _listed(lock):
        if path.name.isdecimal():
            yield Generation(int(path.name), path, _content(path / _TOKEN).decode("ascii", "replace"))


def _listed(folder: Path) -> list[Path]:
    """Return a folder's entries; empty if it disappears meanwhile."""
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
    """Return a file's bytes, empty if it is gone. Opening it again makes NFS ask its server."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
