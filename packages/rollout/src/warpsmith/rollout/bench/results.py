"""The result of a bench: scores by level, what was spent, and one line for each search."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator.bench.scoring import Answer, LevelScore, score
from warpsmith.evaluator.bench.verdict_log import Refusal, ended_now
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import invalid
from warpsmith.records.folders import write_file
from warpsmith.records.text import read_json
from warpsmith.rollout._version import __version__
from warpsmith.rollout.bench.config import PricesConfig
from warpsmith.rollout.bench.errors import ResultError
from warpsmith.rollout.bench.search import SearchOutcome
from warpsmith.rollout.datasets import ProblemRow

FILE: Final = "result.json"
FORMAT: Final = 1


@dataclass(frozen=True)
class Described:
    """What a result describes.

    Attributes:
        name: the name of its run.
        settings: what it depends on, see `config.settings_of`.
        problems: the problems, in order.
        problem_set: their number and digest, see `config.problem_set`.
        prices: for the cost.
    """

    name: str
    settings: Mapping[str, Any]
    problems: Sequence[ProblemRow]
    problem_set: Mapping[str, Any]
    prices: PricesConfig


def scores_of(problems: Sequence[ProblemRow], outcomes: Sequence[SearchOutcome]) -> list[LevelScore]:
    """Return the scores by level. The answer of a search is its best attempt; a lost or refused search has no score."""
    places = {problem.to_problem().key: number for number, problem in enumerate(problems)}
    answers = [_answer(outcome, places) for outcome in outcomes]
    return score(sorted(answers, key=lambda one: (one.problem.level or 0, one.problem.number or 0, one.sample)))


def _answer(outcome: SearchOutcome, places: Mapping[str, int]) -> Answer:
    row = outcome.name.problem
    # Numbers distinguish problems; those of a file may have none.
    problem = Problem(row.name, row.text, row.level, row.source, places[row.to_problem().key])
    if outcome.ended == "refused":
        return Answer(problem, outcome.name.sample, outcome=ended_now("", refusal=Refusal(outcome.reason, "")))
    if outcome.ended == "lost":
        return Answer(problem, outcome.name.sample, outcome=ended_now("", verdict=invalid(outcome.reason)))
    best = outcome.best
    return Answer(problem, outcome.name.sample, outcome=ended_now("", verdict=best.verdict) if best else None)


def result_of(described: Described, outcomes: Sequence[SearchOutcome]) -> dict[str, Any]:
    """Return the result as JSON values; docs/model-bench.md describes it."""
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    # Only timed ones: a candidate that never ran names no device.
    devices = sorted({one.verdict.device for one in attempts if one.verdict.runtime_ms is not None})
    return {
        "format": FORMAT,
        "version": __version__,
        "name": described.name,
        "model": described.settings["model"],
        "strategy": described.settings["strategy"],
        "settings": dict(described.settings),
        "problem_set": dict(described.problem_set),
        "devices": devices,
        "scores": [level.to_json() for level in scores_of(described.problems, outcomes)],
        "spent": spent_of(described.prices, outcomes),
        "ended": dict(Counter(outcome.ended for outcome in outcomes)),
        "searches": [_search(outcome) for outcome in outcomes],
    }


def spent_of(prices: PricesConfig, outcomes: Sequence[SearchOutcome]) -> dict[str, Any]:
    """Return what all searches spent; those without a score count too."""
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    prompt = sum(one.prompt_tokens for one in attempts) + sum(outcome.extra_tokens[0] for outcome in outcomes)
    completion = sum(one.completion_tokens for one in attempts) + sum(outcome.extra_tokens[1] for outcome in outcomes)
    return {
        "attempts": len(attempts),
        "evaluations": sum(one.evaluated for one in attempts),
        "without_code": sum(not one.evaluated for one in attempts),
        "other_language": sum("other_language" in one.verdict.flags for one in attempts),
        "cut_off": sum(one.turn.truncated for one in attempts),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "estimated_tokens": sum(one.tokens for one in attempts if one.estimated),
        "generate_s": round(sum(one.generate_s for one in attempts), 3),
        "judge_s": round(sum(one.judge_s for one in attempts), 3),
        "cost": prices.cost(prompt, completion),
        "currency": None if prices.input_per_million is None else prices.currency,
    }


def _search(outcome: SearchOutcome) -> dict[str, Any]:
    best, problem = outcome.best, outcome.name.problem
    return {
        "problem": problem.name,
        "problem_sha256": problem.to_problem().key,
        "level": problem.level,
        "sample": outcome.name.sample,
        "ended": outcome.ended,
        "reason": outcome.reason,
        "scored": outcome.scored,
        "correct": bool(best and best.verdict.correct),
        "speedup": best.verdict.speedup if best and best.verdict.correct else None,
        "speedups": dict(best.verdict.speedups) if best and best.verdict.correct else {},
        "status": best.verdict.status if best else None,
        "answer": best.index if best else None,
        "attempts": len(outcome.attempts),
        "evaluations": sum(one.evaluated for one in outcome.attempts),
        "prompt_tokens": sum(one.prompt_tokens for one in outcome.attempts),
        "completion_tokens": sum(one.completion_tokens for one in outcome.attempts),
        "generate_s": round(sum(one.generate_s for one in outcome.attempts), 3),
        "judge_s": round(sum(one.judge_s for one in outcome.attempts), 3),
    }


def write_result(output: Path, result: Mapping[str, Any]) -> Path:
    """Write `result.json` in one step; return its path."""
    path = output / FILE
    write_file(path, json.dumps(result, indent=2) + "\n")
    return path


def read_result(path: Path) -> dict[str, Any]:
    """Read a result: a run directory of `bench`, or its result.json.

    Raises:
        ResultError: it is not a result, or has another format.
    """
    file = path / FILE if path.is_dir() else path
    remedy = "Name a directory that `warpsmith-rollout bench` wrote, or its result.json."
    found = read_json(file, ResultError, "result", remedy)
    needed = ("format", "model", "settings", "problem_set", "searches", "scores", "spent")
    if not isinstance(found, dict) or any(name not in found for name in needed):
        raise ResultError(f"{file} is not a result of a bench.", remedy)
    if found["format"] != FORMAT:
        raise ResultError(
            f"{file} has format {found['format']}; this installation reads {FORMAT}.",
            "Write it again with this version: run the same `bench` command.",
        )
    return found
