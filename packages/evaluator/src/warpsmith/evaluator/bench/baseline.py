"""KernelBench's stored reference times: `{"level1": {"1_X.py": {"mean": milliseconds, ...}}}`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError
from warpsmith.records.text import read_json

FORM: Final = (
    'Give a file like KernelBench\'s results/timing/*/*.json: {"level1": {"1_X.py": {"mean": 1.5}}}, milliseconds.'
)


@dataclass(frozen=True)
class Baseline:
    """Reference times that were measured elsewhere or earlier; speedups against them are labelled so.

    Attributes:
        path: the file.
        means: milliseconds, by level and file name.
    """

    path: Path
    means: Mapping[int, Mapping[str, float]]

    def mean_ms(self, problem: Problem) -> float | None:
        """Return a problem's stored time by file name, else by number; None if absent or ambiguous."""
        means = self.means.get(problem.level or 0, {})
        for name in (f"{problem.name}.py", f"{problem.number}_{problem.name}.py"):
            if name in means:
                return means[name]
        alike = [mean for name, mean in means.items() if name.startswith(f"{problem.number}_")]
        return alike[0] if len(alike) == 1 else None


def read_baseline(path: str | Path) -> Baseline:
    """Read a file of KernelBench's `results/timing`.

    Raises:
        UsageError: the file is missing or has another form; the message names the wrong entry.
    """
    path = Path(path)
    found = read_json(path, what="baseline", remedy=FORM)
    levels = found if isinstance(found, dict) else {}
    numbered = {int(name[5:]): rows for name, rows in levels.items() if name[:5] == "level" and name[5:].isdecimal()}
    if not numbered:
        raise _unusable(path, "it has no key level1, level2 and so on")
    return Baseline(path, {level: _means(path, level, rows) for level, rows in numbered.items()})


def _means(path: Path, level: int, rows: Any) -> dict[str, float]:
    if not isinstance(rows, dict):
        raise _unusable(path, f"level{level} is not an object")
    # KernelBench writes null if a reference could not be timed.
    return {name: _mean(path, f"level{level}/{name}", row) for name, row in rows.items() if row is not None}


def _mean(path: Path, name: str, row: Any) -> float:
    mean = row.get("mean") if isinstance(row, dict) else None
    if isinstance(mean, bool) or not isinstance(mean, int | float) or not math.isfinite(mean) or mean <= 0:
        raise _unusable(path, f"{name} has no `mean` above 0")
    return float(mean)


def _unusable(path: Path, reason: str) -> UsageError:
    return UsageError(f"The baseline {path} cannot be used: {reason}.", FORM)
