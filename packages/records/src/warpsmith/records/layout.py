"""Paths of a run's records: RUN/records/TABLE/NAME.arrows and NAME.journal next to it."""

import uuid
from pathlib import Path
from typing import Final

from warpsmith.records.torn_and_damaged import unreadable

RECORDS_DIR: Final = "records"
STREAM_SUFFIX: Final = ".arrows"
JOURNAL_SUFFIX: Final = ".journal"


def records_dir(run_dir: Path) -> Path:
    return run_dir / RECORDS_DIR


def runs_below(folder: Path) -> list[Path]:
    """The folders directly in `folder` that have records, by name, for example a demo's `grpo` and `sft`."""
    try:
        return sorted(path for path in folder.iterdir() if records_dir(path).is_dir())
    except OSError:
        return []


def table_dir(run_dir: Path, table: str) -> Path:
    return records_dir(run_dir) / table


def table_segments(run_dir: Path, table: str) -> list[str]:
    """Sorted names of the table's segments; empty if the table has no folder.

    Raises:
        UnreadableFileError: the folder cannot be read, or is a file.
    """
    folder = table_dir(run_dir, table)
    try:
        return segment_names(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error


def new_segment_name(folder: Path, segment_id: uuid.UUID) -> str:
    """A name that sorts after every segment in `folder`, so that a resumed writer's rows come last."""
    numbers = [int(name.split("-", 1)[0]) for name in segment_names(folder) if name.split("-", 1)[0].isdecimal()]
    return f"{max(numbers, default=0) + 1:06d}-{segment_id.hex[:12]}"


def segment_names(folder: Path) -> list[str]:
    """Sorted names of the segments in `folder`: of every journal, and of every stream without one."""
    suffixes = (STREAM_SUFFIX, JOURNAL_SUFFIX)
    return sorted({path.stem for path in folder.iterdir() if path.suffix in suffixes})
