import multiprocessing
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_processes import append_as_allowed, fill_a_small_disk
from made_rows import credit_row, step_row, turn_row, turns, write_run

from warpsmith.records import RunReader, RunWriter
from warpsmith.records import reader as reading
from warpsmith.records.reader import NoRecordsError
from warpsmith.records.schema import STEPS, SchemaError, credits_batch, steps_batch, turns_batch
from warpsmith.records.torn_and_damaged import (
    CorruptSegmentError,
    ForeignFileError,
    NewerFormatError,
    TruncatedSegmentError,
    UnreadableFileError,
)
from warpsmith.records.writer import RecordWriteError


def names(run_dir: Path, **options) -> list[str]:
    return RunReader(run_dir, **options).table("turns").column("trajectory").to_pylist()


def stream_of(run_dir: Path, table: str = "turns") -> Path:
    (found,) = (run_dir / "records" / table).glob("*.arrows")
    return found


def journal_of(run_dir: Path, table: str = "turns") -> Path:
    return stream_of(run_dir, table).with_suffix(".journal")


def test_what_is_appended_is_read_back(tmp_path):
    batch, credit, step = turns("a", "b"), credits_batch([credit_row("a")]), steps_batch([step_row()])
    with RunWriter(tmp_path) as writer:
        writer.append("turns", batch)
        writer.append("credits", credit)
        writer.append("steps", step)
    reader = RunReader(tmp_path)
    assert reader.table("turns").equals(pa.Table.from_batches([batch]), check_metadata=True)
    assert reader.table("credits").to_batches() == [credit]
    assert reader.table("steps").to_batches() == [step]
    assert reader.torn == []


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 7), max_size=6),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    durability=st.sampled_from(["process-kill", "power-loss"]),
)
def test_any_batches_come_back_one_by_one_in_order(tmp_path_factory, sizes, compression, durability):
    run_dir = tmp_path_factory.mktemp("run")
    batches = [turns(*(f"{index}.{row}" for row in range(size))) for index, size in enumerate(sizes)]
    with RunWriter(run_dir, compression=compression, durability=durability) as writer:
        for batch in batches:
            writer.append("turns", batch)
    if any(sizes):
        assert list(RunReader(run_dir).batches("turns")) == [batch for batch in batches if batch.num_rows]
    else:
        assert not (run_dir / "records").exists()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_whole_stream_is_a_plain_arrow_stream(tmp_path, compression):
    run_dir = write_run(tmp_path, compression=compression)
    polars = pytest.importorskip("polars")
    expected = RunReader(run_dir).table("turns")
    with pa.ipc.open_stream(stream_of(run_dir).read_bytes()) as stream:
        assert stream.read_all().equals(expected, check_metadata=True)
    assert polars.read_ipc_stream(stream_of(run_dir)).height == expected.num_rows


def test_a_table_and_a_slice_are_recorded_as_one_batch(tmp_path):
    pieces = pa.Table.from_batches([turns("a", "b"), turns("c"), turns("d", "e")])
    with RunWriter(tmp_path) as writer:
        writer.append("turns", pieces)
        writer.append("turns", turns("x", "y", "z").slice(1, 1))
    assert [batch.num_rows for batch in RunReader(tmp_path).batches("turns")] == [5, 1]
    assert names(tmp_path) == ["a", "b", "c", "d", "e", "y"]


def test_columns_are_selected_and_unknown_ones_refused(run_dir):
    reader = RunReader(run_dir)
    assert reader.table("turns", columns=["turn", "run"]).column_names == ["turn", "run"]
    with pytest.raises(SchemaError, match="no column `turns`"):
        reader.table("turns", columns=["turns"])
    with pytest.raises(SchemaError, match="Unknown table `turn`"):
        reader.table("turn")


def test_a_table_without_rows_is_empty_and_typed(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns("a"))
    empty = RunReader(tmp_path).table("steps")
    assert (empty.num_rows, empty.schema) == (0, STEPS)


def test_a_directory_without_records_is_refused(tmp_path):
    with pytest.raises(NoRecordsError, match="has no records"):
        RunReader(tmp_path / "nothing")


def test_a_writer_that_comes_back_starts_a_new_segment_after_the_first(tmp_path):
    first = RunWriter(tmp_path)
    first.append("turns", turns("a"))
    with RunWriter(tmp_path) as second:
        second.append("turns", turns("b"))
    assert names(tmp_path) == ["a", "b"]
    assert [segment.closed for segment in RunReader(tmp_path).segments("turns")] == [False, True]
    first.append("turns", turns("c"))
    first.close()
    assert sorted(names(tmp_path)) == ["a", "b", "c"]


def test_latest_keeps_the_row_recorded_last_of_each_key(tmp_path):
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch([turn_row("a", reward=0.1), turn_row("b", reward=0.2)]))
        writer.append("credits", credits_batch([credit_row("a", ratio_mean=None)]))
    with RunWriter(tmp_path) as resumed:
        resumed.append("turns", turns_batch([turn_row("b", reward=0.3), turn_row("c", reward=0.4)]))
        resumed.append("credits", credits_batch([credit_row("a", ratio_mean=1.01), credit_row("a", step=1)]))
    reader = RunReader(tmp_path)
    assert reader.table("turns").num_rows == 4
    kept = reader.table("turns", columns=["trajectory", "reward"], latest=True).to_pylist()
    assert [(row["trajectory"], row["reward"]) for row in kept] == [("a", 0.1), ("b", 0.3), ("c", 0.4)]
    ratios = reader.table("credits", columns=["step", "ratio_mean"], latest=True).to_pylist()
    assert ratios == [{"step": 0, "ratio_mean": 1.01}, {"step": 1, "ratio_mean": None}]


def test_of_a_trajectory_that_was_recorded_twice_the_second_attempt_is_kept_whole(tmp_path):
    def attempt(trajectory, turns, step):
        return [turn_row(trajectory, turn=turn, num_turns=turns, after_step=step) for turn in range(turns)]

    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch([*attempt("a", 3, 1), *attempt("b", 1, 1), *attempt("c", 2, 1)]))
        writer.append("turns", turns_batch([*attempt("a", 2, 2), *attempt("b", 3, 2)]))
    kept = RunReader(tmp_path).table("turns", columns=["trajectory", "turn", "after_step"], latest=True).to_pylist()
    found = sorted((row["trajectory"], row["turn"], row["after_step"]) for row in kept)
    assert found == [("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("b", 1, 2), ("b", 2, 2), ("c", 0, 1), ("c", 1, 1)]


def test_an_append_that_is_interrupted_costs_no_later_one(tmp_path, monkeypatch):
    def interrupted(fd):
        raise KeyboardInterrupt

    with RunWriter(tmp_path, durability="power-loss") as writer:
        writer.append("turns", turns("a"))
        with monkeypatch.context() as patched:
            patched.setattr("os.fdatasync", interrupted)  # the bytes are in the stream, their entry is not
            with pytest.raises(KeyboardInterrupt):
                writer.append("turns", turns("b"))
        writer.append("turns", turns("c"))
    assert sorted(names(tmp_path)) == ["a", "c"]
    assert all(report.damage == () for report in RunReader(tmp_path).verify())


def test_a_reader_that_comes_while_a_segment_begins_looks_twice(tmp_path, monkeypatch):
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns("a"))
    real, looks = reading.decode_journal, []

    def first_too_early(data, path):
        looks.append(path)
        return real(data if len(looks) > 1 else b"", path)

    monkeypatch.setattr(reading, "decode_journal", first_too_early)
    assert names(tmp_path) == ["a"]
    assert len(looks) == 2


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1, max_size=5))
def test_latest_is_what_a_dict_would_keep(tmp_path_factory, steps):
    run_dir = tmp_path_factory.mktemp("run")
    kept: dict[int, float] = {}
    with RunWriter(run_dir) as writer:
        for index, batch in enumerate(steps):
            rows = [step_row(step, seconds=float(10 * index + place)) for place, step in enumerate(batch)]
            writer.append("steps", steps_batch(rows))
            kept.update((row["step"], row["seconds"]) for row in rows)
    found = RunReader(run_dir).table("steps", latest=True).to_pylist()
    assert {row["step"]: row["seconds"] for row in found} == kept
    assert len(found) == len(kept)


def test_rows_that_do_not_fit_leave_nothing_behind(tmp_path):
    with RunWriter(tmp_path) as writer:
        with pytest.raises(SchemaError):
            writer.append("turns", credits_batch([credit_row()]))
        with pytest.raises(SchemaError, match="Unknown table"):
            writer.append("turn", turns("a"))
    assert not (tmp_path / "records").exists()


def test_a_closed_writer_refuses(tmp_path):
    writer = RunWriter(tmp_path)
    writer.append("turns", turns("a"))
    writer.close()
    writer.close()
    with pytest.raises(RecordWriteError, match="closed"):
        writer.append("turns", turns("b"))
    assert names(tmp_path) == ["a"]


def test_threads_may_share_a_writer(tmp_path):
    with RunWriter(tmp_path) as writer:
        threads = [
            threading.Thread(target=lambda n=n: [writer.append("turns", turns(f"{n}.{i}")) for i in range(20)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(names(tmp_path)) == sorted(f"{n}.{i}" for n in range(4) for i in range(20))
    assert RunReader(tmp_path).torn == []


def test_a_forked_child_writes_a_segment_of_its_own(tmp_path):
    writer = RunWriter(tmp_path)
    writer.append("turns", turns("parent"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            writer.append("turns", turns("child"))
            writer.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    writer.append("turns", turns("parent again"))
    writer.close()
    assert sorted(names(tmp_path)) == ["child", "parent", "parent again"]
    assert all(segment.closed for segment in RunReader(tmp_path).segments("turns"))


def test_reading_while_another_process_writes_gives_whole_batches_only(tmp_path):
    reads, batches_a_read = 40, 5
    context = multiprocessing.get_context("spawn")
    started, allowed = context.Event(), context.Semaphore(1)
    arguments = (str(tmp_path), started, allowed, reads * batches_a_read)
    process = context.Process(target=append_as_allowed, args=arguments)
    process.start()
    seen = [0]
    try:
        assert started.wait(60)
        for _ in range(reads):
            for _ in range(batches_a_read):
                allowed.release()
            found = names(tmp_path)
            count = len(found) // 2
            assert found == [name for number in range(count) for name in (str(number), f"{number}b")]
            assert count >= seen[-1]
            seen.append(count)
    finally:
        for _ in range(reads * batches_a_read):
            allowed.release()
        process.join(60)
    assert process.exitcode == 0
    assert len(names(tmp_path)) // 2 == reads * batches_a_read
    assert len(set(seen)) > 2, "the reader saw the writer at work"


def test_a_full_disk_is_a_typed_error_and_costs_only_that_batch(tmp_path):
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=fill_a_small_disk, args=(str(tmp_path), answer))
    process.start()
    done, said = answer.get(timeout=60)
    process.join(60)
    assert "not recorded" in said and "File too large" in said and ".arrows" in said
    assert done > 0
    assert names(tmp_path) == [f"{batch}.{row}" for batch in range(done) for row in range(50)] + ["after"]
    assert RunReader(tmp_path).torn == []


def test_a_path_that_cannot_be_a_directory_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(RecordWriteError, match="Not a directory"):
        RunWriter(tmp_path / "file").append("turns", turns("a"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_forbidden_directory_is_a_typed_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RecordWriteError, match="Permission denied"):
        RunWriter(tmp_path / "run").append("turns", turns("a"))


def test_a_foreign_journal_is_refused_by_name(run_dir):
    journal_of(run_dir).write_bytes(b"something else entirely, of the length of a journal header " * 3)
    with pytest.raises(ForeignFileError, match=r"\.journal: this is not a journal"):
        RunReader(run_dir).table("turns")


def test_a_stream_without_its_journal_is_refused_by_name(run_dir):
    journal_of(run_dir).unlink()
    with pytest.raises(ForeignFileError, match=r"\.arrows: an Arrow stream without its journal"):
        RunReader(run_dir).table("turns")


def test_a_journal_without_its_stream_is_refused_by_name(run_dir):
    stream_of(run_dir).unlink()
    with pytest.raises(TruncatedSegmentError, match=r"\.arrows: the stream is missing"):
        RunReader(run_dir).table("turns")


def test_a_segment_in_another_tables_folder_is_refused(run_dir):
    for path in (stream_of(run_dir), journal_of(run_dir)):
        path.rename(run_dir / "records" / "steps" / f"000002-moved{path.suffix}")
    with pytest.raises(ForeignFileError, match="belongs to `turns`"):
        RunReader(run_dir).table("steps")


def test_a_journal_of_another_segment_is_refused(tmp_path):
    one, other = write_run(tmp_path / "one"), write_run(tmp_path / "other")
    theirs, ours = journal_of(other).read_bytes(), journal_of(one).read_bytes()
    journal_of(one).write_bytes(ours[:64] + theirs[64:])
    with pytest.raises(CorruptSegmentError, match="entry 0 is damaged"):
        RunReader(one).table("turns")


def test_an_entry_repeated_or_out_of_place_is_refused(run_dir):
    slots = journal_of(run_dir).read_bytes()
    journal_of(run_dir).write_bytes(slots[:192] + slots[128:192] + slots[192:])
    with pytest.raises(CorruptSegmentError, match="entry 2 is damaged"):
        RunReader(run_dir).table("turns")


@pytest.mark.parametrize(("field", "current"), [("FORMAT_VERSION", 2), ("SCHEMA_VERSION", 7)])
def test_a_newer_file_is_refused_with_what_to_install(tmp_path, monkeypatch, field, current):
    from warpsmith.records import schema, segments

    with monkeypatch.context() as patch:
        patch.setattr(segments if field == "FORMAT_VERSION" else schema, field, current + 1)
        write_run(tmp_path)
    says = rf"version {current + 1}; this installation reads up to {current}.*newer warpsmith-records"
    with pytest.raises(NewerFormatError, match=says):
        RunReader(tmp_path).table("turns")


def test_a_directory_in_place_of_a_file_is_a_typed_error(run_dir):
    journal_of(run_dir).unlink()
    stream_of(run_dir).with_suffix(".journal").mkdir()
    with pytest.raises(UnreadableFileError, match="Is a directory"):
        RunReader(run_dir).table("turns")


def test_other_files_in_the_folder_are_left_alone(run_dir):
    expected = names(run_dir)
    (run_dir / "records" / "turns" / "notes.txt").write_text("mine")
    assert names(run_dir) == expected
