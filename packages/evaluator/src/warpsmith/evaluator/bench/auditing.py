"""Audits the problems of a collection: which wrong outputs would pass, and on a GPU how long the reference takes."""

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from warpsmith.evaluator.bench.generations import digest
from warpsmith.evaluator.bench.progress import Reporter
from warpsmith.evaluator.bench.settings import Settings, local_settings
from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.errors import (
    BadProblemError,
    EvaluatorError,
    IsolationUnavailableError,
    JudgeUnavailableError,
)
from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file

FORMAT: Final = 1
CONSTANTS: Final = ("all zeros", "one constant", "the output for other inputs")
"""Wrong outputs that do not depend on the input: one computed in advance is a constant too."""
COMPARISONS: Final = ("evaluator", "kernelbench_1e-2", "kernelbench_1e-4")

Entry = dict[str, Any]
Place = tuple[int, int, str]
"""Level, number and key: problems with equal source are still separate problems."""


@dataclass(frozen=True)
class AuditPlan:
    """What to audit.

    Attributes:
        dataset: where the problems are; see `datasets.load_problems`.
        out: the JSON file; it is also read, and problems in it are not audited again.
        levels: levels to audit; all if empty.
        config: configuration of the evaluator; audits `slots` problems at a time.
    """

    dataset: Path
    out: Path
    levels: tuple[int, ...]
    config: EvaluatorConfig


def conduct_audit(
    plan: AuditPlan, evaluator: Evaluator | None = None, console: Console | None = None
) -> dict[str, Any]:
    """Audit the problems that are not audited yet; the file is replaced atomically after each one.

    Args:
        plan: what to audit.
        evaluator: the evaluator to use; by default one is started if a problem is left to be audited.
        console: receives progress; stderr by default.

    Returns:
        The content of the file, for the requested problems.

    Raises:
        DatasetError: the problems cannot be read.
        UsageError: the file is not an audit.
        EvaluatorError: this machine cannot run the evaluator. Finished audits stay recorded.
    """
    audit = _Audit(plan, load_problems(plan.dataset, plan.levels), local_settings(plan.config))
    waiting = audit.waiting()
    with Reporter(len(waiting), "problems", console) as reporter:
        if audit.entries:
            reporter.note(f"{len(audit.entries)} problems are already audited; {len(waiting)} remain.")
        if waiting:
            with Evaluator(plan.config) if evaluator is None else nullcontext(evaluator) as judge:
                audit.run(waiting, judge, reporter)
    return audit.write()


class _Audit:
    """The entries of one audit, by place, and its file, which can contain other problems too."""

    def __init__(self, plan: AuditPlan, problems: Sequence[Problem], settings: Settings) -> None:
        self.plan = plan
        self.problems = {_place(problem, _key(problem, settings)): problem for problem in problems}
        self.settings = settings
        self.entries: dict[Place, Entry] = {}
        held = _held(plan.out)
        for entry in held.get("problems", []):
            if entry["final"]:
                self._take(entry)
        wanted = {place[:2] for place in self.problems}
        kept = held.get("problems", []) if held.get("settings") == dict(settings) else []
        self.others = [entry for entry in kept if (entry["level"], entry["number"]) not in wanted]

    def waiting(self) -> list[str]:
        """Return the keys to audit, without duplicates."""
        return list(dict.fromkeys(place[2] for place in self.problems if place not in self.entries))

    def run(self, keys: Sequence[str], evaluator: Evaluator, reporter: Reporter) -> None:
        pool = ThreadPoolExecutor(self.plan.config.slots, "audit")
        try:
            of_key = {place[2]: problem for place, problem in self.problems.items()}
            futures = {pool.submit(_entry, evaluator, of_key[key], key) for key in keys}
            for future in as_completed(futures):
                entry = future.result()
                self._take(entry)
                self.write()
                reporter.done(f"level {entry['level']} problem {entry['number']}", _in_words(entry))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def write(self) -> dict[str, Any]:
        """Replace the file atomically; return its content, restricted to the requested problems."""
        own = [self.entries[place] for place in self.problems if place in self.entries]
        found = {
            "format": FORMAT,
            "dataset": str(self.plan.dataset),
            "settings": dict(self.settings),
            "problems": sorted([*own, *self.others], key=lambda entry: (entry["level"], entry["number"])),
        }
        write_file(self.plan.out, json.dumps(found, indent=2) + "\n")
        return {**found, "problems": own}

    def _take(self, entry: Entry) -> None:
        """Record an entry for each problem with the same source."""
        for place, problem in self.problems.items():
            if place[2] == entry["key"]:
                named = {"level": problem.level, "number": problem.number, "name": problem.name}
                self.entries[place] = {**entry, **named}


def _entry(evaluator: Evaluator, problem: Problem, key: str) -> Entry:
    facts, error, final = None, None, True
    try:
        facts = evaluator.audit(problem)
    except (IsolationUnavailableError, JudgeUnavailableError):
        raise
    except EvaluatorError as failed:
        error, final = {"message": failed.message, "remedy": failed.remedy}, isinstance(failed, BadProblemError)
    return {
        "level": problem.level,
        "number": problem.number,
        "name": problem.name,
        "problem_sha256": problem.key,
        "key": key,
        "facts": facts,
        "constant_passes": {name: _constant_passes(facts, name) for name in COMPARISONS} if facts else None,
        "error": error,
        "final": final,
    }


def _constant_passes(facts: dict[str, Any], comparison: str) -> bool:
    return bool(set(CONSTANTS) & set(facts["passes"][comparison]))


def _in_words(entry: Entry) -> str:
    if entry["error"] is not None:
        return f"error: {entry['error']['message'][:120]}"
    passing = [name for name in COMPARISONS if entry["constant_passes"][name]]
    share = entry["facts"].get("roofline_share")
    timed = "" if share is None else f", {entry['facts']['reference_ms']:.4g} ms, {share:.0%} of the roofline"
    return (f"a constant passes by {', '.join(passing)}" if passing else "no constant passes") + timed


def _key(problem: Problem, settings: Settings) -> str:
    return digest(json.dumps([problem.key, dict(settings)], sort_keys=True))


def _place(problem: Problem, key: str) -> Place:
    return problem.level or 0, problem.number or 0, key


def _held(out: Path) -> dict[str, Any]:
    """Return the content of the file; empty if it does not exist or has another version."""
    if not out.exists():
        return {}
    try:
        found = json.loads(out.read_text(encoding="utf-8"))
        needed = [[entry[name] for name in ("key", "level", "number", "final")] for entry in found["problems"]]
        return dict(found) if needed and found["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{out} is not an audit that can be continued.", "Move it away, or name another.") from error


def counts_of(audit: dict[str, Any]) -> dict[int, Counter[str]]:
    """Count by level the problems, those that ended with an error, and those that accept a constant by comparison."""
    counts: dict[int, Counter[str]] = {}
    for entry in audit["problems"]:
        level = counts.setdefault(entry["level"], Counter())
        level["problems"] += 1
        level["errors"] += entry["error"] is not None
        level.update(name for name in COMPARISONS if entry["constant_passes"] and entry["constant_passes"][name])
    return counts
