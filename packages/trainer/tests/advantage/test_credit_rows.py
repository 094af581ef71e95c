"""Rows of the `credits` table: once before the step, once more with what the step found out."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.schema import credits_batch
from warpsmith.trainer.advantage.credit_rows import CreditedBatch
from warpsmith.trainer.advantage.types import Credit


def batch() -> CreditedBatch:
    """Four turns: two that are trained on, one without spread, and one that does not count."""
    table = pa.table(
        {
            "run": ["r"] * 4,
            "trajectory": ["a", "b", "c", "d"],
            "turn": pa.array([0, 1, 0, 0], pa.int32()),
            "weight_versions": pa.array([[3, 4], [4], [], [4]], pa.list_(pa.int64())),
        }
    )
    counted = np.array([True, True, True, False])
    credit = Credit(np.array([0.5, -0.5, 0.0, 0.0]), counted, 2, 1, np.array([2, 2, 1, 0]))
    return CreditedBatch(table, credit, "turn", step=7, weight_version=5)


def test_every_turn_that_counts_has_a_row_and_trained_ones_get_their_ratios(tmp_path: Path) -> None:
    nan = float("nan")
    ratios = {
        "ratio_mean": np.array([1.1, 0.9, nan, nan]),
        "ratio_max": np.array([1.5, 1.0, nan, nan]),
        "clipped_fraction": np.array([0.25, 0.0, nan, nan]),
        "kl_mean": np.full(4, nan),
    }
    with RunWriter(tmp_path) as writer:
        writer.append("credits", credits_batch(batch().rows()))
        before = RunReader(tmp_path).table("credits").to_pylist()
        writer.append("credits", credits_batch(batch().rows_with(ratios)))
    assert [(row["trajectory"], row["turn"], row["ratio_mean"]) for row in before] == [
        ("a", 0, None), ("b", 1, None), ("c", 0, None)
    ]  # fmt: skip
    assert [(row["staleness"], row["group_size"], row["step"], row["weight_version"]) for row in before] == [
        (2, 2, 7, 5), (1, 2, 7, 5), (None, 1, 7, 5)
    ]  # fmt: skip
    latest = {row["trajectory"]: row for row in RunReader(tmp_path).table("credits", latest=True).to_pylist()}
    assert {name: row["ratio_mean"] for name, row in latest.items()} == {"a": 1.1, "b": 0.9, "c": None}
    assert (latest["a"]["ratio_max"], latest["a"]["clipped_fraction"], latest["a"]["kl_mean"]) == (1.5, 0.25, None)
    assert latest["a"]["advantage"] == 0.5
