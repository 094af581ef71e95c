"""What can be wrong with a segment: it is torn, damaged, foreign or unreadable."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpsmith.records.errors import WarpsmithError


class SegmentError(WarpsmithError):
    """A segment's file is damaged or foreign; `path` names the file."""

    def __init__(self, path: Path, message: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {message}", remedy)
        self.path = path


class ForeignFileError(SegmentError):
    """The file was not written by a RunWriter, or belongs to another table than its folder."""


class NewerFormatError(SegmentError):
    """The file was written under a newer format or schema version than this installation reads."""


class TruncatedSegmentError(SegmentError):
    """The journal confirms bytes that the stream no longer has."""


class CorruptSegmentError(SegmentError):
    """Bytes differ from what was written."""


class UnreadableFileError(SegmentError):
    """The operating system refused to read the file."""


def unreadable(path: Path, error: OSError) -> UnreadableFileError:
    return UnreadableFileError(
        path,
        f"cannot be read: {error.strerror or error}.",
        "Fix the permissions of the file and of its parent folders.",
    )


SALVAGE: Final = (
    "Restore the file from a copy, or read the intact batches: --skip-damaged in a command, on_damage='skip' in Python "
    "(`warpsmith-records verify RUN` lists them)."
)


@dataclass(frozen=True)
class Torn:
    """Bytes at the end of a segment that are not a recorded batch.

    Left by a killed writer, or part of an append in progress.

    Attributes:
        path: the stream file.
        stream_bytes: bytes after the last recorded batch.
        journal_bytes: bytes of an unfinished journal entry.
    """

    table: str
    path: Path
    stream_bytes: int
    journal_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.stream_bytes} bytes after the last recorded batch, "
            f"{self.journal_bytes} bytes of an unfinished journal entry"
        )
