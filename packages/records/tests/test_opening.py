"""What analysts open a run with: the same values everywhere, from the live run and from its Parquet dataset."""

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from made_rows import credit_row, step_row, trajectory_rows, turn_row, verdict

from warpsmith.records import RunReader, RunWriter, compact
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch

ORDER = ["trajectory", "turn"]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """A run that is still written: nulls, an infinite error, a verdict that is missing, lists of every kind."""
    run = tmp_path_factory.mktemp("opening") / "run"
    lost = {"valid": False, "invalid_reason": "no worker", "verdict": None, "reward": None, "return": None}
    empty = {"completion_ids": [], "logprobs": [], "weight_versions": [], "finish_reason": None, "kernel": None}
    rows = [
        *trajectory_rows("a", ["incorrect", "correct"], after_step=3),
        turn_row("b", level=None, role="held_out", verdict=verdict("incorrect") | {"flags": ["slow", "odd"]}),
        turn_row("c", **lost, **empty, role="held_out"),
    ]
    writer = RunWriter(run)
    writer.append("turns", turns_batch(rows[:3]))
    writer.append("turns", turns_batch(rows[3:]))
    writer.append("credits", credits_batch([credit_row("a", 0), credit_row("a", 1, ratio_mean=1.5)]))
    writer.append("steps", steps_batch([step_row(0), step_row(1)]))
    return run


@pytest.fixture(scope="module")
def parquet(run_dir, tmp_path_factory) -> Path:
    return compact(run_dir, tmp_path_factory.mktemp("parquet") / "out").out


@pytest.fixture(scope="module")
def expected(run_dir) -> list[dict[str, Any]]:
    return plain(RunReader(run_dir).table("turns").to_pylist())


def plain(value: Any) -> Any:
    """A tool's value as Python's own: lists, dicts, None for every kind of null."""
    if hasattr(value, "tolist"):  # of NumPy, which comes with the tools and not with the package
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, dt.datetime):
        # Every tool shows the moment in a zone of its own; it must be the same moment.
        assert value.tzinfo is not None
        return value.astimezone(dt.UTC).replace(tzinfo=dt.UTC)
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    rows = sorted((plain(row) for row in found), key=lambda row: [row[name] for name in ORDER])
    assert [set(row) for row in rows] == [set(row) for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        for name, value in wanted.items():
            assert row[name] == value, name


def rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """Rows of a pandas frame; pandas has its own nulls, and its own kind of moment."""
    import pandas

    def own(value: Any) -> Any:
        if value is pandas.NaT or value is pandas.NA:
            return None
        return value.to_pydatetime() if isinstance(value, pandas.Timestamp) else value

    return [{name: own(value) for name, value in row.items()} for row in frame.to_dict("records")]


def test_the_run_is_what_was_written(expected):
    assert [row["verdict"] is None for row in expected] == [False, False, False, True]
    assert expected[0]["verdict"]["max_abs_error"] == math.inf
    assert expected[2]["verdict"]["flags"] == ["slow", "odd"]
    assert [row["level"] for row in expected] == [1, 1, None, 1]
    assert [row["after_step"] for row in expected] == [3, 3, None, None]
    assert [len(row["logprobs"]) for row in expected] == [4, 4, 4, 0]
    assert expected[0]["messages"][1] == {"role": "user", "content": "turn 0"}
    assert expected[1]["started_at"] == dt.datetime(2025, 8, 7, 8, 48, 2, 411804, tzinfo=dt.UTC)


def test_pyarrow(run_dir, parquet, expected):
    schema = pa.schema([("role", pa.string())])
    dataset = ds.dataset(parquet / "turns", partitioning=ds.partitioning(schema, flavor="hive"))
    same(dataset.to_table().to_pylist(), expected)
    for table in ("credits", "steps"):
        assert ds.dataset(parquet / table).to_table().equals(RunReader(run_dir).table(table))


def test_pandas(run_dir, parquet, expected):
    pandas = pytest.importorskip("pandas")
    live = RunReader(run_dir).table("turns").to_pandas()
    stored = pandas.read_parquet(parquet / "turns")
    assert str(live["started_at"].dtype) == str(stored["started_at"].dtype) == "datetime64[us, UTC]"
    # A column that became directories comes back as categories.
    assert isinstance(stored["role"].dtype, pandas.CategoricalDtype)
    same(rows_of_frame(live), expected)
    same(rows_of_frame(stored), expected)


def test_polars(run_dir, parquet, expected):
    polars = pytest.importorskip("polars")
    same(polars.from_arrow(RunReader(run_dir).table("turns")).to_dicts(), expected)
    same(polars.read_parquet(parquet / "turns/**/*.parquet", hive_partitioning=True).to_dicts(), expected)
    steps = polars.from_arrow(RunReader(run_dir).table("steps"))
    metrics = steps["metrics"].to_list()[1]
    if isinstance(metrics, list):  # older versions of polars have no maps
        metrics = {pair["key"]: pair["value"] for pair in metrics}
    assert metrics == {"loss": 0.5, "queue/depth": 1.0}


def test_duckdb(run_dir, parquet, expected):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register("turns", RunReader(run_dir).table("turns"))
        for source in ("turns", f"read_parquet('{parquet}/turns/**/*.parquet', hive_partitioning = true)"):
            # Not `fetchall`: that needs pytz for a moment with a zone.
            same(database.sql(f"select * from {source}").to_arrow_table().to_pylist(), expected)
            counts = f"select count(*), count(verdict), count(level), max(verdict.max_abs_error) from {source}"
            assert database.sql(counts).fetchall() == [(4, 3, 3, math.inf)]


def test_datasets(run_dir, parquet, expected, tmp_path):
    datasets = pytest.importorskip("datasets")
    same(datasets.Dataset(RunReader(run_dir).table("turns")).to_list(), expected)
    files = {role: f"{parquet}/turns/role={role}/*.parquet" for role in ("train", "held_out")}
    stored = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    # Files named one by one do not tell their directory: the split does.
    found = [{**row, "role": role} for role in files for row in stored[role].to_list()]
    same(found, expected)
