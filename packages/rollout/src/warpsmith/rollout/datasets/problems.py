"""Readers of problems: generated ones, KernelBench directories, JSON lines of chat prompts."""

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from warpsmith.evaluator.bench.generations import LAYOUT
from warpsmith.evaluator.datasets.row_files import FORMS, read_rows
from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.problem import Problem, from_row
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.records.errors import UsageError
from warpsmith.records.text import files_in, read_text
from warpsmith.rollout.errors import DatasetError
from warpsmith.rollout.generator import GeneratedProblem, Grade, Size, SolutionLanguage, Split, generate
from warpsmith.rollout.generator.gpu.sizes import GPU_BYTES, ByteRange

_SOLUTION = ".solution.py"
_OPERATIONS: Final = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.AugAssign)
GENERATED: Final = "generated/"
"""Start of the `source` of generated problems."""


@dataclass(frozen=True)
class ProblemRow:
    """A problem as environments and episodes see it.

    Args:
        name: the problem's unique name in a run.
        text: its source in KernelBench's form.
        level: difficulty, or None if the data set has none.
        source: the data set it comes from.
        solution: a known correct answer, or None.
        composition: what a generated problem computes; None for others.
        naive: a known answer that is correct but slow, or None.
    """

    name: str
    text: str
    level: int | None
    source: str
    solution: str | None = None
    composition: str | None = None
    naive: str | None = None

    @property
    def start(self) -> str | None:
        """The correct kernel that an optimizer starts from: the slow answer if known, otherwise the known answer."""
        return self.naive or self.solution

    @property
    def operations(self) -> int:
        """Size of the problem: calls and operators in the classes of its source; `super().__init__()` does not count.

        A measure that needs no run of the source. What a loop repeats, or a library call contains, counts once.

        Raises:
            BadProblemError: the source is not a problem.
        """
        self.to_problem()
        classes = [node for node in parse(self.text).body if isinstance(node, ast.ClassDef)]
        nodes = [node for one in classes for node in ast.walk(one)]
        begins = sum(isinstance(node, ast.Call) and ast.unparse(node.func).startswith("super(") for node in nodes)
        # `super().__init__()` is two calls.
        return sum(isinstance(node, _OPERATIONS) for node in nodes) - 2 * begins

    @property
    def usual_operators(self) -> OperatorPolicy:
        """What a kernel for it may compute with torch, unless a setting says so: its whole work if it is generated.

        KernelBench asks for kernels for a part of the module, alongside library operators.
        """
        return "none" if self.source.startswith(GENERATED) else "library"

    def to_problem(self) -> Problem:
        """Return it as the evaluator's problem.

        Raises:
            BadProblemError: the source is not a problem.
        """
        return Problem(self.name, self.text, self.level, self.source)


def generated(
    *,
    seed: int,
    count: int,
    split: Split = "train",
    levels: Sequence[int] = (1, 2, 3),
    size: Size = "cpu",
    language: SolutionLanguage = "triton",
    touched: ByteRange = GPU_BYTES,
) -> list[ProblemRow]:
    """Return generated problems, as by `generator.generate`; `source` is `generated/<split>`."""
    problems = generate(
        seed=seed, count=count, split=split, levels=levels, size=size, language=language, touched=touched
    )
    return [from_generated(problem, split) for problem in problems]


def from_generated(problem: GeneratedProblem, split: str) -> ProblemRow:
    """Return a generated problem as a row."""
    return ProblemRow(
        name=problem.name,
        text=problem.source,
        level=problem.level,
        source=f"{GENERATED}{split}",
        solution=problem.solution,
        composition=problem.composition,
        naive=problem.naive,
    )


def with_solution(row: ProblemRow, grade: Grade) -> ProblemRow:
    """Return a problem whose known answer has a given grade.

    Raises:
        UsageError: the naive answer is requested, and the problem has none.
    """
    if grade == "good":
        return row
    if row.naive is None:
        raise UsageError(
            f"Problem {row.name} has no naive solution; only generated problems of size gpu have one.",
            'Ask for size "gpu", or for good solutions.',
        )
    return replace(row, solution=row.naive)


def kernelbench_directory(root: str | Path) -> list[ProblemRow]:
    """Read the `.py` files under a directory, ordered by level and number; `<name>.solution.py` is a solution.

    Raises:
        DatasetError: the directory is missing or has no problems.
        BadProblemError: a file is not in KernelBench's form.
    """
    directory = Path(root)
    if not directory.is_dir():
        raise DatasetError(f"{directory} is not a directory.", "Pass a directory of KernelBench problems.")
    files = sorted(files_in(directory, {".py"}), key=_natural)
    problems = [_from_file(file) for file in files if not file.name.endswith(_SOLUTION)]
    if not problems:
        raise DatasetError(f"{directory} has no .py files.", "Pass a directory such as KernelBench/level1.")
    return problems


def write_directory(
    problems: Sequence[ProblemRow], root: str | Path, *, generations: str | Path | None = None
) -> list[Path]:
    """Write `level<L>/<number>_<name>.py`, numbered from 1 in each level as in KernelBench; return these files.

    A known solution is written next to its problem as `<number>_<name>.solution.py`.

    Args:
        problems: a problem without a level is written as level 0.
        root: the folder to write to; created if missing.
        generations: a folder for the solutions as well, in the layout of a KernelBench run.

    Raises:
        DatasetError: one of the folders has other Python files, which would be taken for problems or answers;
            `generations` is in `root`; or a file exists with other content.
    """
    counts: Counter[int] = Counter()
    problem_files, others = {}, {}
    for problem in problems:
        level = problem.level or 0
        counts[level] += 1
        stem = Path(root) / f"level{level}" / f"{counts[level]}_{problem.name}"
        problem_files[stem.with_name(f"{stem.name}.py")] = problem.text
        if problem.solution is not None:
            others[stem.with_name(f"{stem.name}{_SOLUTION}")] = problem.solution
            if generations is not None:
                name = LAYOUT.format(L=level, P=counts[level], S=0)
                others[Path(generations) / name] = problem.solution
    files = problem_files | others
    _check_alone(Path(root), None if generations is None else Path(generations), files)
    for folder in {path.parent for path in files}:
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    return [*problem_files]


def _check_alone(root: Path, generations: Path | None, files: Mapping[Path, str]) -> None:
    """Reject folders with other files, which would be read back too or be overwritten."""
    found = {*files_in(root, {".py"})}
    if generations is not None:
        if root.resolve() in (place := generations.resolve(), *place.parents):
            raise DatasetError(
                f"The solutions ({generations}) would be in the folder of the problems ({root}), read as problems.",
                "Choose a folder next to it for the solutions.",
            )
        found |= {*files_in(generations, {".py"}, recursive=False)}
    others = sorted(path for path in found if path not in files or path.read_bytes() != files[path].encode())
    if others:
        raise DatasetError(
            f"{others[0].parent} already has other Python files, such as {others[0].name[:80]}.",
            "Choose a folder that is new or empty, or remove the files from this one.",
        )


def kernelbench_jsonl(path: str | Path) -> list[ProblemRow]:
    """Read rows with `label` (the reference's source), `instance_id` and `extra_info`, or with KernelBench's columns.

    A column `solution` with text is a known correct answer. Also reads Parquet files and JSON lists of such rows.

    Raises:
        warpsmith.evaluator.errors.DatasetError: a line is not such a row; the message names the line.
    """
    found = []
    for row, where in read_rows(path):
        problem, solution = from_row(row, where), row.get("solution")
        known = solution if isinstance(solution, str) and solution.strip() else None
        found.append(ProblemRow(problem.source_id, problem.source, problem.level, Path(path).name, known))
    return found


def read_problems(path: str | Path) -> list[ProblemRow]:
    """Read a directory of KernelBench problems, or a `.jsonl`, `.json` or `.parquet` file."""
    location = Path(path)
    if location.suffix in FORMS:
        return kernelbench_jsonl(location)
    return kernelbench_directory(location)


def _from_file(file: Path) -> ProblemRow:
    problem = Problem.from_file(file)
    solution = file.with_name(f"{file.stem}{_SOLUTION}")
    return ProblemRow(
        name=problem.name,
        text=problem.source,
        level=problem.level,
        source=f"directory/{file.parent.name}",
        solution=read_text(solution, DatasetError) if solution.exists() else None,
    )


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Return a sort key that puts 2_X before 10_Y."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", str(path)) if part]
