"""Directories that are written completely or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.policy.errors import CheckpointError


@contextmanager
def appearing_directory(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a scratch directory next to `target`, and rename it to `target` if the block succeeds.

    A reader sees the complete directory or none. With `overwrite` the old one is first moved aside and removed at the
    end; a kill between the two renames leaves it under `.<name>.previous-...`.

    Raises:
        CheckpointError: `target` exists and is not an empty directory, and `overwrite` is not set.
    """
    target = target.absolute()
    if not overwrite and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} already exists.", "Choose a new directory, or remove this one first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        _sync(scratch)
        _rename(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _rename(scratch: Path, target: Path) -> None:
    """Replace `target` by `scratch`."""
    if not target.exists():
        scratch.rename(target)
        return
    previous = Path(tempfile.mkdtemp(prefix=f".{target.name}.previous-", dir=target.parent))
    target.rename(previous / target.name)
    scratch.rename(target)
    shutil.rmtree(previous)


def _sync(directory: Path) -> None:
    """Flush every file to disk, so that the rename never outlives the content."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
