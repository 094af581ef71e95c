"""The folder that a command about a data set writes to, one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from warpsmith.records.errors import UsageError

LOCK: Final = ".dataset.lock"


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Create a folder, and hold it for this process. It is removed again if nothing was written to it.

    Raises:
        UsageError: another process holds it, or it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; a folder was expected.", "Name another with --output.")
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(
            f"Another process writes to {folder}.", "Wait until it has ended, or name another folder with --output."
        ) from None
    try:
        yield
    finally:
        if [path.name for path in folder.iterdir()] == [LOCK]:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        os.close(descriptor)
