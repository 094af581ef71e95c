"""A server as a child process whose log is read: for tests, notebooks and measurements."""

import json
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import IO, Any, Final, Self

from warpsmith.evaluator.errors import EvaluatorError

COMMAND: Final = (sys.executable, "-m", "warpsmith.evaluator", "serve")
_END_S: Final = 120.0
START_TIMEOUT_S: Final = 270.0
"""Two judges that start under load take more than a minute on two cores."""
_LAST_WORDS_BYTES: Final = 8000


class ServerProcess:
    """`warpsmith-evaluator serve` as a child. A context manager that ends it.

    A thread reads its log throughout, because a full pipe would block the server.

    Attributes:
        url: the server's address.
        port: the port of `url`.
        events: the log events read so far.

    Args:
        options: options of the command, without `--port`.
        port: port to listen on; 0 takes a free one.
        environment: variables in addition to this process's own.

    Raises:
        EvaluatorError: it ended before it listened; the message has the end of its output.
    """

    def __init__(self, *options: str, port: int = 0, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", str(port), *options], stderr=subprocess.PIPE, env={**os.environ, **environment}
        )
        assert self.process.stderr is not None
        self.events: list[dict[str, Any]] = []
        self._last_words = b""
        self._ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), name="server log", daemon=True)
        self._reader.start()
        try:
            self.url = str(self.await_event("listening", START_TIMEOUT_S)["url"])
        except BaseException:
            self.process.kill()
            raise
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate()

    def await_event(self, name: str, timeout_s: float = 120.0, **fields: Any) -> dict[str, Any]:
        """Wait for the first event with that name and these fields, and return it.

        Raises:
            EvaluatorError: it did not come in time, or the server ended.
        """
        found: list[dict[str, Any]] = []

        def came() -> bool:
            found[:] = [event for event in self.events if event["event"] == name and fields.items() <= event.items()]
            return bool(found) or self._ended

        with self._news:
            if not self._news.wait_for(came, timeout_s):
                raise EvaluatorError(f"The server logged no {name!r} in {timeout_s:g} s.", "See `events`.")
        if not found:
            output = self._last_words.decode(errors="replace")
            raise EvaluatorError(f"The server ended without {name!r}: {output}", "Its log has the cause.")
        return found[0]

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code; `events` is then complete."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._exit_code()

    def kill(self) -> int:
        """Send SIGKILL, like a crash, and return the exit code."""
        self.process.kill()
        return self._exit_code()

    def _read(self, log: IO[bytes]) -> None:
        with log:
            for line in log:
                self._take(line)
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, line: bytes) -> None:
        with self._news:
            if line.startswith(b"{"):
                self.events.append(json.loads(line))
                self._news.notify_all()
            else:
                self._last_words = (self._last_words + line)[-_LAST_WORDS_BYTES:]

    def _exit_code(self) -> int:
        # Its last lines may arrive after its end: `events` is complete once the pipe is closed.
        code = self.process.wait(timeout=_END_S)
        self._reader.join(timeout=_END_S)
        return code
