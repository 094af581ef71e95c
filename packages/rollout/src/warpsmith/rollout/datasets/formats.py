"""What a reader of a data set is: named columns, and a function from a row to an entry.

A reader of another package is an entry point in `warpsmith.datasets`; docs/extending.md has the recipe.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.languages.cuda_cpp.with_triton import CUDA_CPP
from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets.problems import ProblemRow
from warpsmith.rollout.datasets.refusals import BadRow, Refusal, checked_text
from warpsmith.rollout.datasets.row_files import Row, columns_of, find_files, stream_rows
from warpsmith.rollout.errors import DatasetError

Language = Literal["triton", "cuda_cpp"]
ColumnType = Literal["text", "integer", "number", "boolean", "object"]
_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_MOST_NAMED: Final = 24


@dataclass(frozen=True)
class Column:
    """A column that a reader uses.

    Attributes:
        field: what the reader uses it for: `problem`, `kernel`, `level`, ...
        name: its published name.
        type: of its values; numbers and booleans may also be written as text, as in CSV.
        meaning: one line for `warpsmith-rollout datasets`.
        required: whether a row without it cannot be used.
        nullable: whether the value of a required column may be missing.
    """

    field: str
    name: str
    type: ColumnType
    meaning: str
    required: bool = True
    nullable: bool = False


@dataclass(frozen=True)
class Claim:
    """What a data set says about a kernel; None where it says nothing.

    Attributes:
        correct: whether it is correct.
        speedup: over the reference as written (eager PyTorch).
        error: how it failed.
    """

    correct: bool | None = None
    speedup: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Entry:
    """One row of a data set: a problem, and the kernel that claims to solve it if there is one.

    Attributes:
        name: the problem's name, the same for all rows of a problem.
        problem: its source in KernelBench's form.
        level: its level, or None.
        kernel: the candidate, a module that defines `ModelNew`, or None.
        language: the candidate's kernel language.
        claim: what the data set says about the kernel.
        others: other published sources of the same problem.
        label: the row's own name in its data set, or an empty string.
        file: the file that it comes from.
        place: where it is, for example `row 3 of level_1.parquet`.
    """

    name: str
    problem: str
    level: int | None = None
    kernel: str | None = None
    language: Language = "triton"
    claim: Claim = Claim()
    others: tuple[str, ...] = ()
    label: str = ""
    file: Path = Path()
    place: str = ""

    @cached_property
    def key(self) -> str:
        """Identifies what is judged: 24 hexadecimal digits of a hash of problem, kernel and language."""
        return _digest(self.problem, self.kernel or "", self.language)

    @cached_property
    def problem_key(self) -> str:
        """Identifies the problem: 24 hexadecimal digits of a hash of its source."""
        return _digest(self.problem)

    def as_problem(self) -> Problem:
        """Return the problem for the evaluator."""
        return Problem(self.name, self.problem, self.level)

    def as_row(self, source: str) -> ProblemRow:
        """Return the problem for prompts; `source` names the data set."""
        return ProblemRow(self.name, self.problem, self.level, source, self.kernel)


def language_in(kernel: str) -> Language:
    """Return the language of a kernel, by its text: CUDA C++ if it builds extensions, perhaps alongside Triton."""
    return "cuda_cpp" if CUDA_CPP.is_in(kernel) else "triton"


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:24]


class Cells:
    """The values of a row by field, with their types checked.

    Args:
        row: the values by column.
        columns: the columns by field.
    """

    def __init__(self, row: Row, columns: Mapping[str, Column]) -> None:
        self.row, self.columns = row, columns

    def value(self, field: str) -> Any:
        """Return a value unchanged; None if it is missing.

        Raises:
            BadRow: it is missing and required.
        """
        column = self.columns[field]
        value = self.row.get(column.name)
        if column.required and column.name not in self.row:
            there = ", ".join(map(str, list(self.row)[:_MOST_NAMED]))
            raise BadRow(f"no column {column.name}", f"its columns are {there}")
        if column.required and not column.nullable and (value is None or value == ""):
            raise BadRow(f"no value in the column {column.name}")
        return value

    def text(self, field: str) -> str:
        """Return a text, which may not be blank if it is required; an empty text if it is missing.

        Raises:
            BadRow: it is missing and required, is not text, or cannot be encoded.
        """
        value, column = self.value(field), self.columns[field]
        if value is None:
            return ""
        if not isinstance(value, str):
            raise BadRow(f"{column.name} is not a text", f"it is a {type(value).__name__}")
        if column.required and not column.nullable and not value.strip():
            raise BadRow(f"no value in the column {column.name}")
        return checked_text(value)

    def number(self, field: str) -> float | None:
        """Return a finite number; None if it is missing, NaN or infinite.

        Raises:
            BadRow: it is missing and required, or is not a number.
        """
        value = self.value(field)
        if value is None or value == "":
            return None
        try:
            found = float(value) if isinstance(value, str | int | float) else math.nan
        except (ValueError, OverflowError):
            raise BadRow(f"{self.columns[field].name} is not a number", repr(value)[:80]) from None
        return found if math.isfinite(found) else None

    def integer(self, field: str) -> int | None:
        """Return an integer that fits a table of records; errors as for `number`."""
        found = self.number(field)
        if found is None:
            return None
        if not found.is_integer() or abs(found) >= 1 << 31:
            raise BadRow(f"{self.columns[field].name} is not an integer", repr(found))
        return int(found)

    def boolean(self, field: str) -> bool | None:
        """Return a boolean; errors as for `number`."""
        value = self.value(field)
        if value is None or isinstance(value, bool) or value == "":
            return None if value == "" else value
        found = _TRUTHS.get(str(value).strip().lower())
        if found is None:
            raise BadRow(f"{self.columns[field].name} is neither true nor false", repr(value)[:80])
        return found


class DatasetReader(ABC):
    """Reads one published form of data sets.

    Class attributes:
        name: its `type`.
        title: the data set, in one line.
        schema: its columns.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    schema: ClassVar[tuple[Column, ...]]

    @abstractmethod
    def entry(self, cells: Cells) -> Entry:
        """Return a row's entry, without `file` and `place`.

        Raises:
            BadRow: the row cannot be used.
        """

    def columns(self, renamed: Mapping[str, str]) -> dict[str, Column]:
        """Return the columns by field, some of them renamed.

        Raises:
            UsageError: there is no such field.
        """
        found = {column.field: column for column in self.schema}
        for field, name in renamed.items():
            if field not in found:
                raise UsageError(
                    f"Data sets of type {self.name} have no field {field!r}.", f"The fields are {', '.join(found)}."
                )
            found[field] = replace(found[field], name=name)
        return found

    def reads(self, path: Path) -> bool:
        """Whether the first file of `path` has all required columns; of JSON, its first row."""
        files = find_files([path])[:1]
        names = columns_of(files[0]) or _columns_of_first_row(files[0])
        return bool(self.schema) and all(column.name in names for column in self.schema if column.required)

    def check(self, path: Path, renamed: Mapping[str, str]) -> list[Path]:
        """Return the files of a data set, after a look at the columns that they name.

        Raises:
            DatasetError: there is no file, or one lacks a required column.
            UsageError: `renamed` has an unknown field.
        """
        wanted = [column.name for column in self.columns(renamed).values() if column.required]
        files = find_files([path])
        for file in files:
            names = columns_of(file)
            missing = [name for name in wanted if names is not None and name not in names]
            if missing:
                raise DatasetError(
                    f"{file} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}, which row 1 and all "
                    f"others of type {self.name} need; it has {', '.join((names or ())[:_MOST_NAMED])}.",
                    "Give the data set as it was published, name its type with --type, or its columns with "
                    "--column FIELD=NAME; `warpsmith-rollout datasets` lists types and columns.",
                )
        return files

    def entries(self, path: Path, renamed: Mapping[str, str]) -> Iterator[Entry | Refusal]:
        """Yield the entry of each row, or why the row cannot be used.

        Raises:
            DatasetError: as `check`, or a file cannot be read.
            UsageError: as `check`.
        """
        columns = self.columns(renamed)
        for file in self.check(path, renamed):
            for place, row in stream_rows(file, [column.name for column in columns.values()]):
                yield row if isinstance(row, Refusal) else self._entry(Cells(row, columns), file, place)

    def _entry(self, cells: Cells, file: Path, place: str) -> Entry | Refusal:
        try:
            entry = replace(self.entry(cells), file=file, place=place)
            entry.as_problem()
        except BadRow as bad:
            return bad.at(place)
        except BadProblemError as error:
            return Refusal("its problem is not in KernelBench's form", place, error.message)
        return entry


def _columns_of_first_row(file: Path) -> Sequence[str]:
    rows = (row for _, row in stream_rows(file, ()) if not isinstance(row, Refusal))
    return [str(name) for name in next(rows, {})]
