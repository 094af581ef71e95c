"""The messages between client, judge, zygotes and workers: frame kinds, and how a message is sent and received."""

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec

if TYPE_CHECKING:
    from warpsmith.evaluator._native import Channel


class Kind(IntEnum):
    """What a frame means. The payload is always one wire value, a dict of named fields."""

    # client and judge
    CONFIGURE = 1
    READY = 2
    EVALUATE = 3
    VERDICT = 4
    REFUSED = 5
    PROGRESS = 6
    AUDIT = 7
    AUDITED = 8
    WINDOW_WANTED = 9
    WINDOW_ENDED = 10
    WINDOW_OPENED = 11
    WINDOW_REFUSED = 12
    ASK_OUTPUTS = 13
    OUTPUTS = 14
    ASK_TIMES = 15
    TIMES = 20
    # judge and zygote
    FORK = 16
    FORKED = 17
    FORK_FAILED = 18
    EXITED = 19
    # judge and worker, any role
    LOAD = 32
    LOADED = 33
    FAILED = 34
    PING = 35
    PONG = 36
    PREPARED = 37
    OPEN_DEVICE = 38
    # judge and reference worker
    MAKE_INPUTS = 48
    INPUTS = 49
    FILL = 50
    FILLED = 51
    RUN = 52
    ANSWERED = 53
    COLLECT = 54
    COLLECTED = 55
    TUNE = 56
    TUNED = 57
    COUNT = 58
    COUNTED = 59
    DEVICE_WANTED = 60
    DEVICE_LENT = 61
    DEVICE_RETURNED = 62
    # judge and candidate worker
    CALL = 64
    LAUNCH = 65
    DONE = 66
    REPLAY = 67
    KERNEL = 68
    RING = 69
    PROFILE = 76
    PROFILED = 77
    RINGED = 70
    ROUND = 71
    ROUNDED = 72
    BUILD = 73
    BUILT = 74
    # judge and compile worker
    COMPILE = 80
    COMPILED = 81


@dataclass(frozen=True)
class Message:
    """One received frame: its kind, its fields, and the descriptors that came with it (owned by the receiver)."""

    kind: Kind
    fields: codec.Fields
    fds: list[int]


def send(
    channel: "Channel", kind: Kind, fields: dict[str, Any], fds: Sequence[int] = (), timeout_s: float | None = None
) -> None:
    """Send one message; NativeError if the peer is gone or the deadline passes."""
    channel.send(int(kind), codec.encode(fields), fds, timeout_s)


def hang_up(channel: "Channel") -> None:
    """Shut a channel down: a thread that waits in `receive` on either side gets PeerClosed at once."""
    try:
        with socket.socket(fileno=os.dup(channel.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in {errno.ENOTCONN, errno.EBADF}:
            raise


def receive(channel: "Channel", timeout_s: float | None = None) -> Message:
    """Receive one message; WireError if its kind or its fields are not of this protocol."""
    frame = channel.recv(timeout_s)
    try:
        return Message(_kind(frame.kind), codec.Fields(codec.decode(frame.payload)), list(frame.fds))
    except BaseException:
        close_all(frame.fds)
        raise


def receive_work(channel: "Channel") -> Message:
    """Receive the next request of a worker, and answer PINGs before it."""
    while True:
        message = receive(channel)
        if message.kind is not Kind.PING:
            return message
        send(channel, Kind.PONG, {})


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError as error:
        raise WireError(f"Frame kind {number} is not part of this protocol.") from error


def close_all(fds: Sequence[int]) -> None:
    """Close the descriptors of an unused frame."""
    for fd in fds:
        os.close(fd)
