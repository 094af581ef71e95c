"""The log of a run's verdicts: one appended JSON line each, so that a kill loses at most the running evaluations."""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError, WarpsmithError

FILE: Final = "verdicts.jsonl"
FORMAT: Final = 1


class VerdictLogError(WarpsmithError):
    """The log of verdicts cannot be read: another process uses it, or a line is damaged."""


@dataclass(frozen=True)
class Refusal:
    """Why the evaluator refused a problem: the problem's fault, not the candidate's."""

    message: str
    remedy: str


@dataclass(frozen=True)
class Outcome:
    """How one evaluation ended.

    Attributes:
        key: identifies what was judged, and how; see `keys.key_of`.
        verdict: the verdict, or None.
        refusal: why the problem could not be judged; None if there is a verdict.
        finished_at: end time in ISO 8601, UTC.
    """

    key: str
    verdict: Verdict | None = None
    refusal: Refusal | None = None
    finished_at: str = ""

    @property
    def settled(self) -> bool:
        """Whether the result is final: all but `invalid`, which is the evaluator's own failure."""
        return self.refusal is not None or (self.verdict is not None and self.verdict.status != "invalid")


def ended_now(key: str, *, verdict: Verdict | None = None, refusal: Refusal | None = None) -> Outcome:
    """Return the outcome of an evaluation that just ended."""
    return Outcome(key, verdict, refusal, datetime.now(UTC).isoformat(timespec="seconds"))


class VerdictLog:
    """The log in one folder, used by one process at a time. A context manager.

    Attributes:
        outcomes: the recorded outcomes by key; the last line of a key counts.

    Raises:
        VerdictLogError: another process writes it, or a line is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._lock()
            self.outcomes = {outcome.key: outcome for outcome in self._read()}
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def append(self, outcome: Outcome) -> None:
        """Append an outcome; it is recorded when this returns."""
        line = json.dumps({"format": FORMAT, **_plain(outcome)}).encode() + b"\n"
        done = 0
        while done < len(line):
            done += os.write(self._fd, line[done:])
        self.outcomes[outcome.key] = outcome

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise VerdictLogError(
                f"Another process writes to {self.path}.",
                "Wait until it has ended, or give another folder with --output.",
            ) from error

    def _read(self) -> list[Outcome]:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            # A kill left a partial line: remove it before appending.
            os.ftruncate(self._fd, whole)
        lines = data[:whole].split(b"\n")
        return [self._outcome(line, number) for number, line in enumerate(lines, start=1) if line]

    def _outcome(self, line: bytes, number: int) -> Outcome:
        try:
            return _outcome_of(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise VerdictLogError(
                f"Line {number} of {self.path} is damaged or of another version ({type(error).__name__}: {error}).",
                "Remove the line to judge its candidate again, or give another folder with --output.",
            ) from error


def _plain(outcome: Outcome) -> dict[str, Any]:
    verdict, refusal = outcome.verdict, outcome.refusal
    return {
        "key": outcome.key,
        "verdict": verdict.to_record() if verdict else None,
        "refusal": asdict(refusal) if refusal else None,
        "finished_at": outcome.finished_at,
    }


def _outcome_of(row: dict[str, Any]) -> Outcome:
    if row["format"] != FORMAT:
        raise ValueError(f"format {row['format']}; {FORMAT} was expected")
    verdict, refusal = row["verdict"], row["refusal"]
    if (verdict is None) == (refusal is None):
        raise ValueError("a verdict or a refusal was expected")
    return Outcome(
        str(row["key"]),
        Verdict.from_record(verdict) if verdict is not None else None,
        Refusal(**refusal) if refusal is not None else None,
        str(row["finished_at"]),
    )


def usable_folder(folder: Path) -> Path:
    """Return a folder for results, created if absent; UsageError if it is a file."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; a folder was expected.", "Name another with --output.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
