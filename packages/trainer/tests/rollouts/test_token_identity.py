"""The ids that are trained on are the ids that were sampled: through records, stream and Parquet, whatever they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.records.compaction import compact
from warpsmith.records.reader import RunReader
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.advantage import Credit
from warpsmith.trainer.distributed.rows import Row
from warpsmith.trainer.rollouts.batch import training_turns
from warpsmith.trainer.rollouts.batch_source import TRAINING_COLUMNS, as_stream

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=12)
SAMPLED = st.lists(st.tuples(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12), IDS), min_size=1, max_size=9)

Sampled = list[tuple[list[int], list[int]]]
Table = Callable[[list[dict[str, Any]]], pa.Table]


def as_turns(sampled: Sampled, number: int) -> list[dict[str, Any]]:
    """Changes to a row of TURNS; an empty completion is a turn that was lost."""
    return [
        {
            "group": f"g{number}", "trajectory": f"g{number}/{i}", "sample": i, "prompt_ids": prompt,
            "completion_ids": completion, "logprobs": [-id_ / 2**31 for id_ in completion],
            "weight_versions": [0] * len(completion),
            **({} if completion else {"valid": False, "invalid_reason": "lost", "reward": None, "return": None}),
        }
        for i, (prompt, completion) in enumerate(sampled)
    ]  # fmt: skip


def trained(table: pa.Table) -> tuple[list[Row], list[np.ndarray[Any, Any]]]:
    """What an update makes of the table that rank 0 sends to every rank."""
    received = pa.ipc.open_stream(as_stream(table.select(TRAINING_COLUMNS))).read_all()
    n = len(received)
    turns = training_turns(received, Credit(np.ones(n), np.ones(n, bool), 1, 0, np.ones(n, np.int64)))
    return list(turns.rows), list(turns.sampler)


@pytest.mark.parametrize("way", ["memory", "records", "parquet"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(SAMPLED, min_size=1, max_size=3))
def test_rows_hold_the_ids_that_were_sampled(
    turns_table: Table, tmp_path_factory: pytest.TempPathFactory, way: str, batches: list[Sampled]
) -> None:
    tables = [turns_table(as_turns(batch, number)) for number, batch in enumerate(batches)]
    rows, sampler = trained(pa.concat_tables(tables) if way == "memory" else kept(tables, tmp_path_factory, way))
    sampled = [turn for batch in batches for turn in batch]
    assert len(rows) == len(sampled)
    for row, logprobs, (prompt, completion) in zip(rows, sampler, sampled, strict=True):
        assert row.ids.tolist() == prompt + completion
        assert row.mask.tolist() == [0] * len(prompt) + [1] * len(completion)
        expected = np.asarray([0.0] * len(prompt) + [-id_ / 2**31 for id_ in completion], np.float32)
        assert logprobs.tobytes() == expected.tobytes()


def kept(tables: list[pa.Table], directories: pytest.TempPathFactory, way: str) -> pa.Table:
    """Write the tables as a run does, each its own append, and read them back."""
    run: Path = directories.mktemp("run")
    with RunWriter(run / "records") as writer:
        for table in tables:
            writer.append("turns", table)
    if way == "records":
        return RunReader(run / "records").table("turns")
    compact(run / "records", run / "parquet", partition_by=())
    return ds.dataset(run / "parquet" / "turns").to_table()
