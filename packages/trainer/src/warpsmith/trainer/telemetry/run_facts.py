"""What a report needs to know about a run besides its tables: how it was started, and the problems that it sampled."""

import json
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from warpsmith.rollout.datasets import ProblemRow

_PACKAGES: Final = (
    *(f"warpsmith-{name}" for name in ("records", "policy", "evaluator", "rollout", "trainer")),
    "torch", "triton", "transformers", "deepspeed", "vllm", "ray",
)  # fmt: skip


def write_start(run_dir: Path) -> None:
    """Write `start.json`: the command of this start, its time, and the versions of packages."""
    found = {
        "command": shlex.join(["warpsmith-trainer", *sys.argv[1:]]),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": dict(_versions()),
    }
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "start.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _versions() -> Iterable[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


class ProblemLog:
    """Appends each problem to `problems.jsonl` when it is sampled for the first time: name, source, known solution.

    Args:
        run_dir: the run's directory; problems that an earlier start wrote are not written again.
    """

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "problems.jsonl"
        self._written = set(self._names())

    def add(self, problems: Iterable[ProblemRow]) -> None:
        """Append the problems that are new."""
        new = {problem.name: problem for problem in problems if problem.name not in self._written}
        if not new:
            return
        lines = [
            json.dumps({"problem": one.name, "source": one.text} | ({"solution": one.solution} if one.solution else {}))
            for one in new.values()
        ]
        with self._file.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        self._written |= new.keys()

    def _names(self) -> Iterable[str]:
        """Yield the names in the file, after removing a line that a killed run left unfinished."""
        if not self._file.exists():
            return
        data = self._file.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with self._file.open("r+b") as file:
                file.truncate(len(whole))
        for line in whole.splitlines():
            yield json.loads(line)["problem"]
