"""Reading text files as real tools write them: byte order marks, UTF-16, Windows line ends, editors' backups.

Every file that a user passes to Warpsmith is read through this module, so that all readers accept the same files.
"""

import codecs
import io
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from warpsmith.records.errors import UsageError, WarpsmithError

_MARKS: Final = (
    # UTF-32's little-endian mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONGEST_MARK: Final = 4
_LEFTOVER: Final = re.compile(r"\..*|.*~|#.*#|__pycache__|.*\.(bak|orig|rej|sw[a-p]|tmp)", re.DOTALL)


class TextError(UsageError):
    """A file cannot be read as text: missing, a directory, without permission, or in an unknown encoding."""


def read_text(path: str | Path, error: type[WarpsmithError] = TextError, what: str = "file", remedy: str = "") -> str:
    """Return a file's text without byte order mark, with line feeds as line ends.

    Reads UTF-8, and UTF-16 and UTF-32 with a byte order mark.

    Args:
        path: the file.
        error: the type of error to raise.
        what: what messages call the file, for example `configuration file`.
        remedy: the remedy if it cannot be opened.

    Raises:
        WarpsmithError: as `error`; the file cannot be opened or is not text.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as cause:
        raise _unopened(path, cause, error, what, remedy) from cause
    return decode(data, str(path), error)


def read_json(path: str | Path, error: type[WarpsmithError] = TextError, what: str = "file", remedy: str = "") -> Any:
    """Return the contents of a JSON file; arguments and errors as for `read_text`."""
    text = read_text(path, error, what, remedy)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise error(f"{path} is not JSON: {cause}.", remedy or "Fix it or write it again.") from cause


def decode(data: bytes, where: str, error: type[WarpsmithError] = TextError) -> str:
    """Decode a file's bytes as `read_text` does; errors call the file `where`."""
    mark, encoding = _mark_of(data[:_LONGEST_MARK])
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as cause:
        raise _undecodable(where, encoding, data, len(mark) + cause.start, error) from cause
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise error(
            f"{where} is not text: line {line} contains a NUL character, as in UTF-16 without a byte order mark.",
            "Save it as UTF-8.",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode_anyhow(data: bytes) -> str:
    """Decode bytes that may not be text: byte order marks count, undecodable bytes become U+FFFD."""
    mark, encoding = _mark_of(data[:_LONGEST_MARK])
    return data[len(mark) :].decode(encoding, "replace")


def stream_lines(
    path: str | Path, error: type[WarpsmithError] = TextError, what: str = "file", remedy: str = ""
) -> Iterator[bytes]:
    """Yield the lines of a file of any size as UTF-8, without byte order mark; only a line feed ends a line.

    UTF-8 is not checked, so that the caller can name the invalid line.

    Raises:
        WarpsmithError: as `error`; the file cannot be opened or read, or is invalid UTF-16 or UTF-32.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            yield from _lines(file)
    except UnicodeDecodeError as cause:
        raise error(f"{path} is not valid {cause.encoding.upper()}: {cause.reason}.", "Save it as UTF-8.") from cause
    except OSError as cause:
        raise _unopened(path, cause, error, what, remedy) from cause


def files_in(folder: str | Path, suffixes: Collection[str], *, recursive: bool = True) -> list[Path]:
    """Return the files under a folder that have one of the suffixes, sorted, without leftovers of editors and systems.

    Skips hidden files and folders (`._X.py`, `.#X.py`, `.ipynb_checkpoints`) and backups (`X.py~`, `X.bak`).
    """
    folder = Path(folder)
    found = folder.rglob("*") if recursive else folder.glob("*")
    return sorted(
        path
        for path in found
        if path.suffix in suffixes and not any(map(is_leftover, path.relative_to(folder).parts)) and path.is_file()
    )


def is_leftover(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or an editor's backup or swap file."""
    return _LEFTOVER.fullmatch(name) is not None


def _mark_of(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark at the start of the bytes, and its encoding."""
    return next(((mark, encoding) for mark, encoding in _MARKS if head.startswith(mark)), (b"", "utf-8"))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    mark, encoding = _mark_of(file.read(_LONGEST_MARK))
    file.seek(len(mark))
    if encoding == "utf-8":
        yield from file
        return
    with io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
        for line in text:
            yield line.encode()


def _unopened(path: Path, cause: Exception, error: type[WarpsmithError], what: str, remedy: str) -> WarpsmithError:
    if isinstance(cause, FileNotFoundError):
        message = f"The {what} {path} does not exist."
    elif isinstance(cause, IsADirectoryError):
        message = f"{path} is a directory; a {what} was expected."
    else:
        message = f"The {what} {path} cannot be read: {cause.strerror if isinstance(cause, OSError) else cause}."
    return error(message, remedy or f"Give the path of a {what}.")


def _undecodable(where: str, encoding: str, data: bytes, at: int, error: type[WarpsmithError]) -> WarpsmithError:
    name = encoding.upper().removesuffix("-LE").removesuffix("-BE")
    line = data.count(b"\n", 0, at) + 1
    place = f"line {line}" if encoding == "utf-8" else f"byte {at}"
    byte = f" (byte 0x{data[at]:02x})" if at < len(data) else ""
    return error(f"{where} is not {name} text: {place} cannot be decoded{byte}.", "Save it as UTF-8.")
