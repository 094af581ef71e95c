"""The lines that a run prints: one per turn, one block per trajectory."""

from collections.abc import Mapping, Sequence
from typing import Any

from warpsmith.rollout.turn_recording import bytes_over_start
from warpsmith.rollout.turns import OPTIMIZER

Row = Mapping[str, Any]


def turn_line(row: Row) -> str:
    """Return a turn's line, for example
    `[Turn 1] kernelbench_1: Compile:✓ Correct:✗ Runtime:5.23ms Speedup:0.80x Reward:0.500`.

    Unmeasured figures are `n/a`; an invalid turn shows its reason instead of figures. An agent is named before the
    problem, `[Turn 3] optimizer on kernelbench_1: ...`, and for an optimizer its speedup over the start at the end.
    """
    agent = f"{row['agent']} on " if row.get("agent") else ""
    head = f"[Turn {row['turn'] + 1}] {agent}{row['problem']}:"
    if row["reward"] is None:
        return f"{head} invalid ({row['invalid_reason']})"
    verdict = row["verdict"]
    return (
        f"{head} Compile:{_mark(verdict['compiled'])} Correct:{_mark(verdict['correct'])} "
        f"Runtime:{runtime(verdict['runtime_ms'])} Speedup:{_figure(verdict['speedup'], 'x')} "
        f"Reward:{row['reward']:.3f}" + (_over_start(row) if row.get("agent") == OPTIMIZER else "")
    )


def _over_start(row: Row) -> str:
    saved = bytes_over_start(row)
    if saved is not None:
        return f" Fewer bytes than start:{saved:.2f}x"
    return f" Over start:{_figure(row.get('speedup_over_start'), 'x')}"


def trajectory_lines(rows: Sequence[Row]) -> str:
    """Return the summary of one trajectory from its turns in order."""
    last = rows[-1]
    verdict = last["verdict"] or {}
    aggregated = rows[0]["return"]
    rewards = ["invalid" if row["reward"] is None else round(row["reward"], 4) for row in rows]
    return "\n".join(
        [
            f"=== Final Trajectory Summary for {last['problem']} ===",
            f"Total turns: {len(rows)}",
            f"Turn rewards: [{', '.join(map(str, rewards))}]",
            f"Aggregated return: {'n/a' if aggregated is None else f'{aggregated:.4f}'}",
            f"Final correctness: {verdict.get('correct', False)}",
            f"Final speedup: {_figure(verdict.get('speedup'), 'x')}",
        ]
    )


def runtime(milliseconds: float | None) -> str:
    """Return a runtime in a unit that shows it: `1.20us`, `5.23ms` or `2.41s`; `n/a` if it was not measured."""
    if milliseconds is None:
        return "n/a"
    if milliseconds < 0.1:
        return f"{milliseconds * 1e3:.2f}us"
    return f"{milliseconds:.2f}ms" if milliseconds < 1e3 else f"{milliseconds / 1e3:.2f}s"


def _mark(yes: bool) -> str:
    return "✓" if yes else "✗"


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.2f}{unit}"
