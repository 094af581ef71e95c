"""Rows of datasets in files: JSON lines, a JSON list, Parquet. Importable without pyarrow."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.errors import DatasetError
from warpsmith.records.text import read_text

Row = Mapping[str, Any]

FORMS: Final = (".jsonl", ".json", ".parquet")


def read_rows(path: str | Path) -> Iterator[tuple[Row, str]]:
    """Yield each row of a `.jsonl`, `.json` or `.parquet` file, with its place: `line 3 of rows.jsonl`.

    Raises:
        DatasetError: the file is missing or malformed, or has a row that is not an object; the message names its place.
    """
    path = Path(path)
    match path.suffix:
        case ".jsonl":
            yield from _json_lines(path)
        case ".json":
            yield from _json_list(path)
        case ".parquet":
            yield from _parquet(path)
        case _:
            raise DatasetError(f"{path} has no known form.", f"Give a file that ends in {_either(FORMS)}.")


def _json_lines(path: Path) -> Iterator[tuple[Row, str]]:
    # Not splitlines(): JSON strings can contain U+2028 and similar characters unescaped.
    for number, line in enumerate(read_text(path, DatasetError).split("\n"), start=1):
        if line.strip():
            where = f"line {number} of {path}"
            yield _object(_parsed(line, where), where), where


def _json_list(path: Path) -> Iterator[tuple[Row, str]]:
    rows = _parsed(read_text(path, DatasetError), str(path))
    if not isinstance(rows, list):
        raise DatasetError(f"{path} is not a JSON list.", "Give a list of rows, or one row per line in a .jsonl file.")
    for number, row in enumerate(rows, start=1):
        where = f"row {number} of {path}"
        yield _object(row, where), where


def _parquet(path: Path) -> Iterator[tuple[Row, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield row, f"row {number} of {path}"
    except OSError as error:
        raise DatasetError(f"Cannot read {path}: {error.strerror or error}.", "Give the path of a file.") from error
    except pa.ArrowException as error:
        raise DatasetError(f"{path} is not a readable Parquet file: {error}.", "Download or write it again.") from error


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "Give valid JSON; in a .jsonl file one object per line."
        raise DatasetError(f"{_sentence(where)} is not JSON: {error}.", remedy) from error


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, dict):
        raise DatasetError(
            f"{_sentence(where)} is a JSON {type(row).__name__}; an object was expected.",
            "Give one object per row, with column names as keys.",
        )
    return row


def _sentence(where: str) -> str:
    return where[:1].upper() + where[1:] if where.startswith(("line ", "row ")) else where


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
