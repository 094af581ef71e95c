"""Real ranks under the real launcher that die in real ways: which one, how, and its log is quoted."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.trainer.launch.ending import CRASHED
from warpsmith.trainer.launch.rank_log import log_of, logs_of

# In the place of `warpsmith.trainer`, which the launcher starts as each rank: the same end, without a model.
RANK = """
import ctypes, os, signal, sys, time
from pathlib import Path
from warpsmith.trainer.launch import rank_log
from warpsmith.trainer.launch.ending import ends_after_exit_handlers

run_dir, death = Path(sys.argv[1]), sys.argv[2]
with ends_after_exit_handlers():
    rank_log.keep(run_dir)
    rank = os.environ["RANK"]
    print("rank", rank, "begins", file=sys.stderr, flush=True)
    (run_dir / f"begun-{rank}").touch()
    while len(list(run_dir.glob("begun-*"))) < 2:
        time.sleep(0.02)
    if rank == "1":
        print("about to end by", death, file=sys.stderr, flush=True)
        if death == "exception":
            raise MemoryError("CUDA out of memory, so to speak")
        if death == "memory":
            limit = Path(os.environ["LIMIT"])
            (limit / "memory.limit_in_bytes").write_text(str(64 << 20))
            (limit / "cgroup.procs").write_text(str(os.getpid()))
            kept = bytearray(os.urandom(1 << 20) * 512)
        if death == "exit":
            sys.exit(2)
        if death == "crash":
            import faulthandler
            faulthandler.enable()
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
"""
LAUNCH = """
import sys
from pathlib import Path
from warpsmith.trainer.launch import launcher

plain = launcher.launcher_command
def of_this_rank(arguments, devices, port):
    command = plain(arguments, devices, port)
    at = command.index("warpsmith.trainer")
    return [*command[:at], "rank_of_test", *command[at + 1 :]]
launcher.launcher_command = of_this_rank
run_dir = Path(sys.argv[1])
sys.exit(launcher.launch([str(run_dir), sys.argv[2]], 2, run_dir=run_dir))
"""


def launched(folder: Path, death: str, **environment: str) -> tuple[int, str, Path]:
    """Return exit code, what stood on stderr, and the run's directory."""
    (folder / "rank_of_test.py").write_text(RANK)
    run_dir = folder / "run"
    run_dir.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in {"RANK", "LOCAL_RANK", "WORLD_SIZE"}}
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(run_dir), death],
        capture_output=True, text=True, timeout=120, check=False,
        env={**clean, **environment, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    return ended.returncode, ended.stderr, run_dir


@pytest.mark.slow
@pytest.mark.parametrize(
    ("death", "code", "how", "last"),
    [
        ("kill", 137, "was ended by signal 9 (Killed)", "about to end by kill"),
        pytest.param(
            *("crash", 139, "was ended by signal 11 (Segmentation fault)", "string_at"), marks=pytest.mark.long
        ),
        ("exception", CRASHED, "ended by an unhandled exception", "MemoryError: CUDA out of memory, so to speak"),
    ],
)
def test_the_error_that_ends_the_run_quotes_the_rank_that_died(
    tmp_path: Path, death: str, code: int, how: str, last: str
) -> None:
    exit_code, said, run_dir = launched(tmp_path, death)
    before, named, after = said.partition("error: Rank 1 (pid ")
    paragraph, found, quote = after.partition(f"The last lines of {log_of(logs_of(run_dir), 1)}:")
    assert exit_code == code, said
    assert named and found, said
    assert how in " ".join(paragraph.split())
    assert last in quote
    assert "rank 0 begins" not in quote
    assert "about to end by" not in before, "what a rank's libraries print is in its log only"
    assert "rank 0 begins" in log_of(logs_of(run_dir), 0).read_text()


@pytest.mark.slow
def test_a_rank_that_said_why_it_ends_is_not_reported_again(tmp_path: Path) -> None:
    exit_code, said, _ = launched(tmp_path, "exit")
    assert exit_code == 2
    assert "error: " not in said


@pytest.fixture
def limit() -> Iterator[Path]:
    """A memory cgroup of version 1, which a process may join and limit."""
    path = Path("/sys/fs/cgroup/memory") / f"warpsmith-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup of version 1 can be made here: {error}")
    yield path
    path.rmdir()


@pytest.mark.slow
def test_a_rank_that_the_kernel_ends_for_memory_is_said_to_be(tmp_path: Path, limit: Path) -> None:
    code, said, run_dir = launched(tmp_path, "memory", LIMIT=str(limit))
    assert code == 137, said
    assert "was ended by signal 9 (Killed). Meanwhile the kernel's out-of-memory killer" in " ".join(said.split())
    assert said.endswith(f"{log_of(logs_of(run_dir), 1)}:\n    rank 1 begins\n    about to end by memory\n")


PEER = """
import os, sys
from pathlib import Path
from warpsmith.trainer.distributed.ranks import peers_needed
from warpsmith.trainer.launch import rank_log
from warpsmith.records import commands

os.environ["RANK"] = sys.argv[2]
rank_log.keep(Path(sys.argv[1]))
def lose():
    if sys.argv[2] == "1":
        print("the last of rank 1", file=sys.stderr, flush=True)
        os._exit(9)
    with peers_needed():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:25482.")
commands.run(lose)
"""


@pytest.mark.slow
def test_under_another_launcher_the_rank_that_is_left_quotes_the_dead_one(tmp_path: Path) -> None:
    for rank in ("1", "0"):
        ended = subprocess.run(
            [sys.executable, "-c", PEER, str(tmp_path), rank], capture_output=True, text=True, timeout=120, check=False
        )
    assert ended.returncode == 1, ended.stderr
    assert "Another rank of the run has ended" in ended.stderr
    assert f"The last lines of {log_of(logs_of(tmp_path), 1)}:\n    the last of rank 1\n" in ended.stderr
