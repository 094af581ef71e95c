"""Rows of files, one at a time: JSON lines, a JSON list, Parquet. A malformed row is reported, not raised."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpsmith.records.text import files_in, is_leftover, read_json, stream_lines
from warpsmith.trainer.data.sample import Refusal
from warpsmith.trainer.errors import DataError

Row = Mapping[str, Any]

FORMS = (".jsonl", ".json", ".parquet")
_ROWS_AT_ONCE = 256
_WILD = frozenset("*?[")
_REMEDY = "Download or write it again, or remove it from `path`."


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files selected by paths, directories and patterns, sorted by name.

    Raises:
        DataError: a path does not exist, a directory or pattern has no matching file, or a file has another format.
    """
    return [file for path in paths for file in _files_of(path)]


def _files_of(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in FORMS:
            raise DataError(f"{path} has an unknown format.", f"Use files that end in {', '.join(FORMS)}.")
        return [path]
    if path.is_dir():
        found = iter(files_in(path, FORMS))
    elif _WILD & set(str(path)):
        found = (file for file in _matching(path) if file.suffix in FORMS and file.is_file() and not _is_left(file))
    else:
        raise DataError(f"There is no file {path}.", "Fix `path` of the source.")
    files = sorted(found)
    if not files:
        raise DataError(f"{path} has no file that ends in {', '.join(FORMS)}.", "Fix `path` of the source.")
    return files


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield the matches of a pattern; `**` matches directories of any depth."""
    plain = [part for part in pattern.parents if not _WILD & set(str(part))]
    return plain[0].glob(str(pattern.relative_to(plain[0])))


def _is_left(file: Path) -> bool:
    """Whether a pattern matched an editor's leftover, or a file in a leftover folder."""
    return is_leftover(file.name) or is_leftover(file.parent.name)


def count_rows(file: Path) -> int:
    """Return about how many rows a file has; only a JSON list is decoded for this.

    Raises:
        DataError: it cannot be read.
    """
    if file.suffix == ".parquet":
        with _parquet(file) as opened:
            return int(opened.metadata.num_rows)
    if file.suffix == ".json":
        return sum(1 for _ in _json_list(file))
    try:
        with file.open("rb") as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except OSError as error:
        raise _unreadable(file, error) from error


def stream_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[str, Row | Refusal]]:
    """Yield (place, row) for each row of a file, or instead of the row the reason why it cannot be read.

    Args:
        file: in one of `FORMS`. JSON lines and Parquet are read in parts, a JSON list as a whole.
        columns: the columns of Parquet to read, if present.

    Raises:
        DataError: the file as a whole cannot be read.
    """
    match file.suffix:
        case ".parquet":
            yield from _parquet_rows(file, columns)
        case ".json":
            yield from ((f"row {n} of {file}", _object(row, f"row {n} of {file}")) for n, row in _json_list(file))
        case _:
            yield from ((f"line {n} of {file}", _parsed(line, f"line {n} of {file}")) for n, line in _lines(file))


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    # As bytes: text would also be split at U+2028, which JSON may contain unescaped.
    lines = stream_lines(file, DataError, remedy=_REMEDY)
    yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _parsed(line: bytes, place: str) -> Row | Refusal:
    try:
        return _object(json.loads(line), place)
    except UnicodeDecodeError as error:
        return Refusal("not UTF-8 text", place, str(error))
    except (ValueError, RecursionError) as error:
        return Refusal("not JSON", place, str(error))


def _object(value: Any, place: str) -> Row | Refusal:
    if isinstance(value, dict):
        return value
    return Refusal("not an object with columns as names", place, f"a JSON {type(value).__name__}")


def _json_list(file: Path) -> Iterator[tuple[int, Any]]:
    rows = read_json(file, DataError, remedy="Pass a JSON list, or one row per line in a .jsonl file.")
    if not isinstance(rows, list):
        raise DataError(f"{file} is not a JSON list.", "Pass a list of rows, or one row per line in a .jsonl file.")
    return enumerate(rows, start=1)


def _parquet(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _parquet_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[str, Row | Refusal]]:
    import pyarrow as pa

    number = 0
    with _parquet(file) as opened:
        there = [name for name in columns if name in opened.schema_arrow.names]
        if not there:
            raise DataError(
                f"{file} has none of the columns {', '.join(columns)}; it has {', '.join(opened.schema_arrow.names)}.",
                "Use another file, or the source type that these columns belong to.",
            )
        try:
            for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=there):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number} of {file}", row
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file} cannot be read: {error}.", _REMEDY)
