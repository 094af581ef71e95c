"""Prints the result of a bench."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from warpsmith.evaluator.bench.printing import print_scores
from warpsmith.evaluator.bench.scoring import LevelScore
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
        f"{len(result['searches'])} searches by {result['strategy']['type']}, ended by: {ended or 'nothing'}",
        f"spent: {spent['attempts']:,} attempts, {spent['evaluations']:,} evaluations, {spent['prompt_tokens']:,} "
        f"prompt and {spent['completion_tokens']:,} answer tokens, {spent['generate_s']:,.0f} s of requests, "
        f"{spent['judge_s']:,.0f} s of evaluations",
    ]
    if spent["cost"] is not None:
        lines.append(f"cost: {spent['cost']:,.4f} {spent['currency']}")
    if spent["estimated_tokens"]:
        lines.append(f"{spent['estimated_tokens']:,} tokens are estimated: the endpoint did not count them")
    if spent["cut_off"]:
        lines.append(f"{spent['cut_off']} answers were cut off at sampling.max_tokens; raise --max-tokens")
    if spent["without_code"]:
        lines.append(f"{spent['without_code']} answers had no code")
    return lines
