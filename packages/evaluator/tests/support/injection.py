"""Makes chosen system calls of the evaluator's processes fail, from outside: nothing in them knows of it.

`python injection.py FD COMMAND...` puts a seccomp filter over itself and executes the command. The filter's user
notifications ask who holds its listener, whose number is written to the pipe FD, what becomes of each call. Everything
that the command starts is under the filter as well, across fork and exec. `Injector` holds the listener, lets all calls
pass, and fails the n-th of a kind in one kind of process.
"""

import ctypes
import errno
import os
import select
import struct
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

CALLS = {
    "mmap": 9, "pipe": 22, "dup": 32, "sendmsg": 46, "recvmsg": 47, "socketpair": 53, "clone": 56, "fork": 57,
    "vfork": 58, "execve": 59, "ftruncate": 77, "mkdir": 83, "openat": 257, "mkdirat": 258, "pipe2": 293,
    "memfd_create": 319, "clone3": 435,
}  # fmt: skip
"""Numbers on x86-64 of the calls that are asked about."""
KINDS = {
    "fork": ("clone", "fork", "vfork", "clone3"),
    "exec": ("execve",),
    "memory": ("mmap", "memfd_create", "ftruncate"),
    "descriptor": ("pipe", "pipe2", "dup", "socketpair", "memfd_create", "openat"),
    "file": ("openat", "mkdir", "mkdirat", "ftruncate"),
    "message": ("sendmsg", "recvmsg"),
}
"""Calls by what they ask for."""
ERRORS = {"fork": errno.EAGAIN, "exec": errno.ENOMEM, "memory": errno.ENOMEM, "descriptor": errno.EMFILE}
ERRORS |= {"file": errno.ENOSPC, "message": errno.ENOMEM}

SYS_SECCOMP, SYS_PIDFD_GETFD = 317, 438
SET_MODE_FILTER = 1
NEW_LISTENER = 1 << 3
RET_USER_NOTIF, RET_ALLOW = 0x7FC00000, 0x7FFF0000
IOCTL_RECV, IOCTL_SEND = 0xC0502100, 0xC0182101
CONTINUE = 1
PR_SET_NO_NEW_PRIVS = 38


def _filter() -> bytes:
    """Return a BPF program that asks about CALLS and allows the rest."""
    numbers = sorted(CALLS.values())
    lines = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    lines += [struct.pack("HBBI", 0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    return b"".join([*lines, struct.pack("HBBI", 6, 0, 0, RET_ALLOW), struct.pack("HBBI", 6, 0, 0, RET_USER_NOTIF)])


def _install() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    program = _filter()
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(kept))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


@dataclass
class Wanted:
    """Failures to come: in which processes, of which calls, the first one's number, how many, and how far apart."""

    role: str
    calls: frozenset[int]
    number: int
    errors: tuple[int, ...]
    times: int = 1
    every: int = 1
    seen: int = 0
    struck: list[str] = field(default_factory=list)

    def error(self) -> int:
        """Return what the call that was seen last is to fail with: 0 for not at all, and the last error from it on."""
        turn, beside = divmod(self.seen - self.number, self.every)
        return self.errors[min(turn, len(self.errors) - 1)] if 0 <= turn < self.times and not beside else 0


class Injector:
    """Answers the notifications of one family of processes from a thread; a context manager.

    Attributes:
        wanted: what is to fail; None lets all pass.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        """Take the listener of a process that is `injection.py`, whose number comes through `pipe`."""
        self.wanted: Wanted | None = None
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)
        theirs, process = int(os.read(pipe, 20)), os.pidfd_open(pid)
        self._listener = self._libc.syscall(SYS_PIDFD_GETFD, process, theirs, 0)
        os.close(process)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Injector":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)
        os.close(self._listener)

    def fail(
        self, role: str, kind: str, number: int = 1, times: int = 1, errors: tuple[int, ...] = (), every: int = 1
    ) -> Wanted:
        """Fail the `number`-th call of a kind from now on in processes of a role, and `times` in all, each `every`-th.

        The first takes the first of the errors, and so on.
        """
        calls = frozenset(CALLS[name] for name in KINDS[kind])
        with self._lock:
            self.wanted = Wanted(role, calls, number, errors or (ERRORS[kind],), times, every)
            return self.wanted

    def stop(self) -> None:
        """Let all calls pass again."""
        with self._lock:
            self.wanted = None

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        while not self._over.is_set():
            for _, events in poller.poll(200):
                if events & (select.POLLHUP | select.POLLERR):
                    return
                self._answer(self._listener)

    def _answer(self, listener: int) -> None:
        asked = ctypes.create_string_buffer(80)
        if self._libc.ioctl(listener, ctypes.c_ulong(IOCTL_RECV), asked):
            return  # the process was killed meanwhile
        number, pid, _ = struct.unpack_from("QII", asked)
        (call,) = struct.unpack_from("i", asked, 16)
        error = self._error_for(pid, call)
        answer = struct.pack("Qqii", number, 0, -error, 0 if error else CONTINUE)
        self._libc.ioctl(listener, ctypes.c_ulong(IOCTL_SEND), answer)

    def _error_for(self, thread: int, call: int) -> int:
        with self._lock:
            wanted = self.wanted
            if wanted is None or call not in wanted.calls or role_of(thread) != wanted.role:
                return 0
            wanted.seen += 1
            error = wanted.error()
            if error:
                wanted.struck.append(next(name for name, number in CALLS.items() if number == call))
            return error


def role_of(thread: int) -> str:
    """Return what a process of the evaluator is: `client`, `judge`, `zygote`, `worker` or `assembler`."""
    try:
        status = Path(f"/proc/{thread}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        command = Path(f"/proc/{fields['Tgid'].strip()}/cmdline").read_bytes().split(b"\0")
        parent = Path(f"/proc/{fields['PPid'].strip()}/cmdline").read_bytes().split(b"\0")
    except (OSError, KeyError):
        return "gone"
    if b"warpsmith.evaluator.workers.zygote" in command:
        return "worker" if b"warpsmith.evaluator.workers.zygote" in parent else "zygote"
    if b"warpsmith.evaluator.judge.process" in command:
        return "judge"
    return "assembler" if b"ptxas" in Path(os.fsdecode(command[0])).name.encode() else "client"


def main(arguments: list[str]) -> None:
    os.write(int(arguments[0]), str(_install()).encode())
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
