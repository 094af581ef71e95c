"""The texts of one trajectory as plain values, and many trajectories with each text once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from warpsmith.records.follower import Follower, Row
from warpsmith.records.report.facts import configuration, problem_texts
from warpsmith.records.report.overview import finite
from warpsmith.records.report.tokens import Vocabulary, vocabulary_of

_ALIKE: Final = (
    "run", "role", "problem", "source", "level", "group", "trajectory", "sample", "num_turns", "after_step",
    "rollout_step", "stage",
)  # fmt: skip
_OF_TURN: Final = (
    "turn", "agent", "messages", "completion", "kernel", "finish_reason", "sampling", "verdict", "reward", "return",
    "speedup_over_start", "valid", "invalid_reason", "generate_s", "compile_s", "wait_s", "evaluate_s",
)  # fmt: skip
_SHORTEST_SHARED: Final = 40


class Details:
    """Reads trajectories of one run for the page's reader.

    Raises:
        ReportError: a file next to the records does not have the form in docs/records.md.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        run_dir = follower.reader.run_dir
        self._problems = problem_texts(run_dir)
        policy = configuration(run_dir).get("policy.path")
        self._policy = policy if isinstance(policy, str) else None
        self._vocabulary: Vocabulary | None = None
        self._searched = False

    def trajectories(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Return trajectories with all their texts; those that do not exist or are damaged are left out."""
        return [self._trajectory(key, rows) for key, rows in self._follower.trajectories(keys).items()]

    def _trajectory(self, key: str, rows: Sequence[Row]) -> dict[str, Any]:
        known = self._problems.get(rows[0]["problem"], {})
        found = {name: rows[0][name] for name in _ALIKE} | {"key": key}
        found |= {"problem_source": known.get("source"), "solution": known.get("solution")}
        return {**found, "turns": [self._turn(row) for row in rows]}

    def _turn(self, row: Row) -> dict[str, Any]:
        ids = row["completion_ids"]
        logprobs = [round(value, 3) if math.isfinite(value) else None for value in row["logprobs"]]
        versions = row["weight_versions"]
        tokens = {
            "ids": ids,
            "logprobs": logprobs,
            "ends": self._ends(ids, row["completion"]),
            "versions": sorted(set(versions)),
            "prompt": len(row["prompt_ids"]),
        }
        verdict = row["verdict"]
        if verdict is not None:
            # JSON has no infinity, and how far a result is off matters.
            verdict = {k: str(v) if v in (float("inf"), float("-inf")) else v for k, v in verdict.items()}
        plain = finite({name: row[name] for name in _OF_TURN} | {"verdict": verdict})
        return {**plain, "tokens": tokens}

    def _ends(self, ids: Sequence[int], completion: str) -> list[int] | None:
        if not self._searched:
            self._vocabulary = vocabulary_of(self._follower.reader.run_dir, self._policy)
            self._searched = True
        return self._vocabulary.ends(ids, completion) if self._vocabulary else None


def shared_texts(trajectories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `texts` and `trajectories` in which each longer text is replaced by {"$": its place in `texts`}."""
    places: dict[str, int] = {}
    return {"trajectories": [_shared(entry, places) for entry in trajectories], "texts": list(places)}


def _shared(value: Any, places: dict[str, int]) -> Any:
    if isinstance(value, str) and len(value) >= _SHORTEST_SHARED:
        return {"$": places.setdefault(value, len(places))}
    if isinstance(value, Mapping):
        return {key: _shared(entry, places) for key, entry in value.items()}
    # Lists of numbers are long and have no texts.
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_shared(entry, places) for entry in value]
    return value
