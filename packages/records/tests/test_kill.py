"""SIGKILL at random moments: what was acknowledged is there exactly once, and nothing torn appears."""

import random
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from made_rows import write_run

from warpsmith.records import RunReader, compact

# The writer acknowledges each batch on stdout only after append returned. Batches of turns differ in size, up to 13 MB,
# and are not compressed: much of a life is spent inside a write, so that many kills strike there. Credits and a step
# follow each, so that kills strike between tables and while their segments are made.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from made_rows import credit_row, step_row, turn_row
from warpsmith.records import RunWriter
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch
import pyarrow as pa, itertools

life, durability = sys.argv[3], sys.argv[4]
writer = RunWriter(sys.argv[2], durability=durability, compression=None)
base = turns_batch([turn_row(kernel="k" * 8000)] * 1500)
base_credits = credits_batch([credit_row()] * 1500)

def named(batch, column, number, rows):
    place = batch.schema.get_field_index(column)
    names = pa.array([f"{life}.{number}.{row}" for row in range(rows)])
    return batch.slice(0, rows).set_column(place, batch.schema.field(place), names)

print("ready", flush=True)
for number in itertools.count():
    rows = (1, 1500, 30, 400)[number % 4]
    for table, batch in (
        ("turns", named(base, "trajectory", number, rows)),
        ("credits", named(base_credits, "trajectory", number, rows)),
        ("steps", steps_batch([step_row(number, run=f"{life}.{number}.0")])),
    ):
        writer.append(table, batch)
        print(table, number, batch.num_rows, flush=True)
"""
COMPACT = """
import sys
from warpsmith.records import compact
print("ready", flush=True)
compact(sys.argv[1], sys.argv[2])
"""
NAMES = {"turns": "trajectory", "credits": "trajectory", "steps": "run"}

Acknowledged = dict[str, list[tuple[int, int]]]


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process that has said that it is ready."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill_after(processes: list[subprocess.Popen[bytes]], seconds: float) -> list[bytes]:
    """SIGKILL all `seconds` from now; return what each had said. Reads all the while: a full pipe stops a writer."""
    said = {process.stdout: b"" for process in processes}
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        for pipe in select.select(list(said), [], [], min(remaining, 0.002))[0]:
            said[pipe] += pipe.read1()
    for process in processes:
        process.kill()
    for process in processes:
        said[process.stdout] += process.stdout.read()
        process.stdout.close()
        process.wait()
    return list(said.values())


def acknowledged(said: bytes) -> Acknowledged:
    found: Acknowledged = {table: [] for table in NAMES}
    for line in said.decode().split("\n")[:-1]:
        table, number, rows = line.split()
        found[table].append((int(number), int(rows)))
    return found


def check(run_dir: Path, lives: list[Acknowledged]) -> None:
    """Every acknowledged batch once, whole, in order; at most one more batch a life, whole as well."""
    more = [0] * len(lives)
    for table, column in NAMES.items():
        found: dict[int, list[tuple[int, int]]] = {}
        for batch in RunReader(run_dir).batches(table, columns=[column]):
            names = [name.split(".") for name in batch.column(0).to_pylist()]
            ((life, number),) = {(int(name[0]), int(name[1])) for name in names}
            assert [int(name[2]) for name in names] == list(range(batch.num_rows))
            found.setdefault(life, []).append((number, batch.num_rows))
        for life, acknowledged_batches in enumerate(lives):
            recorded = found.get(life, [])
            assert recorded[: len(acknowledged_batches[table])] == acknowledged_batches[table]
            more[life] += len(recorded) - len(acknowledged_batches[table])
    assert max(more) <= 1
    assert all(report.damage == () for report in RunReader(run_dir).verify())


def run_lives(run_dir: Path, count: int, durability: str, together: int = 1) -> list[Acknowledged]:
    """`count` times: start `together` writers on one run, kill them at a random moment, check what is there."""
    chance = random.Random(run_dir.name + durability)
    lives: list[Acknowledged] = []
    # A disk that syncs slowly records nothing in so short a life; some life must have been long enough.
    while len(lives) < count * together or (not batches_of(lives) and len(lives) < 20 * together):
        names = range(len(lives), len(lives) + together)
        writers = [start(WRITER, Path(__file__).parent / "support", run_dir, name, durability) for name in names]
        lives += map(acknowledged, kill_after(writers, chance.uniform(0.0, 0.25)))
        if (run_dir / "records").exists():
            check(run_dir, lives)
    return lives


def batches_of(lives: list[Acknowledged]) -> int:
    return sum(len(batches) for life in lives for batches in life.values())


@pytest.mark.parametrize("durability", ["process-kill", "power-loss"])
def test_a_killed_writer_loses_at_most_the_batch_in_flight(tmp_path, durability):
    lives = run_lives(tmp_path, 3, durability)
    assert batches_of(lives) > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("durability", ["process-kill", "power-loss"])
def test_many_killed_writers_lose_at_most_the_batch_in_flight(tmp_path, durability):
    lives = run_lives(tmp_path, 25, durability)
    assert batches_of(lives) > 25
    # Some kills must have struck mid-append, or the test has shown nothing.
    assert RunReader(tmp_path).torn
    shutil.rmtree(tmp_path)  # gigabytes, which pytest would keep


def test_two_killed_writers_of_one_run_lose_nothing_of_each_other(tmp_path):
    lives = run_lives(tmp_path, 2, "process-kill", together=2)
    assert batches_of(lives) > 0


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_killed_compaction_leaves_no_dataset_or_a_whole_one(tmp_path, kills):
    run_dir = write_run(tmp_path / "run", steps=40)
    whole = {name: RunReader(run_dir).table(name, latest=True).num_rows for name in NAMES}
    chance = random.Random(kills)
    for number in range(kills):
        out = tmp_path / f"out-{number}"
        kill_after([start(COMPACT, run_dir, out)], chance.uniform(0.0, 0.3))
        if out.exists():
            assert {name: ds.dataset(out / name).count_rows() for name in NAMES} == whole
        assert all(report.damage == () and report.torn is None for report in RunReader(run_dir).verify())
    left = compact(run_dir, tmp_path / "out")
    assert left.rows == whole


@pytest.mark.parametrize("cut", range(0, 400, 37))
def test_a_killed_write_leaves_a_prefix_and_the_prefix_is_torn(tmp_path, cut, run_dir):
    """What SIGKILL leaves of one write is a prefix of its bytes; every prefix must read as torn."""
    before = RunReader(run_dir).table("turns")
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    message = before.combine_chunks().to_batches()[0].serialize().to_pybytes()
    with stream.open("ab") as file:
        file.write(message[: cut + 1])
    assert RunReader(run_dir).table("turns").equals(before)
    assert [torn.stream_bytes for torn in RunReader(run_dir).torn] == [cut + 1]
