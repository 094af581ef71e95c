"""`benchmarks/baselines.py`: what is timed when, what is tried again, and what a result says."""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsmith.evaluator import BadProblemError, Problem
from warpsmith.evaluator.baselines import BaselineNote, ReferenceTime, ReferenceTimes

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SOURCE = "class Model: ...\ndef get_inputs(): ...\n# {}\n"
EAGER, COMPILED = ReferenceTime(2.0, 1.9, 2.1, 2.0, 30), ReferenceTime(1.0, 0.9, 1.1, None, 40, 3.5)


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import baselines

    yield baselines
    for name in ("baselines", "_machine"):
        sys.modules.pop(name, None)


class References:
    """Answers as the evaluator's `reference_times` does; remembers what ran and how many ran at once."""

    def __init__(self, answer: Callable[[str, int], ReferenceTimes]) -> None:
        self.asked: list[tuple[str, str]] = []
        self.most = 0
        self._answer, self._running, self._lock = answer, 0, threading.Lock()

    def reference_times(self, problem: Problem, *, baseline: list[str]) -> ReferenceTimes:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
            self.asked.append((problem.name, baseline[1]))
            tries = self.asked.count((problem.name, baseline[1]))
        time.sleep(0.01)
        try:
            return self._answer(problem.name, tries)
        finally:
            with self._lock:
                self._running -= 1


def timed(name: str, tries: int) -> ReferenceTimes:
    return ReferenceTimes({"eager": EAGER, "compile": COMPILED})


def jobs(baselines: Any, gib: dict[str, float]) -> list[Any]:
    return [
        baselines.Job(f"1/{place}", Problem(name, SOURCE.format(name)), "compile", size)
        for place, (name, size) in enumerate(gib.items(), 1)
    ]


def conducted(baselines: Any, out: Path, every: list[Any], references: References, *, slots: int = 4) -> dict[str, Any]:
    arguments = argparse.Namespace(slots=slots, seconds=60.0)
    sheet = baselines.Sheet(out, {})
    baselines.Run(arguments, sheet, every, 10.0).conduct(references)
    result: dict[str, Any] = sheet.result
    return result


def test_no_more_run_at_once_than_fit_the_memory_and_each_runs(baselines: Any, tmp_path: Path) -> None:
    references = References(timed)
    every = jobs(baselines, {"a": 6.0, "b": 6.0, "c": 12.0, "d": 6.0})
    result = conducted(baselines, tmp_path / "out.json", every, references)
    assert references.most == 1
    assert sorted(references.asked) == [(name, "compile") for name in "abcd"]
    assert all(row["compile"]["compiled"]["ms"] == 1.0 for row in result["problems"].values())


def test_what_found_no_memory_is_tried_once_more_and_what_cannot_be_compiled_is_not(
    baselines: Any, tmp_path: Path
) -> None:
    def answer(name: str, tries: int) -> ReferenceTimes:
        match name, tries:
            case "full", 1:
                raise BadProblemError("Problem full raised in run: OutOfMemoryError: CUDA out of memory.", "")
            case "bad", _:
                raise BadProblemError("Problem bad raised in run: ValueError.", "")
            case "odd", _:
                return ReferenceTimes({"eager": EAGER}, (BaselineNote("compile", "not_compiled", "a graph"),))
            case "huge", _:
                return ReferenceTimes({"eager": EAGER}, (BaselineNote("compile", "out_of_memory", "2 GiB"),))
            case _:
                return timed(name, tries)

    references, out = References(answer), tmp_path / "out.json"
    every = jobs(baselines, dict.fromkeys(("full", "bad", "odd", "huge", "fine"), 1.0))
    result = conducted(baselines, out, every, references)
    tries = {name: sum(asked == (name, "compile") for asked in references.asked) for name in ("full", "bad", "odd")}
    assert tries == {"full": 2, "bad": 1, "odd": 1}
    conducted(baselines, out, every, references)
    assert len(references.asked) == 7, "the same command finds nothing left"
    report = baselines.report(result)
    assert "| 1 | compile | 5 | 2 | 2.00 | 2.00 to 2.00 | 2 | 0 |" in report
    assert "- `1/2` compile: BadProblemError: Problem bad raised in run: ValueError." in report
    assert "- `1/3` compile: eager 2.0000 ms, not_compiled: a graph" in report
    assert "| `1/5` | 2 | 1 | 2 | - | - |" in report


def test_another_source_is_timed_again_and_another_setting_needs_another_file(baselines: Any, tmp_path: Path) -> None:
    references, out = References(timed), tmp_path / "out.json"
    conducted(baselines, out, jobs(baselines, {"a": 1.0}), references)
    changed = [baselines.Job("1/1", Problem("a", SOURCE.format("changed")), "compile", 1.0)]
    conducted(baselines, out, changed, references)
    assert len(references.asked) == 2
    with pytest.raises(SystemExit, match="isolation None, not 'none'"):
        baselines.Sheet(out, {"isolation": "none"})
