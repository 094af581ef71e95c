"""A server as a child process, with its log read: for tests, notebooks and measurements."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Final, Self

from warpsmith.evaluator.errors import EvaluatorError

COMMAND: Final = (sys.executable, "-m", "warpsmith.evaluator", "serve")
_END_S: Final = 120.0


class ServerProcess:
    """`warpsmith-evaluator serve` as a child. A context manager that ends it.

    Attributes:
        url: where it listens.
        port: the port of `url`.
        events: its log lines that were read so far.

    Args:
        options: of the command, without `--port`.
        port: port to listen on; 0 takes a free one.
        environment: variables beside this process's own.

    Raises:
        EvaluatorError: it ended before it listened; the message has its last words.
    """

    def __init__(self, *options: str, port: int = 0, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", str(port), *options], stderr=subprocess.PIPE, env={**os.environ, **environment}
        )
        assert self.process.stderr is not None
        self._log = self.process.stderr
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        self.url = str(self.await_event("listening")["url"])
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate()

    def await_event(self, name: str, timeout_s: float = 120.0, **fields: Any) -> dict[str, Any]:
        """Return the first event of that name with these fields, waiting for it.

        Raises:
            EvaluatorError: it did not come in time, or the server ended.
        """
        seen, deadline = 0, time.monotonic() + timeout_s
        while True:
            for event in self.events[seen:]:
                if event["event"] == name and fields.items() <= event.items():
                    return event
            seen = len(self.events)
            self._read(deadline, name)

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code; the last log lines are in `events` then."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> int:
        """Send SIGKILL, as a crash would end it, and return the exit code."""
        self.process.kill()
        return self._ended()

    def _read(self, deadline: float, name: str) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._log, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise EvaluatorError(f"The server logged no {name!r} in time.", "See `events`.")
        chunk = os.read(self._log.fileno(), 1 << 16)
        if not chunk:
            raise EvaluatorError(f"The server ended without {name!r}: {self._rest.decode(errors='replace')}", "")
        self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.events += [json.loads(line) for line in lines if line.startswith(b"{")]

    def _ended(self) -> int:
        # Read to the end: a full pipe would hold the server up.
        if not self._log.closed:
            while chunk := os.read(self._log.fileno(), 1 << 16):
                self._take(chunk)
            self._log.close()
        return self.process.wait(timeout=_END_S)
