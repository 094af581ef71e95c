"""What a caller may give as a problem and as a candidate: a path is a path, and text is source. Torch-free."""

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
    """Return the problem that a caller gave.

    Raises:
        BadProblemError: the file cannot be read, or what it holds is no problem.
        UsageError: it is something else, or text that can only be a path.
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
                f"problem is a {type(given).__name__}; a Problem, its source or the path of its file was expected.",
                "Pass pathlib.Path(file), the text of a module, or what Problem.from_file(file) returns.",
            )


def source_of(given: GivenCandidate) -> str:
    """Return the source of the candidate that a caller gave.

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
                f"candidate is a {type(given).__name__}; Python source or the path of a file was expected.",
                "Pass the text of a module that defines ModelNew, or pathlib.Path(file).",
            )


def _read(path: Path) -> str:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise UsageError(f"The candidate {path} {what}.", "Give the path of a Python file that defines ModelNew.")
    return read_source(path)


def is_like_a_path(text: str) -> bool:
    """Whether text is one line that names a Python file, as no module's source does."""
    name = text.strip()
    return name.endswith(".py") and len(name) <= LONGEST_PATH and len(name.splitlines()) == 1


def pass_a_path(text: str) -> str:
    """Return the remedy for a path that was given as text."""
    return f"To have a file judged, pass pathlib.Path({text.strip()!r}); text is taken as the source itself."
