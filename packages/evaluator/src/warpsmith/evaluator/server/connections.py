"""Bounds on connections: one that sends no request, sends it slowly, or does not read the answer, is cut off.

A connection is half-open until a whole request has arrived, head and body, again once that is answered, and while its
answer is not read. Their number is bounded: a new one displaces the one that has been half-open for longest, so that a
client that sends its request at once (such as for `/health`) is served however many others send none.

No further request of a connection is processed while the previous answer is unread: a client that never reads gets one
answer, however many requests it sends at once.
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
"""Deadline for the head of a request, from the start of the connection or the previous answer."""
BODY_S: Final = 60.0
READ_S: Final = 60.0
"""How long a client can leave an answer unread."""
MOST_HALF_OPEN: Final = 1024
MOST_DESCRIPTORS: Final = 1 << 16
FEWEST: Final = 32
LOOK_S: Final = 0.02
"""Interval of checks whether an answer has been received, while the next request waits for that."""
PIECE: Final = 8192
"""Bytes parsed per connection before others have their turn: each byte can be a separate event."""


def raise_descriptor_limit() -> int:
    """Raise this process's descriptor limit as far as permitted, up to MOST_DESCRIPTORS; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def room_for(descriptors: int) -> int:
    """Return how many half-open connections a process with this many descriptors can have: at most a quarter."""
    return max(FEWEST, min(MOST_HALF_OPEN, descriptors // 4))


@dataclass
class HalfOpen:
    """The half-open connections, oldest first; at most `most`.

    Attributes:
        cut: how many were cut off.
    """

    most: int
    cut: int = 0
    _connections: "dict[BoundedProtocol, None]" = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._connections)

    def enter(self, connection: "BoundedProtocol") -> None:
        """Add a connection that has become half-open; the oldest is cut off if there are too many."""
        self._connections[connection] = None
        while len(self._connections) > self.most:
            self.cut_off(next(iter(self._connections)))

    def leave(self, connection: "BoundedProtocol") -> None:
        """Remove a connection that has sent its request, or is gone."""
        self._connections.pop(connection, None)

    def cut_off(self, connection: "BoundedProtocol") -> None:
        """End a connection at once, even with data still to send."""
        self.leave(connection)
        self.cut += 1
        connection.transport.abort()


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a deadline for each step that a client must take."""

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
        """Start the deadline of the head."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """Buffer incoming bytes, and parse them in pieces."""
        waits = bool(self._unparsed)
        self._unparsed += data
        if not waits:
            self._parse_piece()

    def _parse_piece(self) -> None:
        """Parse one piece; the rest waits until other connections have had their turn."""
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
        """Handle parsed events once the client has received the previous answer; half-open until then."""
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
        """Whether all sent bytes have reached at least the memory of the client's system."""
        unacknowledged = array.array("i", [0])
        fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, unacknowledged)
        return self.transport.get_write_buffer_size() == 0 and unacknowledged[0] == 0

    def on_response_complete(self) -> None:
        """Start the deadline of the next head."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Wait for the client to read; the connection is half-open until it does."""
        super().pause_writing()
        self._set_timer("read", READ_S)
        self._half_open.enter(self)

    def resume_writing(self) -> None:
        """Continue: the client has read."""
        super().resume_writing()
        self._half_open.leave(self)
        self._stage = "resumed"
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._half_open.leave(self)
        self._set_timer("gone", None)
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _note(self) -> None:
        """Set the deadline of the connection's stage; a running deadline stays while its stage does."""
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
