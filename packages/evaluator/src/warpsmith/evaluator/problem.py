"""Problems in KernelBench's form, and the readers of the files they come in. Importable without torch.

A problem is Python source with `class Model`, `get_inputs()` and `get_init_inputs()`. It is never executed here: only
its syntax is looked at. Executing it is the work of a sandboxed reference worker.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.errors import BadProblemError

REQUIRED: Final = ("Model", "get_inputs")
_FILE_NAME: Final = re.compile(r"(?P<id>\d+)_(?P<name>.+)")
_LEVEL: Final = re.compile(r"level_?(?P<level>\d+)")


@dataclass(frozen=True)
class Problem:
    """One task: a PyTorch module to be rewritten with Triton kernels.

    Attributes:
        name: what people call it, for example `19_ReLU`.
        source: the module's source, in KernelBench's form.
        level: the difficulty level of its collection, if it has one.
        source_id: where it comes from, for example `kernelbench/level1/19`.
    """

    name: str
    source: str
    level: int | None = None
    source_id: str = ""

    def __post_init__(self) -> None:
        _check_syntax(self.name, self.source)

    @staticmethod
    def from_source(source: str, name: str = "problem", level: int | None = None, source_id: str = "") -> "Problem":
        """Return the problem that `source` holds; BadProblemError if it has no `Model` or does not parse."""
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
        )

    @cached_property
    def key(self) -> str:
        """SHA-256 of the source: what caches go by."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


def read_source(path: str | Path) -> str:
    """Return the text of a Python file; BadProblemError if it cannot be read or is not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadProblemError(f"Cannot read {path}: {error.strerror}.", "Give the path of a Python file.") from error
    except UnicodeDecodeError as error:
        raise BadProblemError(f"{path} is not UTF-8 text.", "Give the path of a Python file.") from error


def load_directory(folder: str | Path) -> list[Problem]:
    """Read every `<id>_<Name>.py` of a KernelBench level folder, in the order of the ids."""
    folder = Path(folder)
    if not folder.is_dir():
        raise BadProblemError(
            f"{folder} is no folder.", "Give a folder of KernelBench files, such as KernelBench/level1."
        )
    numbered = [(int(match["id"]), path) for path in folder.glob("*.py") if (match := _FILE_NAME.fullmatch(path.stem))]
    if not numbered:
        raise BadProblemError(f"{folder} holds no file named <id>_<Name>.py.", "Give a folder of KernelBench files.")
    return [Problem.from_file(path) for _, path in sorted(numbered)]


def load_jsonl(path: str | Path) -> Iterator[Problem]:
    """Read problems from JSON lines with the columns that `from_row` knows."""
    for number, line in enumerate(read_source(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadProblemError(
                f"Line {number} of {path} is not JSON: {error.msg}.", "Give one JSON object a line."
            ) from error
        yield from_row(row, f"line {number} of {path}")


def from_row(row: Any, where: str = "row") -> Problem:
    """Return the problem of one dataset row: KernelBench's columns, or TritonForge's `label` with `extra_info`."""
    match row:
        case {"code": str(source), "name": str(name), "level": int(level)}:
            return Problem(name, source, level, f"kernelbench/level{level}/{row.get('problem_id', name)}")
        case {"label": str(source), "extra_info": {"problem_name": str(name), "level": int(level)} as extra}:
            return Problem(name, source, level, str(row.get("instance_id", f"{extra.get('data_source', '')}/{name}")))
        case _:
            raise BadProblemError(
                f"The {where} is no problem.",
                "Expected the columns code, name, level (KernelBench) or label, extra_info (TritonForge).",
            )


def _check_syntax(name: str, source: str) -> None:
    defined = _top_level_names(name, source)
    missing = [wanted for wanted in REQUIRED if wanted not in defined]
    if missing:
        raise BadProblemError(
            f"Problem {name} defines no {' and no '.join(missing)}.",
            "Expected `class Model(nn.Module)`, `get_inputs()` and, if the model takes arguments, `get_init_inputs()`.",
        )


def _top_level_names(name: str, source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadProblemError(
            f"Problem {name} is not valid Python{line}: {reason}.", "Mend the problem's source."
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
