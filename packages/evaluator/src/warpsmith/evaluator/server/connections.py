"""Bounds on connections: who opens one and asks nothing, asks slowly, or does not read the answer, is cut off.

A connection is half-open until a whole request has come, head and body, and again once that is answered, and while its
answer is not read. There is room for so many of these: a new one takes the place of the one that has been half-open for
longest, so that whoever asks at once, as `/health` is asked, is heard however many others ask nothing.

A connection is asked nothing further while the answer before is not taken: what a client receives that never reads is
one answer, however many requests it sends at once.
"""

import array
import asyncio
import fcntl
import resource
import termios
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_S: Final = 10.0
"""What the head of a request may take, from the connection's first moment or the answer before."""
BODY_S: Final = 60.0
READ_S: Final = 60.0
"""How long a client may leave an answer unread."""
MOST_HALF_OPEN: Final = 1024
MOST_DESCRIPTORS: Final = 1 << 16
FEWEST: Final = 32
LOOK_S: Final = 0.02
"""How often it is seen whether an answer has been taken, while the next request waits for that."""
PIECE: Final = 8192
"""Bytes that one connection has parsed before the others have their turn: a byte may be an event of its own."""


def raise_descriptor_limit() -> int:
    """Allow this process as many descriptors as it may have, up to MOST_DESCRIPTORS; return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def room_for(descriptors: int) -> int:
    """Return how many half-open connections do for a process of so many descriptors: a quarter of them at most."""
    return max(FEWEST, min(MOST_HALF_OPEN, descriptors // 4))


@dataclass
class HalfOpen:
    """The connections that are half-open, oldest first; `most` of them at a time.

    Attributes:
        cut: how many were cut off.
    """

    most: int
    cut: int = 0
    _known: "dict[BoundedProtocol, None]" = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._known)

    def enter(self, connection: "BoundedProtocol") -> None:
        """Note a connection that has become half-open; the oldest goes where there are too many."""
        self._known[connection] = None
        while len(self._known) > self.most:
            self.cut_off(next(iter(self._known)))

    def leave(self, connection: "BoundedProtocol") -> None:
        """Forget a connection that has asked something, or is gone."""
        self._known.pop(connection, None)

    def cut_off(self, connection: "BoundedProtocol") -> None:
        """End a connection at once, whatever is still to be sent."""
        self.leave(connection)
        self.cut += 1
        connection.transport.abort()


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a deadline for each thing that a client may leave undone."""

    def __init__(
        self,
        half_open: HalfOpen,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._half_open = half_open
        self._timer: asyncio.TimerHandle | None = None
        self._stage = ""
        self._unparsed = bytearray()
        self._holds_up = False
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whether that is a whole request."""
        waits = bool(self._unparsed)
        self._unparsed += data
        if not waits:
            self._parse_piece()

    def _parse_piece(self) -> None:
        """Parse a piece of what came; the rest waits until other connections have had their turn."""
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        piece = bytes(self._unparsed[:PIECE])
        del self._unparsed[:PIECE]
        super().data_received(piece)
        self._note()
        if self._unparsed:
            self._holds_up = True
            self.flow.pause_reading()
            self.loop.call_soon(self._parse_piece)
        elif self._holds_up:
            self._holds_up = False
            self.flow.resume_reading()

    def handle_events(self) -> None:
        """Handle what came, once the client has taken the answer before; it is half-open until then."""
        if self._look is not None:
            return
        if self.cycle is None or self._is_taken():
            super().handle_events()
            return
        self.flow.pause_reading()
        self._set_timer("read", READ_S)
        self._half_open.enter(self)
        self._look = self.loop.call_later(LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        if self.transport.is_closing():
            return
        if not self._is_taken():
            self._look = self.loop.call_later(LOOK_S, self._look_again)
            return
        self._half_open.leave(self)
        self._stage = "resumed"
        if not self._holds_up:
            self.flow.resume_reading()
        super().handle_events()
        self._note()

    def _is_taken(self) -> bool:
        """Return whether all that was sent has arrived, in the memory of the client's system at least."""
        unacknowledged = array.array("i", [0])
        fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, unacknowledged)
        return self.transport.get_write_buffer_size() == 0 and unacknowledged[0] == 0

    def on_response_complete(self) -> None:
        """Begin to wait for the next head."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Wait for the client to read; it is half-open until it does."""
        super().pause_writing()
        self._set_timer("read", READ_S)
        self._half_open.enter(self)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._half_open.leave(self)
        self._stage = "resumed"
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._half_open.leave(self)
        self._set_timer("gone", None)
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _note(self) -> None:
        """Set the deadline of the stage that the connection is in; one goes on while its stage does."""
        if self._stage in {"gone", "read"}:
            return
        cycle = self.cycle
        if cycle is None or (cycle.response_complete and not cycle.more_body):
            stage, seconds = "head", HEAD_S
        elif cycle.more_body:
            stage, seconds = "body", BODY_S
        else:
            stage, seconds = "busy", None
        if stage == self._stage:
            return
        self._set_timer(stage, seconds)
        if seconds is None:
            self._half_open.leave(self)
        else:
            self._half_open.enter(self)

    def _set_timer(self, stage: str, seconds: float | None) -> None:
        self._stage = stage
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._half_open.cut_off, self)
