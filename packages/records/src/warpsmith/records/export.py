"""export: one JSON file per turn and per trajectory, in the format of multi-turn kernel logs.

    turn_{instance_id}_t{turn_idx}_{timestamp}.json
    trajectory_{instance_id}_{timestamp}.json

`instance_id` is the record's `problem`; `timestamp` is the UTC start of the turn (for a trajectory: the end of its
last turn), in microseconds. If two files would get the same name, the later timestamp is increased by microseconds.
"""

import datetime as dt
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records import schema
from warpsmith.records.folders import new_directory
from warpsmith.records.reader import Losses, OnDamage, RunReader

Row = dict[str, Any]

ROWS_AT_ONCE: Final = 1024
_TOKENS: Final = ("prompt_ids", "completion_ids", "logprobs", "weight_versions")
_PLACE: Final = (
    "run",
    "task",
    "role",
    "source",
    "level",
    "group",
    "trajectory",
    "sample",
    "after_step",
    "rollout_step",
)
_OF_TURN: Final = ("agent", "speedup_over_start")
_DURATIONS: Final = ("generate_s", "compile_s", "wait_s", "evaluate_s")


@dataclass(frozen=True)
class Exported:
    """Number of files of each kind written to `out`, and what the reader skipped."""

    out: Path
    turns: int
    trajectories: int
    losses: Losses


def export_json(
    run_dir: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    on_damage: OnDamage = "raise",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Write the run's turns and trajectories as JSON files into the new directory `out`.

    Args:
        progress: called after each trajectory with the number of turns written and of all turns.

    Raises:
        UsageError: `out` exists.
        SegmentError: damaged records, with on_damage "raise".
    """
    reader = RunReader(run_dir, on_damage=on_damage)
    columns = [name for name in schema.TURNS.names if name not in _TOKENS]
    table = reader.table("turns", columns=columns, latest=True)
    target, turns, trajectories = Path(out), 0, 0
    with new_directory(target) as folder:
        files = _Files(folder)
        for rows in trajectories_of(table):
            for row in rows:
                files.write(f"turn_{{}}_t{row['turn']}", row["problem"], row["started_at"], turn_log(row))
            files.write("trajectory_{}", rows[-1]["problem"], ended_at(rows[-1]), trajectory_log(rows))
            turns, trajectories = turns + len(rows), trajectories + 1
            progress(turns, table.num_rows)
    return Exported(target, turns, trajectories, reader.losses())


def trajectories_of(turns: pa.Table) -> Iterator[list[Row]]:
    """Yield each trajectory's turns as rows, in order; trajectories in the order in which they started."""
    names = ["run", "trajectory"]
    began = turns.group_by(names).aggregate([("started_at", "min")])
    began_by_name = {(row["run"], row["trajectory"]): row["started_at_min"] for row in began.to_pylist()}
    starts = [began_by_name[key] for key in zip(*(turns.column(name).to_pylist() for name in names), strict=True)]
    keyed = turns.append_column("trajectory_began", pa.array(starts, schema.UTC_US))
    order = pc.sort_indices(
        keyed.select(["trajectory_began", *names, "turn"]),
        sort_keys=[(name, "ascending") for name in ("trajectory_began", *names, "turn")],
    )
    pieces = (order[start : start + ROWS_AT_ONCE] for start in range(0, len(order), ROWS_AT_ONCE))
    rows = itertools.chain.from_iterable(turns.take(piece).to_pylist() for piece in pieces)
    for _, group in itertools.groupby(rows, key=lambda row: (row["run"], row["trajectory"])):
        yield list(group)


def turn_log(row: Row) -> Row:
    """A turn's log without its timestamp, which depends on the file name."""
    return {
        "instance_id": row["problem"],
        "turn_idx": row["turn"],
        "turn_data": {
            "prompt": row["messages"],
            "response": row["completion"],
            "kernel_code": row["kernel"],
            "eval_result": eval_result(row),
            "reward": row["reward"],
            "extra_info": {
                **_place(row),
                **{name: row[name] for name in _OF_TURN},
                "finish_reason": row["finish_reason"],
                "sampling": row["sampling"],
                "return": row["return"],
                "valid": row["valid"],
                "invalid_reason": row["invalid_reason"],
                "verdict": row["verdict"],
                **{name: row[name] for name in _DURATIONS},
            },
        },
    }


def trajectory_log(rows: list[Row]) -> Row:
    """The log of a trajectory (its turns in order), without its timestamp."""
    last = rows[-1]
    final = eval_result(last)
    return {
        "instance_id": last["problem"],
        "final_reward": rows[0]["return"],
        "num_turns": len(rows),
        "turn_rewards": [row["reward"] for row in rows],
        "aggregated_return": rows[0]["return"],
        "history": [
            {
                "turn_idx": row["turn"],
                "kernel_code": row["kernel"],
                "eval_result": eval_result(row),
                "reward": row["reward"],
            }
            for row in rows
        ],
        "messages": [*last["messages"], {"role": "assistant", "content": last["completion"]}],
        "execution_details": {
            f"final_{name}": final[name] for name in ("compiled", "correctness", "runtime", "speedup")
        },
        "extra_info": _place(last),
    }


def eval_result(row: Row) -> Row:
    """The evaluation under the logs' names; runtime in milliseconds."""
    verdict = row["verdict"] or {}
    return {
        "compiled": verdict.get("compiled", False),
        "correctness": verdict.get("correct", False),
        "runtime": verdict.get("runtime_ms"),
        "speedup": verdict.get("speedup"),
        "error_message": verdict.get("error_message"),
    }


def ended_at(row: Row) -> dt.datetime:
    """Return when a turn ended: its start and its durations."""
    started: dt.datetime = row["started_at"]
    return started + dt.timedelta(seconds=sum(row[name] or 0.0 for name in _DURATIONS))


def _place(row: Row) -> Row:
    return {name: row[name] for name in _PLACE}


@dataclass
class _Files:
    """Writes logs under unused names."""

    folder: Path
    taken: set[str] = field(default_factory=set)

    def write(self, stem: str, instance_id: str, moment: dt.datetime, log: Row) -> None:
        """Write `log` as `stem` (with a placeholder for the instance) and the first free timestamp from `moment` on."""
        safe = re.sub(r"[^\w.-]", "_", instance_id)
        while True:
            timestamp = stamp(moment)
            name = f"{stem.format(safe)}_{timestamp}.json"
            if name not in self.taken:
                break
            moment += dt.timedelta(microseconds=1)
        self.taken.add(name)
        text = json.dumps(finite({"timestamp": timestamp, **log}), ensure_ascii=False, indent=2, allow_nan=False)
        (self.folder / name).write_text(text + "\n", encoding="utf-8")


def stamp(moment: dt.datetime) -> str:
    """Return a moment as the logs write it: UTC, to the microsecond."""
    return moment.astimezone(dt.UTC).strftime("%Y%m%d_%H%M%S_%f")


def finite(value: Any) -> Any:
    """Return plain values with null for NaN and infinity, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
