"""Folders of such data sets: where each document is, and which of them belong together. Nothing is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.traces.files import read_document, read_lines, wrong
from warpsmith.evaluator.traces.problems import FormatName, PlacedWorkload, problem_of
from warpsmith.evaluator.traces.schema import Definition, FlashInferDefinition, Workload, WorkloadTrace
from warpsmith.records.text import files_in

DatasetFormat = Literal["kernelbench", "flashinfer", "sol"]
DEFINITION: Final = "definition.json"
WORKLOADS: Final = "workload.jsonl"
LAYOUTS: Final[dict[FormatName, str]] = {
    "flashinfer": "definitions/**/*.json and workloads/**/*.jsonl",
    "sol": f"folders with {DEFINITION} and {WORKLOADS}",
}


@dataclass(frozen=True)
class Entry:
    """A definition with its workloads.

    Attributes:
        definition: the definition.
        file: where it was read from.
        workloads: its input sets; empty if the data set has none.
        roots: folders that paths of tensor files are relative to.
    """

    definition: Definition
    file: Path
    workloads: tuple[PlacedWorkload, ...]
    roots: tuple[Path, ...]

    def problem(self, format: FormatName) -> Problem:
        """Return it as a problem with workloads; TraceFormatError as for `problems.problem_of`."""
        return problem_of(self.definition, self.workloads, format=format, roots=self.roots, where=str(self.file))


@dataclass(frozen=True)
class TraceDataset:
    """A data set's definitions and workloads.

    Attributes:
        root: its folder.
        format: whose layout and rules it follows.
        entries: by the definition's name, in alphabetical order.
    """

    root: Path
    format: FormatName
    entries: dict[str, Entry]


def format_of(place: str | Path) -> DatasetFormat:
    """Return the format of a folder by its files: `kernelbench` for all that has no layout of the others."""
    place = Path(place)
    if (place / "definitions").is_dir():
        return "flashinfer"
    if place.is_dir() and next(_problem_folders(place), None) is not None:
        return "sol"
    return "kernelbench"


def read_dataset(place: str | Path, format: FormatName, tensors: Path | None = None) -> TraceDataset:
    """Read the definitions and workloads of a folder.

    Args:
        place: FlashInfer-trace's root; SOL-ExecBench's folder of a problem, or any above such folders.
        format: whose layout it has.
        tensors: a folder that paths of tensor files may be relative to, besides the layout's own.

    Raises:
        DatasetError: there is no definition.
        TraceFormatError: a document is malformed, two definitions have one name, or a workload is of none of them.
    """
    place = Path(place)
    readers: dict[FormatName, Callable[[Path], Iterator[Entry]]] = {"flashinfer": _flashinfer, "sol": _sol}
    entries: dict[str, Entry] = {}
    for read in readers[format](place):
        entry = replace(read, roots=(*read.roots, tensors)) if tensors else read
        name = entry.definition.name
        if name in entries:
            raise wrong(str(entry.file), "name", f"{name} is the name of {entries[name].file} too")
        entries[name] = entry
    if not entries:
        raise DatasetError(f"{place} has no definition; expected {LAYOUTS[format]}.", "Give the data set's own folder.")
    return TraceDataset(place, format, dict(sorted(entries.items())))


def _flashinfer(root: Path) -> Iterator[Entry]:
    found: dict[str, list[PlacedWorkload]] = {}
    places: dict[str, str] = {}
    for file in _files(root / "workloads", ".jsonl"):
        for line, where in read_lines(file, WorkloadTrace):
            found.setdefault(line.definition, []).append(PlacedWorkload(line.workload, where))
            places.setdefault(line.definition, where)
    names = set()
    for file in _files(root / "definitions", ".json"):
        definition = read_document(file, FlashInferDefinition)
        names.add(definition.name)
        yield Entry(definition, file, tuple(found.get(definition.name, ())), (root,))
    if strangers := sorted(found.keys() - names):
        raise wrong(places[strangers[0]], "definition", f"there is no definition {strangers[0]!r} in {root}")


def _sol(root: Path) -> Iterator[Entry]:
    for folder in sorted(_problem_folders(root)):
        file = folder / DEFINITION
        workloads = tuple(PlacedWorkload(one, where) for one, where in read_lines(folder / WORKLOADS, Workload))
        yield Entry(read_document(file, Definition), file, workloads, (folder, root))


def _problem_folders(root: Path) -> Iterator[Path]:
    return (path.parent for path in root.rglob(DEFINITION))


def _files(folder: Path, suffix: str) -> list[Path]:
    return files_in(folder, {suffix}) if folder.is_dir() else []
