"""SIGKILL at random moments: what was acknowledged is there exactly once, and nothing torn appears."""

import random
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.records import RunReader

# The writer acknowledges each batch on stdout only after append returned. Batches differ in size, up to 13 MB, and are
# not compressed: much of a life is spent inside a write, so that many kills strike there.
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from made_rows import turn_row
from warpsmith.records import RunWriter
from warpsmith.records.schema import turns_batch
import pyarrow as pa, itertools

life, durability = sys.argv[3], sys.argv[4]
writer = RunWriter(sys.argv[2], durability=durability, compression=None)
base = turns_batch([turn_row(kernel="k" * 8000)] * 1500)
place = base.schema.get_field_index("trajectory")
field = base.schema.field(place)
print("ready", flush=True)
for number in itertools.count():
    rows = base.slice(0, (1, 1500, 30, 400)[number % 4])
    names = pa.array([f"{life}.{number}.{row}" for row in range(rows.num_rows)])
    writer.append("turns", rows.set_column(place, field, names))
    print(number, rows.num_rows, flush=True)
"""


def live_and_die(run_dir: Path, life: int, seconds: float, durability: str) -> list[tuple[int, int]]:
    """Run a writer, SIGKILL it `seconds` after it is ready, return the (number, rows) it had acknowledged."""
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(run_dir), str(life), durability]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        said = b""
        # The random moment: reads what comes until the time is up, so that the pipe never blocks the writer.
        remaining = seconds
        while remaining > 0:
            if select.select([process.stdout], [], [], min(remaining, 0.002))[0]:
                said += process.stdout.read1()
            remaining -= 0.002
        process.kill()
        said += process.stdout.read()
    lines = said.decode().split("\n")[:-1]
    return [(int(number), int(rows)) for number, rows in (line.split() for line in lines)]


def check(run_dir: Path, lives: list[list[tuple[int, int]]]) -> None:
    """Every acknowledged batch once, whole, in order; at most one more batch a life, whole as well."""
    found: dict[int, list[tuple[int, int]]] = {}
    for batch in RunReader(run_dir).batches("turns", columns=["trajectory"]):
        names = [name.split(".") for name in batch.column(0).to_pylist()]
        ((life, number),) = {(int(name[0]), int(name[1])) for name in names}
        assert [int(name[2]) for name in names] == list(range(batch.num_rows))
        found.setdefault(life, []).append((number, batch.num_rows))
    for life, acknowledged in enumerate(lives):
        recorded = found.get(life, [])
        assert recorded[: len(acknowledged)] == acknowledged
        assert len(recorded) <= len(acknowledged) + 1
    assert all(report.damage == () for report in RunReader(run_dir).verify())


def run_lives(run_dir: Path, count: int, durability: str) -> list[list[tuple[int, int]]]:
    chance = random.Random(run_dir.name + durability)
    lives: list[list[tuple[int, int]]] = []
    for life in range(count):
        lives.append(live_and_die(run_dir, life, chance.uniform(0.0, 0.25), durability))
        if (run_dir / "records").exists():
            check(run_dir, lives)
    return lives


@pytest.mark.parametrize("durability", ["process-kill", "power-loss"])
def test_a_killed_writer_loses_at_most_the_batch_in_flight(tmp_path, durability):
    lives = run_lives(tmp_path, 4, durability)
    assert sum(map(len, lives)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["process-kill", "power-loss"])
def test_many_killed_writers_lose_at_most_the_batch_in_flight(tmp_path, durability):
    lives = run_lives(tmp_path, 25, durability)
    assert sum(map(len, lives)) > 25
    # Some kills must have struck mid-append, or the test has shown nothing.
    assert RunReader(tmp_path).torn
    shutil.rmtree(tmp_path)  # gigabytes, which pytest would keep


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
