"""Identifies the process of a lock entry, and whether it is alive; pids alone are reused."""

import os
import shlex
import socket
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_LONGEST_COMMAND = 300
_STATE, _STARTED = 0, 19
"""Fields of /proc/PID/stat, counted after the command's name."""


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, distinguished from any other that has or had its pid.

    Attributes:
        host: its host's name, for people.
        space: where its pid is valid: the boot of a kernel and, within it, a pid namespace (containers).
        pid: in that namespace.
        started: clock ticks from boot to its start.
        command: its command line, for people.
        since: when it made this entry, by its host's clock, for people.
    """

    host: str
    space: str
    pid: int
    started: int
    command: str
    since: str

    @property
    def is_local(self) -> bool:
        """Whether this process could see it, dead or alive."""
        return self.space == space()

    @property
    def lives(self) -> bool:
        """Whether it is alive; only valid if `is_local`. A zombie counts as dead: it no longer writes anything."""
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"`{self.command}` (pid {self.pid} on {self.host}, since {self.since})"


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    pid = os.getpid()
    command = shlex.join(sys.orig_argv)
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[:_LONGEST_COMMAND]}..."
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return ProcessIdentity(socket.gethostname(), space(), pid, _started(pid) or 0, command, since)


def from_json(found: Mapping[str, Any]) -> ProcessIdentity:
    """Return an identity read from a file.

    Raises:
        LookupError, TypeError, ValueError: the file does not hold one.
    """
    return ProcessIdentity(
        host=str(found["host"]), space=str(found["space"]), pid=int(found["pid"]), started=int(found["started"]),
        command=str(found["command"]), since=str(found["since"]),
    )  # fmt: skip


@cache
def space() -> str:
    """Return the space in which this process's pids are valid.

    If the kernel does not say (some sandboxes), the result is unique, and a lock is judged by its heartbeat.
    """
    try:
        return f"{_BOOT_ID.read_text(encoding='ascii').strip()}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return f"unknown/{uuid.uuid4()}"


def _started(pid: int) -> int | None:
    """Return the start time of a living process; None if there is none, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may itself contain spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in "ZX" else int(fields[_STARTED])
