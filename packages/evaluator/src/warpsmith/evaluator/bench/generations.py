"""Generations in KernelBench's layout: `runs/NAME/level_{L}_problem_{P}_sample_{S}_kernel.py`. Read-only."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

from warpsmith.evaluator.datasets.kernelbench import is_text
from warpsmith.evaluator.problem import MOST_DIGITS
from warpsmith.records.errors import UsageError
from warpsmith.records.text import decode_anyhow, files_in

LAYOUT: Final = "level_{L}_problem_{P}_sample_{S}_kernel.py"
_NUMBER: Final = rf"(\d{{1,{MOST_DIGITS}}})"
_FILE_NAME: Final = re.compile(rf"level_{_NUMBER}_problem_{_NUMBER}_sample_{_NUMBER}_kernel\.py", re.ASCII)


@dataclass(frozen=True)
class Generation:
    """One answer of a model.

    Attributes:
        level: level of the problem.
        number: KernelBench's `problem_id`.
        sample: number of the answer to this problem, from 0.
        path: the file.
    """

    level: int
    number: int
    sample: int
    path: Path

    def problem_title(self, name: str = "") -> str:
        """Return how messages name the problem: by its place in the dataset, and by `name` if that is given."""
        return f"level {self.level} problem {self.number}{f' ({name})' if name else ''}"

    def title(self, name: str = "") -> str:
        """Return how messages name the answer; `name` is the problem's."""
        return f"{self.problem_title(name)} sample {self.sample}"

    @cached_property
    def source(self) -> str:
        """The candidate. Bytes that are not text become U+FFFD: a model wrote them, so they get a verdict."""
        return decode_anyhow(self.path.read_bytes())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the candidate's text."""
        return digest(self.source)


@dataclass(frozen=True)
class Run:
    """The content of a run's folder.

    Attributes:
        folder: the run.
        generations: those of the requested levels, ordered by level, problem and sample.
        unrecognized: Python files whose name does not match the layout.
    """

    folder: Path
    generations: tuple[Generation, ...]
    unrecognized: tuple[str, ...]


def read_run(folder: str | Path, levels: Collection[int] = ()) -> Run:
    """Find the generations of a run.

    Args:
        folder: the run, such as `runs/NAME` in KernelBench's tree.
        levels: levels to keep; all if empty.

    Raises:
        UsageError: the folder is missing, its name is not Unicode, or it has no generation.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", f"Give a KernelBench run: a folder with files {LAYOUT}.")
    if not is_text(folder.resolve().name):
        raise UsageError(f"The name of the run {str(folder)!r} is not valid Unicode.", "Give the folder another name.")
    matches = {path: _FILE_NAME.fullmatch(path.name) for path in files_in(folder, {".py"}, recursive=False)}
    found = [_generation(match, path) for path, match in matches.items() if match]
    kept = [one for one in found if not levels or one.level in levels]
    if not kept:
        elsewhere = f" of the levels {', '.join(map(str, levels))}" if found else ""
        raise UsageError(
            f"{folder} holds no generation{elsewhere}; files named {LAYOUT} were expected.",
            "Give the run that KernelBench's generate_samples wrote, for example runs/NAME.",
        )
    kept.sort(key=lambda one: (one.level, one.number, one.sample))
    _check_unique(kept)
    return Run(folder, tuple(kept), tuple(path.name for path, match in matches.items() if not match))


def _generation(match: re.Match[str], path: Path) -> Generation:
    level, number, sample = map(int, match.groups())
    return Generation(level, number, sample, path)


def _check_unique(generations: list[Generation]) -> None:
    """Reject two names of one sample, such as `sample_1` and `sample_01`."""
    for one, other in pairwise(generations):
        if (one.level, one.number, one.sample) == (other.level, other.number, other.sample):
            raise UsageError(f"{one.path} and {other.path.name} name one sample.", "Remove one of the two.")


def digest(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
