import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from made_rows import credit_row, trajectory_rows, turn_row, write_run

from warpsmith.records import RunReader, RunWriter, compact
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import OutputError
from warpsmith.records.schema import SCHEMA_VERSION, TABLES, SchemaError, credits_batch, turns_batch
from warpsmith.records.torn_and_damaged import SegmentError


@pytest.fixture
def compacted(run_dir, tmp_path) -> Path:
    return compact(run_dir, tmp_path / "parquet", join_credits=True).out


def held_out_turns(run_dir: Path) -> int:
    return RunReader(run_dir).table("turns", columns=["role"]).column("role").to_pylist().count("held_out")


def test_rows_are_counted_and_laid_out_by_role(run_dir, tmp_path):
    done = compact(run_dir, tmp_path / "parquet")
    assert done.rows == {"turns": 24, "credits": 24, "steps": 3}
    assert sorted(str(path.relative_to(done.out)) for path in done.out.rglob("*.parquet")) == [
        "credits/part-0.parquet",
        "steps/part-0.parquet",
        "turns/role=held_out/part-0.parquet",
        "turns/role=train/part-0.parquet",
    ]


def test_a_flipped_bit_of_the_dataset_is_found_by_its_sums(run_dir, tmp_path):
    out = compact(run_dir, tmp_path / "parquet").out
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=out, capture_output=True, text=True, check=True).stdout.count(": OK\n") == 4
    path = out / "steps" / "part-0.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = subprocess.run(check, cwd=out, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout.count("steps/part-0.parquet: FAILED")) == (1, 1)


def test_pyarrow_reads_every_table_back_as_it_was(run_dir, tmp_path):
    out = compact(run_dir, tmp_path / "parquet", partition_by=()).out
    for name in TABLES:
        expected = RunReader(run_dir).table(name)
        assert ds.dataset(out / name).to_table().equals(expected)
        schema = pq.read_schema(out / name / "part-0.parquet")
        assert schema.metadata[b"warpsmith.schema_version"] == str(SCHEMA_VERSION).encode()


def test_pandas_opens_it(compacted, run_dir):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(compacted / "turns")
    assert len(frame) == 24
    assert (frame["role"] == "held_out").sum() == held_out_turns(run_dir)
    assert len(pandas.read_parquet(compacted / "steps")) == 3


def test_polars_opens_it(compacted, run_dir):
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(compacted / "turns" / "**" / "*.parquet", hive_partitioning=True)
    assert frame.filter(polars.col("role") == "held_out").height == held_out_turns(run_dir)
    assert frame["completion_ids"].list.len().sum() == 24 * 4
    assert polars.read_parquet(compacted / "steps" / "*.parquet").height == 3


def test_duckdb_opens_it(compacted, run_dir):
    duckdb = pytest.importorskip("duckdb")
    query = f"""
        select count(*), sum(verdict.correct::int), avg(credit_advantage)
        from read_parquet('{compacted}/turns/**/*.parquet', hive_partitioning = true) where role = 'held_out'
    """
    assert duckdb.sql(query).fetchall() == [(held_out_turns(run_dir), 0, 0.5)]
    steps = f"select metrics['queue/depth'] from read_parquet('{compacted}/steps/*.parquet') order by step"
    assert duckdb.sql(steps).fetchall() == [(0.0,), (1.0,), (2.0,)]


def test_datasets_opens_it(compacted, tmp_path):
    datasets = pytest.importorskip("datasets")
    found = datasets.load_dataset(
        "parquet",
        data_files={"train": f"{compacted}/turns/role=train/*.parquet"},
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert found.num_rows == 9
    assert found[0]["messages"][0] == {"role": "system", "content": "Write a kernel."}
    assert found[0]["verdict"]["status"] == "correct"


@pytest.mark.parametrize("column", ["problem", "source"])
def test_partition_values_of_any_letters_come_back(tmp_path, column):
    values = ["a b", "level1/19_ReLU.py", "x=y&z", "größe", "100%"]
    with RunWriter(tmp_path / "run") as writer:
        writer.append("turns", turns_batch([turn_row(f"t{i}", **{column: value}) for i, value in enumerate(values)]))
    out = compact(tmp_path / "run", tmp_path / "parquet", partition_by=(column,)).out
    partitioning = ds.partitioning(pa.schema([(column, pa.string())]), flavor="hive")
    table = ds.dataset(out / "turns", partitioning=partitioning).to_table()
    assert dict(zip(table["trajectory"].to_pylist(), table[column].to_pylist(), strict=True)) == {
        f"t{i}": value for i, value in enumerate(values)
    }


def test_one_batch_may_have_more_partitions_than_arrow_expects(tmp_path):
    with RunWriter(tmp_path / "run") as writer:
        writer.append("turns", turns_batch([turn_row(f"t{i}", problem=f"p{i}") for i in range(1100)]))
    out = compact(tmp_path / "run", tmp_path / "parquet", partition_by=("problem",)).out
    assert len(list((out / "turns").iterdir())) == 1100


def test_credits_are_joined_by_run_trajectory_and_turn_and_the_latest_step_wins(tmp_path):
    rows = trajectory_rows("a", ["incorrect", "correct"]) + trajectory_rows("b", ["correct"])
    with RunWriter(tmp_path / "run") as writer:
        writer.append("turns", turns_batch(rows))
        writer.append(
            "credits",
            credits_batch(
                [
                    credit_row("a", 1, step=5, advantage=5.0),
                    credit_row("a", 1, step=2, advantage=2.0),
                    credit_row("b", 0, step=1, advantage=1.0),
                    credit_row("a", 0, step=1, advantage=9.0, run="another"),
                ]
            ),
        )
    out = compact(tmp_path / "run", tmp_path / "parquet", join_credits=True, partition_by=()).out
    table = ds.dataset(out / "turns").to_table(columns=["trajectory", "turn", "credit_advantage", "credit_step"])
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("a", 0, None, None),
        ("a", 1, 5.0, 5),
        ("b", 0, 1.0, 1),
    ]


def test_credits_are_joined_where_there_are_none(tmp_path):
    with RunWriter(tmp_path / "run") as writer:
        writer.append("turns", turns_batch([turn_row()]))
    out = compact(tmp_path / "run", tmp_path / "parquet", join_credits=True).out
    assert ds.dataset(out / "turns").to_table()["credit_advantage"].to_pylist() == [None]
    assert not (out / "credits").exists()


def test_what_a_resumed_run_recorded_again_is_there_once(run_dir, tmp_path):
    write_run(run_dir)
    assert compact(run_dir, tmp_path / "parquet").rows == {"turns": 24, "credits": 24, "steps": 3}


def test_an_existing_directory_is_refused_and_untouched(run_dir, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="already exists"):
        compact(run_dir, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_failure_leaves_nothing_behind(run_dir, tmp_path):
    (stream,) = (run_dir / "records" / "steps").glob("*.arrows")
    stream.write_bytes(stream.read_bytes()[:-200])
    (tmp_path / "work").mkdir()
    with pytest.raises(SegmentError):
        compact(run_dir, tmp_path / "work" / "parquet")
    assert list((tmp_path / "work").iterdir()) == []
    done = compact(run_dir, tmp_path / "work" / "parquet", on_damage="skip")
    assert done.rows["turns"] == 24
    assert len(done.losses.damage) > 0


def test_an_impossible_place_is_a_typed_error(run_dir, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Not a directory"):
        compact(run_dir, tmp_path / "file" / "parquet")


@pytest.mark.parametrize("column", ["kernel", "turn", "nothing", "completion"])
def test_a_column_that_cannot_partition_is_refused(run_dir, tmp_path, column):
    with pytest.raises(SchemaError, match=f"cannot be partitioned by `{column}`"):
        compact(run_dir, tmp_path / "parquet", partition_by=(column,))
