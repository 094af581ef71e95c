"""Follower: the figures of a run in memory, brought up to date by reading only what was recorded since.

The texts of turns stay on disk; the follower knows the place of each and reads one trajectory on demand.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records import keys, schema
from warpsmith.records.reader import Place, RunReader

Row = dict[str, Any]

_PLAIN: Final = (
    "run", "role", "problem", "source", "level", "group", "trajectory", "sample", "turn", "num_turns", "after_step",
    "rollout_step", "stage", "agent", "reward", "return", "speedup_over_start", "valid", "invalid_reason",
    "finish_reason", "generate_s", "compile_s", "wait_s", "evaluate_s",
)  # fmt: skip
_OF_VERDICT: Final = (
    "status", "error_category", "compiled", "correct", "speedup", "runtime_ms", "reference_ms", "cached", "device",
)  # fmt: skip
_OF_CREDIT: Final = ("advantage", "step", "staleness", "ratio_mean", "clipped_fraction")
_KEPT_BATCHES: Final = 4


class Follower:
    """Follows the records of one run while they are written.

    Args:
        reader: reads the run; its `on_damage` says what to do about damage.

    Attributes:
        reader: as given.
        turns: one row per turn, without texts and tokens, with the latest credit; see `index_of`. `key` names the
            trajectory within the directory.
        credits, steps: the tables of the schema. In all three the row recorded last of each key counts.
    """

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self._seen: dict[str, dict[str, int]] = {name: {} for name in schema.TABLES}
        self._read: dict[str, dict[str, list[pa.RecordBatch]]] = {name: {} for name in schema.TABLES}
        self._places: list[Place] = []
        self._batches: OrderedDict[Place, pa.RecordBatch] = OrderedDict()
        self.credits = schema.CREDITS.empty_table()
        self.steps = schema.STEPS.empty_table()
        self.turns = self._index()
        self.refresh()

    def refresh(self) -> bool:
        """Read what was recorded since; return whether anything was.

        Raises:
            SegmentError: a file is damaged, and the reader raises.
        """
        grown = [name for name in schema.TABLES if self._read_more(name)]
        if "credits" in grown:
            self.credits = self._latest("credits")
        if "steps" in grown:
            self.steps = self._latest("steps").sort_by("step")
        if "turns" in grown or "credits" in grown:
            self.turns = self._index()
        return bool(grown)

    def trajectories(self, keys: Sequence[str]) -> dict[str, list[Row]]:
        """Return the turns of trajectories, in order and with all columns of the schema, by key.

        A trajectory that does not exist is left out, and so is a turn that was damaged since and is skipped.

        Raises:
            SegmentError: a file is damaged, and the reader raises.
        """
        wanted = pc.is_in(self.turns.column("key"), value_set=pa.array(keys, pa.string()))
        found = self.turns.filter(wanted).select(["key", "place", "row", "turn"])
        rows: dict[str, list[Row]] = {}
        # By place, so that each batch is read once.
        for entry in found.sort_by([("place", "ascending"), ("turn", "ascending")]).to_pylist():
            batch = self._batch(self._places[entry["place"]])
            if batch is not None:
                rows.setdefault(entry["key"], []).extend(batch.slice(entry["row"], 1).to_pylist())
        return {key: sorted(own, key=_turn_of) for key, own in rows.items()}

    def _read_more(self, name: str) -> bool:
        grown = False
        for place, batch in self.reader.recorded_since(name, dict(self._seen[name])):
            self._seen[name][place.segment] = place.entry + 1
            kept = index_of(batch, len(self._places)) if name == "turns" else batch
            if name == "turns":
                self._places.append(place)
            self._read[name].setdefault(place.segment, []).append(kept)
            grown = True
        return grown

    def _latest(self, name: str) -> pa.Table:
        batches = [batch for segment in sorted(self._read[name]) for batch in self._read[name][segment]]
        whole = _index_schema() if name == "turns" else schema.TABLES[schema.table_name(name)]
        key = list(schema.KEYS[schema.table_name(name)])
        masks = keys.last_of_each([b.select([*key, "num_turns"] if name == "turns" else key) for b in batches], key)
        kept = [b if mask is None else b.filter(mask) for b, mask in zip(batches, masks, strict=True)]
        return pa.Table.from_batches(kept, schema=whole)

    def _index(self) -> pa.Table:
        turns = self._latest("turns")
        several = pc.count_distinct(turns.column("run")).as_py() > 1
        name = turns.column("trajectory")
        key = pc.binary_join_element_wise(turns.column("run"), name, " / ") if several else name
        return _with_credits(turns.append_column("key", key), self.credits)

    def _batch(self, place: Place) -> pa.RecordBatch | None:
        if place not in self._batches:
            batch = self.reader.batch_at("turns", place)
            if batch is None:
                return None
            self._batches[place] = batch
            while len(self._batches) > _KEPT_BATCHES:
                self._batches.popitem(last=False)
        self._batches.move_to_end(place)
        return self._batches[place]


def _turn_of(row: Row) -> int:
    return int(row["turn"])


def index_of(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    """Return the columns of a batch of turns that a page sorts, filters and draws.

    Besides plain columns these are the verdict's `status`, `compiled`, `correct`, ...; `flags` (joined by spaces),
    `prompt_tokens`, `tokens`, `started` (seconds since 1970 UTC), and where the turn is: `place`, `row`.
    A turn without a verdict neither compiled nor is correct.
    """
    verdict = batch.column("verdict")
    columns = {name: batch.column(name) for name in _PLAIN}
    columns |= {name: pc.struct_field(verdict, name) for name in _OF_VERDICT}
    for name in ("compiled", "correct"):
        columns[name] = pc.fill_null(columns[name], False)
    flags = pc.cast(pc.struct_field(verdict, "flags"), pa.list_(pa.string()))
    columns["flags"] = pc.fill_null(pc.binary_join(flags, " "), "")
    columns["prompt_tokens"] = pc.list_value_length(batch.column("prompt_ids"))
    columns["tokens"] = pc.list_value_length(batch.column("completion_ids"))
    columns["started"] = pc.divide(pc.cast(pc.cast(batch.column("started_at"), pa.int64()), pa.float64()), 1e6)
    columns["place"] = pa.array([place] * batch.num_rows, pa.int32())
    columns["row"] = pa.array(range(batch.num_rows), pa.int32())
    found = pa.RecordBatch.from_pydict(columns)
    # A copy: slices of the batch would keep its texts in memory.
    return found.take(pa.array(range(batch.num_rows), pa.int32()))


@cache
def _index_schema() -> pa.Schema:
    return index_of(pa.RecordBatch.from_pylist([], schema=schema.TURNS), 0).schema


def _with_credits(turns: pa.Table, credits: pa.Table) -> pa.Table:
    """Add the columns of the latest credit of each turn; null for a turn without one."""
    wanted = credits.select(["run", "trajectory", "turn", *_OF_CREDIT]).append_column(
        "order", pa.array(range(credits.num_rows), pa.int64())
    )
    last = wanted.group_by(["run", "trajectory", "turn"]).aggregate([("order", "max")]).column("order_max")
    latest = wanted.take(last.combine_chunks()) if credits.num_rows else wanted
    numbered = turns.append_column("at", pa.array(range(turns.num_rows), pa.int64()))
    joined = numbered.join(latest, keys=["run", "trajectory", "turn"], join_type="left outer")
    return joined.sort_by("at").drop_columns(["at", "order"]).combine_chunks()
