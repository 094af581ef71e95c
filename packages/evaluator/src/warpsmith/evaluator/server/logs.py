"""Structured logs: one JSON object per line on stderr. Sources of problems and candidates are never logged."""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from warpsmith.evaluator.system.stderr import PATIENCE_S, report

LOGGER: Final = "warpsmith.evaluator.server"
_FIELDS: Final = "fields"


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


class StderrHandler(logging.Handler):
    """Writes to stderr as far as it is read: a stalled reader loses lines and delays nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._patience_s = PATIENCE_S

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. Once a line was not read in time, do not wait until the reader reads again."""
        written = report(self.format(record) + "\n", self._patience_s)
        self._patience_s = PATIENCE_S if written else 0.0


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Log one event with its fields."""
    logging.getLogger(LOGGER).log(level, event, exc_info=error, extra={_FIELDS: fields})


def log_to_stderr() -> None:
    """Send the server's and uvicorn's logs to stderr as JSON lines."""
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter())
    for name, level in ((LOGGER, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
