"""Problems in KernelBench's form, and the readers of their files. Importable without torch.

A problem is Python source with `class Model`, `get_inputs()` and `get_init_inputs()`. It is only parsed here, never
executed: a sandboxed reference worker does that.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.datasets.row_files import read_rows
from warpsmith.evaluator.errors import BadProblemError, DatasetError
from warpsmith.evaluator.parsing import parse
from warpsmith.records.text import files_in, read_text

REQUIRED: Final = ("Model", "get_inputs")
MOST_BRACES: Final = 10_000
"""Python's parsing time of an f-string is quadratic in its fields: 80,000 would block a server for ten seconds."""
MOST_DIGITS: Final = 9
"""Maximum digits of a problem's number: tables store 32 bits."""
BYTE_ORDER_MARK: Final = "\ufeff"
_FILE_NAME: Final = re.compile(r"(?P<id>\d+)_(?P<name>.+)(?<!\.solution)")
_LEVEL: Final = re.compile(r"level_?(?P<level>\d+)")


@dataclass(frozen=True)
class Problem:
    """One task: a PyTorch module to be rewritten with Triton kernels.

    Attributes:
        name: human-readable name, for example `19_ReLU`.
        source: the module's source, in KernelBench's form.
        level: the difficulty level of its collection, if it has one.
        source_id: its origin, for example `kernelbench/level1/19`.
        number: KernelBench's `problem_id`, which is unique within its level, if it has one.
    """

    name: str
    source: str
    level: int | None = None
    source_id: str = ""
    number: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source.removeprefix(BYTE_ORDER_MARK))
        _check_syntax(self.name, self.source)

    @staticmethod
    def from_source(source: str, name: str = "problem", level: int | None = None, source_id: str = "") -> "Problem":
        """Return the problem in `source`; BadProblemError if it has no `Model` or does not parse."""
        return Problem(name, source, level, source_id)

    @staticmethod
    def from_file(path: str | Path) -> "Problem":
        """Read a KernelBench file such as `level1/19_ReLU.py`; the level comes from the folder's name."""
        path = Path(path)
        level = _LEVEL.search(path.parent.name)
        return Problem(
            name=path.stem,
            source=read_source(path),
            level=int(level["level"]) if level else None,
            source_id=f"{path.parent.name}/{path.name}",
            number=_number_in(path.stem),
        )

    @cached_property
    def key(self) -> str:
        """SHA-256 of the source, used as key of caches."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


def read_source(path: str | Path) -> str:
    """Return the text of a Python file; BadProblemError if it cannot be read or is not text."""
    return read_text(path, BadProblemError, remedy="Give the path of a Python file.")


def load_directory(folder: str | Path) -> list[Problem]:
    """Read every `<id>_<Name>.py` of a KernelBench level folder, ordered by id."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DatasetError(
            f"{folder} is not a folder.", "Give a folder of KernelBench files, such as KernelBench/level1."
        )
    found = files_in(folder, {".py"}, recursive=False)
    numbered = [(int(match["id"]), path) for path in found if (match := _FILE_NAME.fullmatch(path.stem))]
    if not numbered:
        raise DatasetError(f"{folder} holds no file named <id>_<Name>.py.", "Give a folder of KernelBench files.")
    return [Problem.from_file(path) for _, path in sorted(numbered)]


def load_rows(path: str | Path) -> Iterator[Problem]:
    """Read problems from a `.jsonl`, `.json` or `.parquet` file with the columns of `from_row`."""
    for row, where in read_rows(path):
        yield from_row(row, where)


def load_jsonl(path: str | Path) -> Iterator[Problem]:
    """Read problems from JSON lines with the columns of `from_row`."""
    yield from load_rows(path)


def from_row(row: Any, where: str = "row") -> Problem:
    """Return the problem of one dataset row: KernelBench's columns, or TritonForge's `label` with `extra_info`.

    Raises:
        DatasetError: the row has other columns or types; the message names its place and its columns.
        BadProblemError: its source is not a problem.
    """
    match row:
        case {"code": str(source), "name": str(name), "level": int(level)}:
            number = _number(row.get("problem_id"), name, where)
            source_id = f"kernelbench/level{level}/{row.get('problem_id', name)}"
        case {"label": str(source), "extra_info": {"problem_name": str(name), "level": int(level)} as extra}:
            number = _number(extra.get("problem_id"), name, where)
            source_id = str(row.get("instance_id", f"{extra.get('data_source', '')}/{name}"))
        case _:
            raise DatasetError(
                f"The {where} is not a problem: it has {_columns(row)}.",
                "Expected the columns code (text), name (text), level (integer), as KernelBench has them, or label "
                "(text) and extra_info with problem_name and level (TritonForge).",
            )
    try:
        return Problem(name, source, level, source_id, number)
    except BadProblemError as error:
        raise DatasetError(f"The {where} is not a problem. {error.message}", error.remedy) from error


def _columns(row: Any) -> str:
    if not isinstance(row, dict):
        return f"no columns, it is a {type(row).__name__}"
    columns = [f"{str(name)[:40]} ({type(value).__name__})" for name, value in list(row.items())[:12]]
    return ", ".join(columns) or "no columns"


def _number(problem_id: Any, name: str, where: str) -> int | None:
    """Return a `problem_id`, which TritonForge writes as text, else the number at the start of the name."""
    match = _FILE_NAME.fullmatch(name)
    is_number = isinstance(problem_id, int | str) and str(problem_id).isdecimal()
    digits = str(problem_id) if is_number else match["id"] if match else ""
    if len(digits) > MOST_DIGITS:
        raise DatasetError(
            f"The {where} has a number of {len(digits)} digits; at most {MOST_DIGITS} were expected.",
            "Give a problem_id that is unique in its level, such as 19.",
        )
    return int(digits) if digits else None


def _number_in(stem: str) -> int | None:
    match = _FILE_NAME.fullmatch(stem)
    return int(match["id"]) if match else None


def _check_syntax(name: str, source: str) -> None:
    defined = _top_level_names(name, source)
    missing = [wanted for wanted in REQUIRED if wanted not in defined]
    if missing and "ModelNew" in defined:
        raise BadProblemError(
            f"Problem {name} defines no {' and no '.join(missing)}, but ModelNew: it is a candidate.",
            "Give the problem, which defines Model and get_inputs, first and the candidate second.",
        )
    if missing:
        raise BadProblemError(
            f"Problem {name} defines no {' and no '.join(missing)}.",
            "Expected `class Model(nn.Module)`, `get_inputs()` and, if the model takes arguments, `get_init_inputs()`.",
        )


def _top_level_names(name: str, source: str) -> set[str]:
    if source.count("{") > MOST_BRACES:
        raise BadProblemError(
            f"Problem {name} has more than {MOST_BRACES} opening braces, which takes too long to parse.",
            "Compute large tables instead of writing them.",
        )
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadProblemError(
            f"Problem {name} is not valid Python{line}: {reason}.", "Fix the problem's source."
        ) from error
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                names.add(node.name)
            case ast.Assign():
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.ImportFrom() | ast.Import():
                names.update(alias.asname or alias.name for alias in node.names)
    return names
