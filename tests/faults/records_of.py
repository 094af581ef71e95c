"""What the records of a run must say whatever was struck: nothing lost, nothing twice, no reward made up."""

from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.records.reader import RunReader

Row = dict[str, Any]


def check_records(run_dir: Path, *, prompts: int, samples: int) -> list[Row]:
    """Look at everything that was recorded up to the last step; return the turns of those steps."""
    reader = RunReader(run_dir)
    assert not [report.damage for report in reader.verify() if report.damage]
    turns, credits, steps = (reader.table(name, latest=True).to_pylist() for name in ("turns", "credits", "steps"))
    done = [row["step"] for row in steps]
    assert sorted(done) == list(range(1, len(done) + 1)), "each step once, and none left out"
    _check_rewards(turns)
    finished = [row for row in turns if row["after_step"] < len(done)]
    _check_groups(finished, done, prompts=prompts, samples=samples)
    _check_credits(credits, finished, len(done))
    return finished


def _check_rewards(turns: list[Row]) -> None:
    for row in turns:
        failed = row["verdict"] is None or row["verdict"]["status"] == "invalid"
        assert row["valid"] != bool(row["invalid_reason"]), row
        assert not (failed and row["valid"]), "a failure of ours was given a reward"
        if failed:
            assert row["reward"] is None and row["return"] is None, row


def _check_groups(turns: list[Row], steps: list[int], *, prompts: int, samples: int) -> None:
    trajectories = defaultdict(list)
    for row in turns:
        trajectories[row["trajectory"]].append((row["turn"], row["num_turns"]))
    for name, found in trajectories.items():
        assert sorted(found) == [(turn, len(found)) for turn in range(len(found))], (name, found)
    whole = Counter(name.split("/")[0] for name in trajectories)
    assert whole == {f"step-{step}": prompts * samples for step in steps}


def _check_credits(credits: list[Row], turns: list[Row], last: int) -> None:
    known = {(row["trajectory"], row["turn"]) for row in turns if row["valid"]}
    credited = [(row["trajectory"], row["turn"]) for row in credits if row["step"] <= last]
    assert len(credited) == len(set(credited)), "a turn was credited twice"
    assert set(credited) == known, "every valid turn is credited, and no other"


def check_verdicts(turns: list[Row], problems: dict[str, str]) -> int:
    """Have every kernel judged again by an evaluator that nobody strikes; return how many there were.

    A part that was killed must not have cost a candidate its verdict, nor earned it one.

    Args:
        turns: rows of `TURNS`.
        problems: the source of each problem by its name.
    """
    recorded = {
        (row["problem"], row["kernel"]): (row["verdict"]["compiled"], row["verdict"]["correct"])
        for row in turns
        if row["valid"] and row["kernel"] is not None
    }
    with Evaluator(EvaluatorConfig(slots=2, ready_workers=1)) as evaluator, ThreadPoolExecutor(2) as threads:
        again = threads.map(lambda key: _judged(evaluator, problems[key[0]], *key), recorded)
        assert recorded == dict(zip(recorded, again, strict=True))
    return len(recorded)


def _judged(evaluator: Evaluator, text: str, name: str, kernel: str) -> tuple[bool, bool]:
    verdict = evaluator.evaluate(Problem.from_source(text, name), kernel, trials=2)
    return verdict.compiled, verdict.correct
