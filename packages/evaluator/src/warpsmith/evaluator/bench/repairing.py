"""Writes a dataset of repaired problems, and reads which problems of a dataset are repaired."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.datasets.repairs import SETS, ProblemRepairs, Repaired, RepairSet, repaired
from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file

REPAIRS: Final = "repairs.json"
FORMAT: Final = 1
_LEVEL: Final = re.compile(r"level_?\d+")
_SAFE_NAME: Final = re.compile(r"[\w.,()+=-]+", re.ASCII)


@dataclass(frozen=True)
class Written:
    """A written dataset.

    Attributes:
        problems: all its problems, repaired or not.
        folder: where they are.
        report: the content of `repairs.json`.
    """

    problems: list[Repaired]
    folder: Path
    report: dict[str, Any]


def write_repaired(
    dataset: Path,
    out: Path,
    sets: Collection[RepairSet] = SETS,
    levels: Sequence[int] = (),
    repairs: Iterable[ProblemRepairs] | None = None,
) -> Written:
    """Write a whole dataset with the repairs of `sets`, as `levelL/N_Name.py`, and `repairs.json`.

    The same call writes the same bytes again. `repairs.json` comes first: after a stop, `repaired_in` refuses a folder
    whose problems do not agree with it, until the call is made again.

    Args:
        dataset: where the problems are; see `datasets.load_problems`. It is not written to.
        out: the folder; new, empty, or written by this function for the same problems.
        sets: which repairs to make.
        levels: levels to write; all if empty.
        repairs: the repairs to choose from; those of this package by default.

    Raises:
        DatasetError: the problems cannot be read, or a change does not fit.
        UsageError: the dataset is repaired already, or `out` belongs to it or holds other files.
        OutputError: the operating system refused to write.
    """
    _check_original(dataset)
    _check_apart(dataset, out)
    problems = repaired(load_problems(dataset, levels), sets, repairs)
    paths = [out / f"level{one.problem.level}" / _file_name(one.problem) for one in problems]
    _check_usable(out, set(paths))
    report = _report(dataset, sets, problems)
    write_file(out / REPAIRS, json.dumps(report, indent=2) + "\n")
    for one, path in zip(problems, paths, strict=True):
        path.parent.mkdir(exist_ok=True)
        write_file(path, one.problem.source)
    return Written(problems, out, report)


def repaired_in(dataset: Path, problems: Sequence[Problem]) -> list[str]:
    """Return the names of repaired problems among those read from `dataset`, with the sets of repairs.

    Raises:
        DatasetError: `repairs.json` is damaged, or says something else than a problem's source.
    """
    held = _held(dataset)
    names = []
    for problem in problems:
        entry = held.get((problem.level, problem.number))
        if entry is None:
            continue
        if entry["sha256"] != problem.key:
            raise DatasetError(
                f"Problem {problem.number} of level {problem.level} in {dataset} is not the one that {REPAIRS} names.",
                "Run `warpsmith-evaluator repair` again with the same arguments, or into a new folder.",
            )
        if entry["sets"]:
            names.append(f"level {problem.level} problem {problem.number} ({', '.join(entry['sets'])})")
    return names


def _check_original(dataset: Path) -> None:
    """Refuse a repaired dataset: its copies would be taken for problems of another revision, unmarked."""
    if any(entry["sets"] for entry in _held(dataset).values()):
        raise UsageError(
            f"{dataset} is a repaired dataset, as its {REPAIRS} says.", "Pass the checkout that it was made from."
        )


def _report(dataset: Path, sets: Collection[RepairSet], problems: Sequence[Repaired]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "dataset": str(dataset),
        "sets": [name for name in SETS if name in sets],
        "problems": [_entry(one) for one in problems],
    }


def _entry(one: Repaired) -> dict[str, Any]:
    return {
        "level": one.problem.level,
        "number": one.problem.number,
        "name": one.problem.name,
        "sha256": one.problem.key,
        "original_sha256": one.original.key,
        "sets": list(one.repairs),
        "reasons": [repair.reason for repair in one.repairs.values()],
        "changes": [
            {"place": change.where(), "old": change.old, "new": change.new}
            for repair in one.repairs.values()
            for change in repair.changes
        ],
        "remains": [repair.remains for repair in one.repairs.values() if repair.remains],
        "other_revision": one.other_revision,
        "beyond_repair": one.beyond_repair,
    }


def _held(dataset: Path) -> dict[tuple[int | None, int | None], dict[str, Any]]:
    """Return the entries of the `repairs.json` next to the dataset's levels; empty without one."""
    place = dataset.resolve()
    path = (place.parent if _LEVEL.fullmatch(place.name) else place) / REPAIRS
    if not path.is_file():
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["format"] != FORMAT:
            raise ValueError(f"format {held['format']!r}")
        entries = {(entry["level"], entry["number"]): entry for entry in held["problems"]}
        [[entry[name] for name in ("sha256", "sets")] for entry in entries.values()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path} cannot be read: {error!r}.", "Run `warpsmith-evaluator repair` again.") from error
    return entries


def _file_name(problem: Problem) -> str:
    name = problem.name if problem.name.startswith(f"{problem.number}_") else f"{problem.number}_{problem.name}"
    if not _SAFE_NAME.fullmatch(name) or len(name) > 200:
        raise DatasetError(
            f"The name {name[:80]!r} cannot be a file's.", "Use letters, digits, _ and -, at most 200 characters."
        )
    return f"{name}.py"


def _check_apart(dataset: Path, out: Path) -> None:
    root, place = _root(dataset.resolve()), out.resolve()
    if root.is_dir() and (place == root or root in place.parents or place in root.parents):
        raise UsageError(
            f"{out} and the dataset {root} lie one in the other; a dataset is never written to.",
            "Give --output a folder elsewhere, for example kernelbench_repaired beside the checkout.",
        )


def _root(dataset: Path) -> Path:
    """Return the checkout of a level folder or of a folder `KernelBench`; else the dataset itself."""
    if _LEVEL.fullmatch(dataset.name):
        dataset = dataset.parent
    if dataset.name == "KernelBench" and (dataset.parent / ".git").exists():
        return dataset.parent
    return dataset


def _check_usable(out: Path, paths: Collection[Path]) -> None:
    if not out.exists():
        out.mkdir(parents=True)
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file.", "Give --output a folder.")
    foreign = sorted(path for path in out.rglob("*") if path.is_file() and path not in paths and path.name != REPAIRS)
    levels = _levels_written(out) if foreign else []
    if levels and all(path.parent.parent == out and path.parent.name in levels for path in foreign):
        given = ",".join(name.removeprefix("level") for name in levels)
        raise UsageError(
            f"{out} has problems of an earlier repair that this one would not write, such as "
            f"{foreign[0].parent.name}/{foreign[0].name}: that repair was of the levels {given}.",
            f"Give --levels {given} again, or --output a new folder.",
        )
    if foreign:
        raise UsageError(
            f"{out} holds other files, such as {foreign[0].name}.", "Give --output a new folder, or an empty one."
        )


def _levels_written(out: Path) -> list[str]:
    """Return the names of the levels' folders that an earlier repair wrote; none if its report is damaged or missing.

    The caller then names a file that it does not know.
    """
    try:
        return [f"level{level}" for level in sorted({level or 0 for level, _ in _held(out)})]
    except DatasetError:
        return []
