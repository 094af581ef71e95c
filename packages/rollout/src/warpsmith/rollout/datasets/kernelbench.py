"""KernelBench: a checkout, the hub's columns, TritonForge's JSON lines; also directories of generated problems."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.errors import DatasetError as BadRowError
from warpsmith.evaluator.problem import Problem, from_row
from warpsmith.records.errors import UsageError
from warpsmith.records.text import files_in, read_text
from warpsmith.rollout.datasets.formats import Cells, Column, DatasetReader, Entry, language_in
from warpsmith.rollout.datasets.refusals import BadRow, Refusal
from warpsmith.rollout.datasets.row_files import columns_of, find_files
from warpsmith.rollout.errors import DatasetError

_NAMES: Final = re.compile(r"\d+_.+")
_SOLUTION: Final = ".solution.py"
_LEVEL_FOLDER: Final = re.compile(r"level_?\d+")


class KernelbenchReader(DatasetReader):
    """Reads problems. Kernels are only there as `<name>.solution.py`, which `warpsmith-rollout problems` writes."""

    name = "kernelbench"
    title = "KernelBench: a checkout, the hub's columns, or rows with label and extra_info"
    schema: ClassVar = (
        Column("problem", "code", "text", "the module"),
        Column("level", "level", "integer", "its level"),
        Column("name", "name", "text", "its name, without .py"),
        Column("number", "problem_id", "integer", "its number in the level", required=False),
        Column("label", "label", "text", "in place of these: the module", required=False),
        Column("instance", "instance_id", "text", "with label: the row's name", required=False),
        Column("extra", "extra_info", "object", "with label: problem_name, level, problem_id", required=False),
    )

    def reads(self, path: Path) -> bool:
        """See `DatasetReader`."""
        if folders(path):
            return True
        file = find_files([path])[0]
        rows = super().reads(path)
        return rows or (file.suffix in (".json", ".jsonl") and _has_label(self, file))

    def check(self, path: Path, renamed: Mapping[str, str]) -> list[Path]:
        """See `DatasetReader`."""
        if found := folders(path):
            return found
        files = find_files([path])
        if all({"label", "extra_info"} <= set(columns_of(file) or ("label", "extra_info")) for file in files):
            return files
        return super().check(path, renamed)

    def entries(self, path: Path, renamed: Mapping[str, str]) -> Iterator[Entry | Refusal]:
        """See `DatasetReader`."""
        found = folders(path)
        if not found:
            yield from super().entries(path, renamed)
        elif renamed:
            raise UsageError(f"{path} holds files of Python, which have no columns.", "Leave out --column.")
        for file in found:
            yield from map(_from_file, _problem_files(file))

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        columns = {field: column.name for field, column in cells.columns.items()}
        row = dict(cells.row)
        if row.get("label") is None:
            row |= {"code": cells.text("problem"), "name": cells.text("name"), "level": cells.integer("level")}
            row["problem_id"] = row.get(columns["number"])
        try:
            problem = from_row(row)
        except (BadRowError, BadProblemError) as error:
            raise BadRow("not a problem of KernelBench", error.message) from None
        return Entry(_name(problem), problem.source, problem.level, label=problem.source_id)


def _name(problem: Problem) -> str:
    numbered = problem.number is None or _NAMES.fullmatch(problem.name)
    name = problem.name if numbered else f"{problem.number}_{problem.name}"
    return name if problem.level is None else f"level{problem.level}/{name}"


def _has_label(reader: DatasetReader, file: Path) -> bool:
    return any(isinstance(one, Entry) for one, _ in zip(reader.entries(file, {}), range(8), strict=False))


def folders(path: Path) -> list[Path]:
    """Return the folders of a checkout that hold problems, by level; none if it has no Python file of a problem.

    Raises:
        DatasetError: there is nothing at `path`.
    """
    if not path.exists() and not set("*?[") & set(str(path)):
        raise DatasetError(f"There is no data set {path}.", "Give a file, a directory, or a pattern in quotes.")
    for parent in (path / "KernelBench", path):
        if parent.is_dir():
            levels = [one for one in parent.iterdir() if one.is_dir() and _LEVEL_FOLDER.fullmatch(one.name)]
            if levels:
                return sorted(levels, key=_numbers)
    return [path] if path.is_dir() and _problem_files(path) else []


def _problem_files(folder: Path) -> list[Path]:
    found = files_in(folder, {".py"}, recursive=False)
    return sorted(
        (file for file in found if _NAMES.fullmatch(file.stem) and not file.name.endswith(_SOLUTION)), key=_numbers
    )


def _numbers(path: Path) -> tuple[int, str]:
    found = re.search(r"\d+", path.name)
    return int(found[0]) if found else 0, path.name


def _from_file(file: Path) -> Entry | Refusal:
    solution = file.with_name(f"{file.stem}{_SOLUTION}")
    try:
        problem = Problem.from_file(file)
        kernel = read_text(solution, DatasetError) if solution.exists() else None
    except (BadProblemError, DatasetError) as error:
        return Refusal("its problem is not in KernelBench's form", str(file), error.message)
    return Entry(
        _name(problem),
        problem.source,
        problem.level,
        kernel,
        language_in(kernel or ""),
        label=problem.source_id,
        file=file,
        place=str(file),
    )


KERNELBENCH: Final = KernelbenchReader()
