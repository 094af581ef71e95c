"""The forms of a problem and of a candidate: paths are files, text is source. Importable without torch."""

import os
from pathlib import Path
from typing import Final, TypeAlias

from warpsmith.evaluator.problem import Problem, read_source
from warpsmith.records.errors import UsageError

GivenProblem: TypeAlias = Problem | str | os.PathLike[str]
"""A problem, its source, or the path of its file."""
GivenCandidate: TypeAlias = str | os.PathLike[str]
"""A candidate's source, or the path of its file."""

LONGEST_PATH: Final = 4096


def problem_of(given: GivenProblem) -> Problem:
    """Return the problem that a caller passed.

    Raises:
        BadProblemError: the file cannot be read, or is not a problem.
        UsageError: it has another type, or is text that can only be a path.
    """
    match given:
        case Problem():
            return given
        case str():
            if is_like_a_path(given):
                raise UsageError(f"problem is the text {given!r}; source or a path was expected.", pass_a_path(given))
            return Problem.from_source(given)
        case os.PathLike():
            return Problem.from_file(Path(given))
        case _:
            raise UsageError(
                f"problem is of type {type(given).__name__}; a Problem, its source or its file's path was expected.",
                "Pass pathlib.Path(file), the text of a module, or what Problem.from_file(file) returns.",
            )


def source_of(given: GivenCandidate) -> str:
    """Return the source of the candidate that a caller passed.

    Raises:
        UsageError: the file cannot be read, or it is neither text nor a path.
    """
    match given:
        case str():
            return given
        case os.PathLike():
            return _read(Path(given))
        case _:
            raise UsageError(
                f"candidate is of type {type(given).__name__}; Python source or the path of a file was expected.",
                "Pass the text of a module that defines ModelNew, or pathlib.Path(file).",
            )


def _read(path: Path) -> str:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise UsageError(f"The candidate {path} {what}.", "Give the path of a Python file that defines ModelNew.")
    return read_source(path)


def is_like_a_path(text: str) -> bool:
    """Whether text is a single line that names a Python file, which no module's source is."""
    name = text.strip()
    return name.endswith(".py") and len(name) <= LONGEST_PATH and len(name.splitlines()) == 1


def pass_a_path(text: str) -> str:
    """Return the remedy for a path that was given as text."""
    return f"To judge a file, pass pathlib.Path({text.strip()!r}); text is taken as the source itself."
