"""Output that is written completely or not at all."""

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from warpsmith.records.errors import UsageError, WarpsmithError


class OutputError(WarpsmithError):
    """The output could not be written; an existing file of that name is unchanged."""


@contextlib.contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """Yield a temporary directory next to `out` that becomes `out` if the block succeeds, and is removed otherwise.

    Raises:
        UsageError: `out` exists.
        OutputError: the operating system refused to write.
    """
    unfinished = _beside(out)
    with _refusals_typed(out):
        if out.exists():
            raise UsageError(f"{out} already exists; a new directory was expected.", "Remove it or choose another.")
        unfinished.mkdir(parents=True)
        try:
            yield unfinished
            unfinished.rename(out)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def write_file(out: Path, text: str) -> None:
    """Write `text` (UTF-8) to `out`, replacing it in one step.

    Raises:
        OutputError: the operating system refused to write.
    """
    with new_file(out) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield the path of a temporary file next to `out` that replaces it if the block succeeds.

    Raises:
        OutputError: the operating system refused to write.
    """
    unfinished = _beside(out)
    with _refusals_typed(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield unfinished
            unfinished.replace(out)
        finally:
            unfinished.unlink(missing_ok=True)


def _beside(out: Path) -> Path:
    return out.parent / f".{out.name}.{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def _refusals_typed(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"Could not write {out}: {error.strerror or error}.", "Free space or fix the permissions, then retry."
        ) from error
