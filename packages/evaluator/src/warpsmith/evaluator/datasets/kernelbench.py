"""Collections of problems in the forms in which KernelBench is distributed. Nothing is downloaded or written."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from warpsmith.evaluator.datasets.row_files import FORMS
from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.problem import MOST_DIGITS, Problem, load_directory, load_rows
from warpsmith.records.text import files_in

FORMS_OF_DATASETS: Final = (
    "Give a KernelBench checkout, its folder KernelBench, one of its folders level1 to level4, a folder of Parquet "
    "files as Hugging Face has them, or a .parquet, .jsonl or .json file with the columns code, level, name and "
    "problem_id, or with TritonForge's label and extra_info."
)
LARGEST: Final = 10**MOST_DIGITS - 1
_LEVEL_FOLDER: Final = re.compile(r"level_?(\d+)")
_PARQUET_OF_LEVEL: Final = re.compile(r"level_(\d+)-\d+-of-\d+\.parquet")


def load_problems(place: str | Path, levels: Collection[int] = (), *, may_lack: bool = False) -> list[Problem]:
    """Read a collection of problems, ordered by level and number.

    Args:
        place: a KernelBench checkout or a folder of it, a folder of Parquet files, or a file of rows.
        levels: levels to keep; all if empty.
        may_lack: whether a missing level is ignored instead of an error.

    Raises:
        DatasetError: the place has no known form, a row or file is not a problem, a problem has no level or number, two
            have the same, or a requested level is missing.
    """
    place = Path(place)
    numbered: dict[tuple[int, int], Problem] = {}
    for problem in _read(place, levels):
        key = _key(problem, place)
        if key in numbered:
            raise DatasetError(
                f"{place} has two problems {key[1]} of level {key[0]}: {numbered[key].name} and {problem.name}.",
                "Remove one of the two; generations are identified by level and number alone.",
            )
        numbered[key] = problem
    wanted = set(levels) or {level for level, _ in numbered}
    if not may_lack:
        _check_levels(place, wanted, {level for level, _ in numbered})
    return [numbered[key] for key in sorted(numbered) if key[0] in wanted]


def is_text(name: str) -> bool:
    """Whether a name can be encoded as UTF-8; a path can hold other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _key(problem: Problem, place: Path) -> tuple[int, int]:
    if problem.level is None or problem.number is None:
        missing = "level" if problem.level is None else "number"
        raise DatasetError(
            f"Problem {problem.source_id or problem.name} of {place} has no {missing}.",
            "Expected a file level1/19_ReLU.py, or a row with level and problem_id.",
        )
    if not (0 <= problem.level <= LARGEST and 0 <= problem.number <= LARGEST):
        raise DatasetError(
            f"Problem {problem.name[:80]!r} of {place} has a level or number outside 0 to {LARGEST}.",
            "Number levels from 1, and problems from 1 in their level, as KernelBench does.",
        )
    if not is_text(problem.name):
        raise DatasetError(f"The name {problem.name[:80]!r} in {place} is not valid Unicode.", "Give it another name.")
    return problem.level, problem.number


def _check_levels(place: Path, wanted: set[int], found: set[int]) -> None:
    if missing := sorted(wanted - found):
        raise DatasetError(
            f"{place} has no problem of level {', '.join(map(str, missing))}.",
            "Leave out the missing levels, or give another dataset; KernelBench has the levels 1 to 4.",
        )


def _read(place: Path, levels: Collection[int]) -> Iterator[Problem]:
    if place.suffix in FORMS and not place.is_dir():
        yield from load_rows(place)
    elif not place.is_dir():
        raise DatasetError(f"There is no dataset {place}.", FORMS_OF_DATASETS)
    elif folders := _level_folders(place):
        for level in sorted(level for level in folders if not levels or level in levels):
            yield from load_directory(folders[level])
    elif files := _parquet_files(place):
        for file in files:
            yield from load_rows(file) if _may_hold(file, levels) else ()
    else:
        raise DatasetError(f"{place} holds no problems of a known form.", FORMS_OF_DATASETS)


def _level_folders(place: Path) -> dict[int, Path]:
    """Return the level folders of a checkout, of the folder in it, or `place` if it is one itself."""
    if match := _LEVEL_FOLDER.fullmatch(place.resolve().name):
        return {int(match[1]): place.resolve()}
    for parent in (place / "KernelBench", place):
        found = {int(match[1]): path for path in _folders(parent) if (match := _LEVEL_FOLDER.fullmatch(path.name))}
        if found:
            return found
    return {}


def _folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []


def _parquet_files(place: Path) -> list[Path]:
    found = (files_in(folder, {".parquet"}, recursive=False) for folder in (place, place / "data"))
    return next(filter(None, found), [])


def _may_hold(file: Path, levels: Collection[int]) -> bool:
    match = _PARQUET_OF_LEVEL.fullmatch(file.name)
    return match is None or not levels or int(match[1]) in levels
