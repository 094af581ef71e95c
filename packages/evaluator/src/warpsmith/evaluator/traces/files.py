"""Reading the documents: JSON files, and files of JSON lines. Every error names the file, the line and the field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from warpsmith.evaluator.errors import DatasetError
from warpsmith.records.text import read_text

Document = TypeVar("Document", bound=BaseModel)
FORMATS = "docs/traces.md describes the formats."


class TraceFormatError(DatasetError):
    """A file of a data set of traces breaks its format; the message names file, line and field."""


def read_document(path: Path, kind: type[Document]) -> Document:
    """Return the document of a JSON file.

    Raises:
        TraceFormatError: it cannot be read, is not JSON, or a field is missing or wrong.
    """
    return validated(_parsed(read_text(path, TraceFormatError, remedy=FORMATS), str(path)), kind, str(path))


def read_lines(path: Path, kind: type[Document]) -> Iterator[tuple[Document, str]]:
    """Yield the document of each line of a file of JSON lines, with its place; errors as for `read_document`."""
    for number, line in enumerate(read_text(path, TraceFormatError, remedy=FORMATS).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield validated(_parsed(line, where), kind, where), where


def validated(value: Any, kind: type[Document], where: str) -> Document:
    """Return a value as a document; TraceFormatError that names its place and the first wrong field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise wrong(where, field, message) from error


def wrong(where: str, field: str, message: str) -> TraceFormatError:
    """Return the error for a field of a document; no field if the message names it."""
    return TraceFormatError(f"{where}: {f'field {field}: ' if field else ''}{message}.", FORMATS)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"{where} is not JSON: {error}.", FORMATS) from error
