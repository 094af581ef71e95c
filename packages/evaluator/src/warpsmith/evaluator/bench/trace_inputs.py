"""The inputs of a bench on a data set of traces: solutions in its own form, or candidates in ours, as generations.

The rest of a bench knows problems by level and number, and answers by sample. So definitions that have answers are
numbered by name in one level, and so are the answers to each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.bench.generations import Generation, Run
from warpsmith.evaluator.bench.scoring import Answer
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.traces.dataset import DEFINITION, Entry, TraceDataset, read_dataset
from warpsmith.evaluator.traces.files import read_document, wrong
from warpsmith.evaluator.traces.problems import FormatName
from warpsmith.evaluator.traces.results import traces_of, write_solution, write_traces
from warpsmith.evaluator.traces.schema import Solution, Trace
from warpsmith.evaluator.traces.solutions import UnadaptedError, candidate_of, solution_of
from warpsmith.records.errors import UsageError
from warpsmith.records.text import decode_anyhow, files_in

LEVEL: Final = 1


@dataclass(frozen=True)
class Answered(Generation):
    """An answer to a definition.

    Attributes:
        definition: the definition's name.
        name: the solution's name.
        author: its author; for a candidate in our form the name of its folder.
        own: whether it is a candidate in our form, to be written as a solution.
        text: the candidate.
    """

    definition: str = ""
    name: str = ""
    author: str = ""
    own: bool = False
    text: str = ""

    def problem_title(self, name: str = "") -> str:
        """See `Generation`: by the definition, since level and number are only ours."""
        return f"definition {self.definition}"

    def title(self, name: str = "") -> str:
        """See `Generation`."""
        return f"{self.problem_title(name)} candidate {self.name}"

    @property
    def source(self) -> str:
        """The candidate."""
        return self.text


@dataclass(frozen=True)
class TraceInputs:
    """What a bench on a data set of traces judges.

    Attributes:
        dataset: definitions and workloads.
        problems: those that have answers.
        run: the answers.
        set_aside: what is not judged, with the reason.
    """

    dataset: TraceDataset
    problems: list[Problem]
    run: Run
    set_aside: tuple[str, ...]


def read_inputs(dataset: Path, generations: Path, format: FormatName, tensors: Path | None = None) -> TraceInputs:
    """Read a data set and the answers to it.

    Args:
        dataset: the data set; see `traces.dataset.read_dataset`.
        generations: a folder with solutions as `.json` and candidates as `DEFINITION.py` or `DEFINITION.LABEL.py`, at
            any depth; the data set itself for its own solutions.
        format: the data set's.
        tensors: a folder that paths of tensor files may be relative to.

    Raises:
        DatasetError: the data set or a solution is malformed, or two solutions of a definition have one name.
        UsageError: there is no answer that can be judged.
    """
    read = read_dataset(dataset, format, tensors)
    if not generations.is_dir():
        raise UsageError(f"There is no folder {generations}.", "Give a folder with solutions (.json) or candidates.")
    set_aside: list[str] = []
    answers: dict[str, list[Answered]] = {}
    names: dict[tuple[str, str], Path] = {}
    for answer in _answers(read, generations, set_aside):
        known = names.setdefault((answer.definition, answer.name), answer.path)
        if known != answer.path:
            raise wrong(str(answer.path), "name", f"{answer.name} is the name of {known} too")
        answers.setdefault(answer.definition, []).append(answer)
    if not answers:
        why = f": {'; '.join(set_aside[:3])}" if set_aside else ""
        raise UsageError(
            f"{generations} has no answer that can be judged{why}.",
            "Give a folder with solutions (.json), or candidates named DEFINITION.py.",
        )
    problems = [_problem(read, name, number) for number, name in enumerate(sorted(answers), start=1)]
    numbered = [one for number, name in enumerate(sorted(answers), 1) for one in _numbered(answers[name], number)]
    return TraceInputs(read, problems, Run(generations, tuple(numbered), ()), tuple(set_aside))


def write_results(inputs: TraceInputs, answers: list[Answer], out: Path, language: str) -> list[Path]:
    """Write the traces of judged answers, and candidates in our form as solutions; return the paths.

    Answers in another language than the one that is judged get neither.

    Args:
        inputs: what was judged.
        answers: its verdicts.
        out: folder of the traces.
        language: kernel language of the candidates.
    """
    traces: dict[tuple[str, str], list[Trace]] = {}
    paths: list[Path] = []
    for answer in answers:
        one = answer.generation
        if answer.state != "judged" or not isinstance(one, Answered) or answer.verdict is None:
            continue
        if answer.in_other_language:
            # It fails here because of what this command was asked to judge, and a trace would blame the solution.
            continue
        assert answer.outcome is not None  # a judged answer has one
        entry, format = inputs.dataset.entries[one.definition], inputs.dataset.format
        if one.own:
            document = solution_of(
                one.text, entry.definition, name=one.name, author=one.author, format=format, language=language
            )
            paths.append(write_solution(out, format, entry.definition, document))
        workloads = {placed.workload.uuid: placed.workload for placed in entry.workloads}
        found = traces_of(
            entry.definition,
            workloads,
            one.name,
            answer.verdict,
            timestamp=answer.outcome.finished_at,
            format=format,
        )
        traces.setdefault((one.definition, one.author), []).extend(found)
    entries = inputs.dataset.entries
    for (name, author), written in sorted(traces.items()):
        paths.append(write_traces(out, inputs.dataset.format, entries[name].definition, author, written))
    return paths


def _problem(dataset: TraceDataset, name: str, number: int) -> Problem:
    problem = dataset.entries[name].problem(dataset.format)
    return Problem(problem.name, problem.source, LEVEL, problem.source_id, number)


def _numbered(answers: list[Answered], number: int) -> Iterator[Answered]:
    for sample, one in enumerate(sorted(answers, key=lambda answer: answer.name)):
        known: dict[str, Any] = {name: getattr(one, name) for name in ("path", "definition", "name", "author", "own")}
        yield Answered(LEVEL, number, sample, text=one.text, **known)


def _answers(dataset: TraceDataset, folder: Path, set_aside: list[str]) -> Iterator[Answered]:
    """Yield the answers of a folder; what cannot be judged is added to `set_aside` with the reason."""
    for path in _solution_files(dataset, folder):
        solution = read_document(path, Solution)
        entry = dataset.entries.get(solution.definition)
        try:
            definition = _checked(entry, solution.definition).definition
            text = candidate_of(solution, definition, dataset.format)
        except UnadaptedError as error:
            set_aside.append(f"{path.name}: {error}")
            continue
        yield Answered(LEVEL, 0, 0, path, solution.definition, solution.name, solution.author, text=text)
    for path in files_in(folder, {".py"}):
        name = _definition_of(dataset, path)
        if name is None:
            # The data set's own folders hold Python files that are not answers.
            if folder.resolve() != dataset.root.resolve():
                set_aside.append(f"{path.name}: no definition has this name")
            continue
        try:
            _checked(dataset.entries[name], name)
        except UnadaptedError as error:
            set_aside.append(f"{path.name}: {error}")
            continue
        text = decode_anyhow(path.read_bytes())
        yield Answered(LEVEL, 0, 0, path, name, path.stem, path.resolve().parent.name, own=True, text=text)


def _checked(entry: Entry | None, name: str) -> Entry:
    """Return a definition that candidates can be judged on; UnadaptedError for any other."""
    if entry is None:
        raise UnadaptedError(f"there is no definition {name!r}")
    if entry.definition.obstacle:
        raise UnadaptedError(f"definition {name} cannot be judged: {entry.definition.obstacle}")
    if not entry.workloads:
        raise UnadaptedError(f"definition {name} has no workload")
    return entry


def _solution_files(dataset: TraceDataset, folder: Path) -> list[Path]:
    """Return the files of solutions: all JSON of a folder of answers, those of the layout in a data set."""
    if folder.resolve() != dataset.root.resolve():
        return files_in(folder, {".json"})
    if dataset.format == "flashinfer":
        own = folder / "solutions"
        return files_in(own, {".json"}) if own.is_dir() else []
    return [
        path for path in files_in(folder, {".json"}) if path.name.startswith("solution") and path.name != DEFINITION
    ]


def _definition_of(dataset: TraceDataset, path: Path) -> str | None:
    """Return the definition that a candidate's file is named after: the longest name that fits."""
    fitting = [name for name in dataset.entries if path.stem == name or path.stem.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)
