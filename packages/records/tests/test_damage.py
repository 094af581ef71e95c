"""Random damage: a typed error, or exactly the batches that are whole; never a crash, never a wrong row."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import turn_row, write_run

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.schema import turns_batch
from warpsmith.records.segments import SLOT_BYTES, decode_journal
from warpsmith.records.torn_and_damaged import CorruptSegmentError, SegmentError

BATCHES = 5
EXAMPLES = settings(deadline=None, max_examples=300)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A run whose writer was not closed: five batches of one to five turns."""
    run_dir = tmp_path_factory.mktemp("original")
    writer = RunWriter(run_dir)
    for index in range(BATCHES):
        writer.append("turns", turns_batch([turn_row(f"{index}.{row}") for row in range(index + 1)]))
    return run_dir


@pytest.fixture(scope="module")
def batches(original) -> list[pa.RecordBatch]:
    return list(RunReader(original).batches("turns"))


@pytest.fixture(scope="module")
def ends(original) -> list[int]:
    """Where each batch ends in the stream."""
    (path,) = (original / "records" / "turns").glob("*.journal")
    return [entry.end for entry in decode_journal(path.read_bytes(), path).entries[1:]]


class Copy:
    """A copy of a run to be damaged."""

    def __init__(self, original: Path, to: Path) -> None:
        self.run_dir = Path(shutil.copytree(original, to / "copy"))
        (self.stream,) = (self.run_dir / "records" / "turns").glob("*.arrows")
        self.journal = self.stream.with_suffix(".journal")

    def whole(self) -> list[pa.RecordBatch]:
        return list(RunReader(self.run_dir, on_damage="skip").batches("turns"))


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def flip(path: Path, bit: int) -> int:
    """Flip one bit (modulo the file's length); return the byte it lies in."""
    data = bytearray(path.read_bytes())
    byte = bit // 8 % len(data)
    data[byte] ^= 1 << bit % 8
    path.write_bytes(data)
    return byte


@EXAMPLES
@given(cut_at=st.floats(0, 1))
def test_a_cut_stream_gives_the_batches_before_the_cut_or_an_error(tmp_path_factory, original, batches, ends, cut_at):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    length = int(cut_at * ends[-1])
    cut(copy.stream, length)
    whole = sum(end <= length for end in ends)
    assert copy.whole() == batches[:whole]
    if whole < BATCHES:
        with pytest.raises(SegmentError, match="the file ends before"):
            RunReader(copy.run_dir).table("turns")


@EXAMPLES
@given(cut_at=st.floats(0, 1))
def test_a_cut_journal_gives_the_batches_it_still_vouches_for(tmp_path_factory, original, batches, cut_at):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    length = int(cut_at * (BATCHES + 2) * SLOT_BYTES)
    cut(copy.journal, length)
    vouched = max(length // SLOT_BYTES - 2, 0)
    assert copy.whole() == batches[:vouched]
    reader = RunReader(copy.run_dir)
    if length < SLOT_BYTES:
        with pytest.raises(CorruptSegmentError, match="the journal is empty"):
            reader.table("turns")
    elif vouched < BATCHES:
        assert list(reader.batches("turns")) == batches[:vouched]
        (torn,) = reader.torn
        assert torn.stream_bytes > 0


@EXAMPLES
@given(bit=st.integers(0, 2**20))
def test_a_flipped_bit_of_the_stream_costs_its_batch_alone(tmp_path_factory, original, batches, ends, bit):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    byte = flip(copy.stream, bit)
    hit = sum(end <= byte for end in ends)
    in_schema = byte < _schema_end(copy)
    with pytest.raises(CorruptSegmentError, match="the bytes of"):
        RunReader(copy.run_dir).table("turns")
    assert copy.whole() == ([] if in_schema else batches[:hit] + batches[hit + 1 :])


@EXAMPLES
@given(bit=st.integers(0, 2**20))
def test_a_flipped_bit_of_the_journal_costs_its_entry_alone(tmp_path_factory, original, batches, bit):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    slot = flip(copy.journal, bit) // SLOT_BYTES
    with pytest.raises(SegmentError):
        RunReader(copy.run_dir).table("turns")
    assert copy.whole() == ([] if slot < 2 else batches[: slot - 2] + batches[slot - 1 :])


@EXAMPLES
@given(
    target=st.sampled_from(["stream", "journal"]),
    at=st.floats(0, 1),
    junk=st.binary(min_size=1, max_size=300),
    then_cut=st.floats(0, 1),
)
def test_any_overwriting_and_cutting_gives_only_rows_that_were_written(
    tmp_path_factory, original, batches, target, at, junk, then_cut
):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    path = copy.stream if target == "stream" else copy.journal
    data = bytearray(path.read_bytes())
    start = int(at * len(data))
    data[start : start + len(junk)] = junk
    path.write_bytes(data[: int(then_cut * len(data))])
    found = copy.whole()
    assert [batch for batch in batches if batch in found] == found
    try:
        assert list(RunReader(copy.run_dir).batches("turns")) == found
    except SegmentError as error:
        assert str(path.parent) in str(error)


@settings(deadline=None, max_examples=50)
@given(stream_tail=st.binary(max_size=200), zeros=st.integers(0, 300), entry_tail=st.binary(max_size=SLOT_BYTES - 1))
def test_what_a_kill_or_a_power_loss_leaves_behind_is_torn_not_damage(
    tmp_path_factory, original, batches, stream_tail, zeros, entry_tail
):
    copy = Copy(original, tmp_path_factory.mktemp("run"))
    with copy.stream.open("ab") as stream, copy.journal.open("ab") as journal:
        stream.write(stream_tail)
        journal.write(entry_tail + b"\0" * (zeros if not entry_tail else 0))
    reader = RunReader(copy.run_dir)
    assert list(reader.batches("turns")) == batches
    lost = [(torn.stream_bytes, torn.journal_bytes) for torn in reader.torn]
    expected = (len(stream_tail), len(entry_tail) or zeros)
    assert lost == ([] if expected == (0, 0) else [expected])


@given(st.binary(max_size=400))
def test_any_bytes_as_a_journal_give_a_typed_error_or_no_entries(data):
    try:
        assert decode_journal(data, Path("x.journal")).entries == ()
    except SegmentError as error:
        assert "x.journal" in str(error)


def test_verify_lists_every_damage_and_raises_nothing(tmp_path, original):
    copy = Copy(original, tmp_path)
    flip(copy.stream, 8 * (copy.stream.stat().st_size - 100))
    (report,) = RunReader(copy.run_dir).verify()
    said = f"{copy.stream}: the bytes of batch 4 differ from those written."
    assert [error.message for error in report.damage] == [said]
    assert (report.batches, report.torn) == (BATCHES, None)


def test_what_was_skipped_is_reported_once(tmp_path, original):
    copy = Copy(original, tmp_path)
    flip(copy.stream, 8 * (copy.stream.stat().st_size - 100))
    reader = RunReader(copy.run_dir, on_damage="skip")
    assert reader.table("turns", latest=True).num_rows == sum(range(1, BATCHES))
    assert len(reader.damage) == 1


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=[pytest.mark.slow, pytest.mark.long])])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_mutated_files_of_every_table_never_crash_the_reader_nor_give_other_rows(tmp_path, count, compression):
    run_dir = write_run(tmp_path / "run", compression=compression)
    command = [sys.executable, str(Path(__file__).parent / "support" / "fuzz_worker.py"), run_dir, tmp_path / "scratch"]
    done = subprocess.run([*map(str, command), "11", str(count)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["errors"] > 0.5 * count
    assert found["losses"] > 0.3 * count


def _schema_end(copy: Copy) -> int:
    return decode_journal(copy.journal.read_bytes(), copy.journal).entries[0].end
