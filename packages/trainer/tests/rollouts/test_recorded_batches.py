"""What a resumed run takes from its records instead of sampling it again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from warpsmith.records.writer import RunWriter
from warpsmith.trainer.rollouts.recorded_batches import RecordedBatches

Table = Callable[[list[dict[str, Any]]], pa.Table]


def batch(step: int, **changes: Any) -> list[dict[str, Any]]:
    """Two groups of two trajectories with one turn each, as step `step` records them."""
    return [
        {
            "problem": f"p{group}", "group": f"step-{step}/{group}", "trajectory": f"step-{step}/{group}/{sample}",
            "sample": sample, "after_step": step - 1, "weight_versions": [step - 1, step - 1], **changes,
        }
        for group in range(2)
        for sample in range(2)
    ]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, turns_table: Table) -> Path:
    """Three steps and an evaluation on record."""
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_table(batch(1, role="held_out", after_step=0)))
        for step in (1, 2, 3):
            writer.append("turns", turns_table(batch(step)))
    return tmp_path


def take(kept: RecordedBatches, step: int, **changes: Any) -> pa.Table | None:
    label = f"step-{step}"
    wanted = {"weight_version": step - 1, "problems": ["p1", "p0"], "samples": 2}
    return kept.take(label, **(wanted | changes))


def test_what_no_checkpoint_covers_is_taken_once(run: Path) -> None:
    kept = RecordedBatches(run, 1)
    assert take(kept, 1) is None
    second, third = take(kept, 2), take(kept, 3)
    assert second is not None and third is not None
    assert set(second["group"].to_pylist()) == {"step-2/0", "step-2/1"}
    assert len(second) == len(third) == 4
    assert take(kept, 2) is None
    assert take(kept, 4) is None


@pytest.mark.parametrize(
    "changes", [{"weight_version": 7}, {"problems": ["p0", "p2"]}, {"problems": ["p0"]}, {"samples": 3}]
)
def test_what_would_be_sampled_otherwise_is_not_taken(run: Path, changes: dict[str, Any]) -> None:
    assert take(RecordedBatches(run, 0), 2, **changes) is None


def test_a_batch_that_was_lost_is_sampled_again(tmp_path: Path, turns_table: Table) -> None:
    lost = {"valid": False, "invalid_reason": "generation: the engine hangs", "return": None, "reward": None}
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_table(batch(1, **lost, verdict=None)))
    assert take(RecordedBatches(tmp_path, 0), 1) is None


def test_a_run_without_records_has_none(tmp_path: Path) -> None:
    assert take(RecordedBatches(tmp_path, 0), 1) is None
