"""Batches that were recorded before an interruption, after the last checkpoint."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.reader import RunReader
from warpsmith.records.schema import TURNS


def recorded_figures(run_dir: Path, step: int) -> list[Mapping[str, float]]:
    """Return the recorded figures of the steps up to `step`, in order; empty for a run without records."""
    if not (run_dir / "records").is_dir():
        return []
    rows = RunReader(run_dir, on_damage="skip").table("steps", latest=True)
    kept = rows.filter(pc.less_equal(rows["step"], step)).sort_by("step")
    return [dict(pairs) for pairs in kept["metrics"].to_pylist()]


class RecordedBatches:
    """Recorded batches that a resumed run trains instead of sampling them again.

    A batch is recorded in one append before it is trained, so it is complete or missing. Trained again from the
    checkpoint's weights, in the same order, it gives the weights that the run had when it was killed.

    Args:
        run_dir: the run's directory.
        step: steps that the checkpoint covers; batches of later steps are kept.
    """

    def __init__(self, run_dir: Path, step: int) -> None:
        self._batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        if not (run_dir / "records").is_dir():
            return
        # What cannot be read is sampled again.
        for batch in RunReader(run_dir, on_damage="skip").batches("turns", latest=True):
            late = pc.and_(pc.equal(batch["role"], "train"), pc.greater_equal(batch["after_step"], step))
            kept = batch.filter(late)
            labels = pc.replace_substring_regex(kept["group"], "/[^/]*$", "")
            for label in pc.unique(labels).to_pylist():
                self._batches[label].append(kept.filter(pc.equal(labels, label)))

    def take(
        self, label: str, *, weight_version: int, staleness: int = 0, problems: Collection[str], samples: int
    ) -> pa.Table | None:
        """Return the turns of a collection in the form of `TURNS`; None unless they match what would be sampled now.

        Args:
            label: label of the collection, with which the names of its groups start.
            weight_version: version that every token must have been sampled with.
            staleness: number of versions that a token may be older.
            problems: names of its problems, one group each.
            samples: trajectories per group.
        """
        found = self._batches.pop(label, None)
        if not found:
            return None
        table = pa.Table.from_batches(found, schema=TURNS)
        versions = set(pc.unique(pc.list_flatten(table["weight_versions"])).to_pylist())
        groups = table.group_by("group", use_threads=False).aggregate(
            [("trajectory", "count_distinct"), ("problem", "first")]
        )
        whole = (
            sorted(groups["problem_first"].to_pylist()) == sorted(problems)
            and set(groups["trajectory_count_distinct"].to_pylist()) == {samples}
            and versions
            and versions <= set(range(weight_version - staleness, weight_version + 1))
            and pc.any(table["valid"]).as_py()
        )
        return table if whole else None
