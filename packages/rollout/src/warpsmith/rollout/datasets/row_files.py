"""Rows of files, one at a time: JSON, Parquet, Arrow, CSV. A malformed row is reported, not raised."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.text import decode, files_in, is_leftover, read_json, stream_lines
from warpsmith.rollout.datasets.refusals import Refusal
from warpsmith.rollout.errors import DatasetError

Row = Mapping[str, Any]

FORMS: Final = (".jsonl", ".json", ".parquet", ".arrow", ".csv")
COLUMNAR: Final = (".parquet", ".arrow", ".csv")
"""Forms that name their columns once, for all rows."""
_ROWS_AT_ONCE: Final = 256
_WILD: Final = frozenset("*?[")
_REMEDY: Final = "Download or write it again, or remove it."
_LONGEST_FIELD: Final = 1 << 28


def find_files(paths: Sequence[Path], error: type[WarpsmithError] = DatasetError) -> list[Path]:
    """Return the files selected by paths, directories and patterns, sorted by name.

    Args:
        paths: a file, a directory of files, or a pattern such as `data/*.parquet`, each.
        error: the type of error to raise.

    Raises:
        WarpsmithError: as `error`; a path does not exist, a directory or pattern has no matching file, or a file has
            another format.
    """
    return [file for path in paths for file in _files_of(path, error)]


def _files_of(path: Path, error: type[WarpsmithError]) -> list[Path]:
    if path.is_file():
        if path.suffix not in FORMS:
            raise error(f"{path} has an unknown format.", f"Use files that end in {', '.join(FORMS)}.")
        return [path]
    if path.is_dir():
        found = iter(files_in(path, FORMS))
    elif _WILD & set(str(path)):
        found = (file for file in _matching(path) if file.suffix in FORMS and file.is_file() and not _is_left(file))
    else:
        raise error(f"There is no file {path}.", "Fix the path.")
    files = sorted(found)
    if not files:
        raise error(f"{path} has no file that ends in {', '.join(FORMS)}.", "Fix the path.")
    return files


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield the matches of a pattern; `**` matches directories of any depth."""
    plain = [part for part in pattern.parents if not _WILD & set(str(part))]
    return plain[0].glob(str(pattern.relative_to(plain[0])))


def _is_left(file: Path) -> bool:
    """Whether a pattern matched an editor's leftover, or a file in a leftover folder."""
    return is_leftover(file.name) or is_leftover(file.parent.name)


def count_rows(file: Path, error: type[WarpsmithError] = DatasetError) -> int:
    """Estimate how many rows a file has; only a JSON list and Arrow are decoded for this.

    Raises:
        WarpsmithError: as `error`; it cannot be read.
    """
    match file.suffix:
        case ".parquet":
            with _parquet(file, error) as opened:
                return int(opened.metadata.num_rows)
        case ".arrow":
            return sum(len(batch) for batch in _arrow_batches(file, error))
        case ".json":
            return sum(1 for _ in _json_list(file, error))
    try:
        with file.open("rb") as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except OSError as cause:
        raise _unreadable(file, cause, error) from cause


def columns_of(file: Path, error: type[WarpsmithError] = DatasetError) -> tuple[str, ...] | None:
    """Return the names of a file's columns; None for JSON, whose rows name their own.

    Raises:
        WarpsmithError: as `error`; it cannot be read.
    """
    match file.suffix:
        case ".parquet":
            with _parquet(file, error) as opened:
                return tuple(opened.schema_arrow.names)
        case ".arrow":
            with _arrow(file, error) as reader:
                return tuple(reader.schema.names)
        case ".csv":
            return _csv(file, error)[0]
        case _:
            return None


def stream_rows(
    file: Path, columns: Sequence[str], error: type[WarpsmithError] = DatasetError
) -> Iterator[tuple[str, Row | Refusal]]:
    """Yield (place, row) for each row of a file, or instead of the row the reason why it cannot be read.

    Args:
        file: in one of `FORMS`. A JSON list and CSV are read as a whole, the others in parts.
        columns: the columns of Parquet, Arrow and CSV to read, if present.
        error: the type of error to raise.

    Raises:
        WarpsmithError: as `error`; the file as a whole cannot be read, or has none of the columns.
    """
    match file.suffix:
        case ".parquet":
            yield from _in_batches(file, _parquet_batches(file, columns, error))
        case ".arrow":
            yield from _in_batches(file, _arrow_batches(file, error, columns))
        case ".csv":
            yield from _csv_rows(file, columns, error)
        case ".json":
            yield from (
                (f"row {n} of {file}", _object(row, f"row {n} of {file}")) for n, row in _json_list(file, error)
            )
        case _:
            yield from (
                (f"line {n} of {file}", _parsed(line, f"line {n} of {file}")) for n, line in _lines(file, error)
            )


def row_batches(file: Path, error: type[WarpsmithError] = DatasetError) -> Iterator[Any]:
    """Yield the rows of a Parquet or Arrow file as batches of pyarrow, with all columns.

    Raises:
        WarpsmithError: as `error`; it cannot be read.
    """
    return _parquet_batches(file, (), error) if file.suffix == ".parquet" else _arrow_batches(file, error)


def _lines(file: Path, error: type[WarpsmithError]) -> Iterator[tuple[int, bytes]]:
    # As bytes: text would also be split at U+2028, which JSON may contain unescaped.
    lines = stream_lines(file, error, remedy=_REMEDY)
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


def _json_list(file: Path, error: type[WarpsmithError]) -> Iterator[tuple[int, Any]]:
    rows = read_json(file, error, remedy="Pass a JSON list, or one row per line in a .jsonl file.")
    if not isinstance(rows, list):
        raise error(f"{file} is not a JSON list.", "Pass a list of rows, or one row per line in a .jsonl file.")
    return enumerate(rows, start=1)


def _in_batches(file: Path, batches: Iterator[Any]) -> Iterator[tuple[str, Row | Refusal]]:
    number = 0
    for batch in batches:
        for row in _plain(batch):
            number += 1
            place = f"row {number} of {file}"
            yield place, _damaged(place, row) if isinstance(row, ValueError) else row


def _damaged(place: str, error: ValueError) -> Refusal:
    said = str(error)
    text = isinstance(error, UnicodeDecodeError) or "UTF8" in said
    return Refusal("not UTF-8 text" if text else "damaged", place, said)


def _plain(batch: Any) -> list[Any]:
    """Return the rows of a batch; instead of one that is damaged or not UTF-8, the error, a ValueError."""
    try:
        # For a text with a negative length Python raises a SystemError, for one beyond the buffer anything can happen.
        batch.validate(full=True)
        return list(batch.to_pylist())
    except ValueError as error:
        return [error] if len(batch) == 1 else [row for n in range(len(batch)) for row in _plain(batch.slice(n, 1))]


def _parquet(file: Path, error: type[WarpsmithError]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as cause:
        raise _unreadable(file, cause, error) from cause


def _parquet_batches(file: Path, columns: Sequence[str], error: type[WarpsmithError]) -> Iterator[Any]:
    import pyarrow as pa

    with _parquet(file, error) as opened:
        there = _there(file, opened.schema_arrow.names, columns, error)
        try:
            yield from opened.iter_batches(_ROWS_AT_ONCE, columns=there)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as cause:
            raise _unreadable(file, cause, error) from cause


def _there(file: Path, names: Sequence[str], columns: Sequence[str], error: type[WarpsmithError]) -> list[str]:
    """Return the wanted columns that a file has; all that are there if none are wanted."""
    there = [name for name in columns if name in names]
    if columns and not there:
        raise error(
            f"{file} has none of the columns {', '.join(columns)}; it has {', '.join(names)}.",
            "Use another file, or the type that these columns belong to.",
        )
    return there or list(names)


@contextmanager
def _arrow(file: Path, error: type[WarpsmithError]) -> Iterator[Any]:
    """Open Arrow's file format, or its stream format, in which `datasets` caches its tables."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(file)) as source:
            yield _arrow_reader(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as cause:
        raise _unreadable(file, cause, error) from cause


def _arrow_reader(source: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _arrow_batches(file: Path, error: type[WarpsmithError], columns: Sequence[str] = ()) -> Iterator[Any]:
    with _arrow(file, error) as reader:
        there = _there(file, reader.schema.names, columns, error)
        batches = (
            (reader.get_batch(number) for number in range(reader.num_record_batches))
            if hasattr(reader, "num_record_batches")
            else reader
        )
        for batch in batches:
            for start in range(0, len(batch), _ROWS_AT_ONCE):
                yield batch.select(there).slice(start, _ROWS_AT_ONCE)


def _csv(file: Path, error: type[WarpsmithError]) -> tuple[tuple[str, ...], Iterator[list[str]]]:
    """Return the columns of a CSV file, and its rows."""
    try:
        data = file.read_bytes()
    except OSError as cause:
        raise _unreadable(file, cause, error) from cause
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(io.StringIO(decode(data, str(file), error), newline=""), strict=True)
    try:
        header = next(reader, [])
    except csv.Error as cause:
        raise _unreadable(file, cause, error) from cause
    if not header:
        raise error(f"{file} is empty; a first line with the names of the columns was expected.", _REMEDY)
    return tuple(header), reader


def _csv_rows(file: Path, columns: Sequence[str], error: type[WarpsmithError]) -> Iterator[tuple[str, Row | Refusal]]:
    header, reader = _csv(file, error)
    there = set(_there(file, header, columns, error))
    number = 0
    while True:
        number += 1
        place = f"row {number} of {file}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as cause:
            yield place, Refusal("not CSV", place, str(cause))
            continue
        if len(cells) == len(header):
            yield place, {name: cell for name, cell in zip(header, cells, strict=True) if name in there}
        else:
            detail = f"{len(cells)} cells for {len(header)} columns"
            yield place, Refusal("another number of cells than columns", place, detail)


def _unreadable(file: Path, cause: Exception, error: type[WarpsmithError]) -> WarpsmithError:
    return error(f"{file} cannot be read: {cause}.", _REMEDY)
