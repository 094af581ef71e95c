"""Prints the result of a bench."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from warpsmith.evaluator.bench.printing import print_scores
from warpsmith.evaluator.bench.scoring import LevelScore
from warpsmith.records.wording import counted
from warpsmith.rollout.bench.search import SearchOutcome

MOST_NAMED = 8


def print_result(
    console: Console, result: Mapping[str, Any], scores: Sequence[LevelScore], outcomes: Sequence[SearchOutcome]
) -> None:
    """Print scores by level, what was spent, how searches ended, and those without a score."""
    print_scores(console, scores)
    for line in spent_lines(result):
        console.print(line)
    for ended, heading in (
        ("lost", "lost, no score: endpoint or evaluator failed; run the same command again"),
        ("refused", "refused, no score: the problem cannot be asked or judged"),
    ):
        named = [f"{one.name} ({one.reason})" for one in outcomes if one.ended == ended]
        if named:
            more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
            console.print(f"{heading} ({len(named)}): {'; '.join(named[:MOST_NAMED])}{more}")


def spent_lines(result: Mapping[str, Any]) -> list[str]:
    """Return what a bench spent, as text."""
    spent = result["spent"]
    ended = ", ".join(f"{count} {name}" for name, count in result["ended"].items())
    lines = [
        f"{counted(len(result['searches']), 'search', 'searches')} by {result['strategy']['type']}, ended by: "
        f"{ended or 'nothing'}",
        f"spent: {counted(spent['attempts'], 'attempt')}, {counted(spent['evaluations'], 'evaluation')}, "
        f"{spent['prompt_tokens']:,} "
        f"prompt and {spent['completion_tokens']:,} answer tokens, {spent['generate_s']:,.0f} s of requests, "
        f"{spent['judge_s']:,.0f} s of evaluations",
    ]
    if spent["cost"] is not None:
        lines.append(f"cost: {spent['cost']:,.4f} {spent['currency']}")
    if spent["estimated_tokens"]:
        lines.append(f"{spent['estimated_tokens']:,} tokens are estimated: the endpoint did not count them")
    if spent["cut_off"]:
        lines.append(f"cut off at sampling.max_tokens: {counted(spent['cut_off'], 'answer')}; raise --max-tokens")
    if spent["without_code"]:
        lines.append(f"without code: {counted(spent['without_code'], 'answer')}")
    if spent["other_language"]:
        judged = result["settings"]["judging"].get("language", "triton")
        lines.append(
            f"in another kernel language than the one asked for ({judged}): "
            f"{counted(spent['other_language'], 'answer')}, counted as failures; to ask for another, use --set "
            "evaluator.language=NAME"
        )
    return lines
