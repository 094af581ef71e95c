"""Real limits around a whole evaluator: a right kernel is `correct`, or `invalid` with the limit to raise.

Nothing is injected here. An evaluator that cannot start at all says so by an error that names the limit.
"""

import json
import os
import select
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import warpsmith.evaluator
from warpsmith.evaluator import EvaluatorConfig

SUPPORT = Path(__file__).parents[1] / "support"
ANSWER_S = 200.0
CONFIG = EvaluatorConfig(slots=1, ready_workers=1, timeout_s=20, start_timeout_s=120)
USER = 54321
"""A number that no account has: the limit counts all processes of a user."""
COVERED = """\
set -e
mount -t tmpfs -o size=16m,mode=755 kept /mnt
for path in $KEPT; do mkdir -p /mnt/$path; mount --bind $path /mnt/$path; done
[ -z "$HIDDEN" ] || mount --rbind /mnt/$HIDDEN $HIDDEN
exec "$@"
"""
"""Makes a folder that others may not enter one that they may, with only what the evaluator reads in it."""
SMALL = 'set -e; mount -t tmpfs -o mode=1777,size=$SIZE small "$TMPDIR"; exec "$@"'
IN_OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]


class Limited:
    """An evaluator that was started under a limit."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def answer(self) -> dict:
        assert select.select([self.process.stdout], [], [], ANSWER_S)[0], "it waits without an end"
        return json.loads(self.process.stdout.readline())

    def evaluate(self, problem: str, candidate: str) -> dict:
        self.process.stdin.write(json.dumps({"problem": problem, "candidate": candidate}) + "\n")
        self.process.stdin.flush()
        return self.answer()


@contextmanager
def limited(before: list[str], **environment: str):
    command = [*before, sys.executable, str(SUPPORT / "asked_evaluator.py"), CONFIG.model_dump_json()]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | environment,
    )
    try:
        yield Limited(process)
        process.stdin.close()
        process.wait(60)
    finally:
        process.kill()
        process.wait(60)


def as_user(limit: int) -> tuple[list[str], dict[str, str]]:
    """Return how to run as a user of at most so many processes, in a tree that it can read."""
    needed = {Path(sys.base_prefix), Path(sys.prefix), Path(warpsmith.evaluator.__file__).parents[3], SUPPORT}
    closed = [folder for path in needed for folder in path.parents if not folder.stat().st_mode & 0o001]
    hidden = min(closed, key=lambda folder: len(folder.parts), default=None)
    kept = [str(path) for path in needed if hidden and path.is_relative_to(hidden)]
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all"]
    command = [*IN_OWN_MOUNTS, COVERED, "sh", "prlimit", f"--nproc={limit}:{limit}", *user]
    return command, {"HIDDEN": str(hidden or ""), "KEPT": " ".join(kept), "HOME": "/nonexistent"}


def check(running: Limited, problem: str, candidate: str, limit: str) -> list[str]:
    """Check what two evaluations come to, and return it."""
    begun = running.answer()
    found = [running.evaluate(problem, f"{candidate}\n# {n}\n") for n in range(2)] if begun.get("ready") else [begun]
    for one in found:
        outcome = one.get("raised") or one["status"]
        assert outcome in {"correct", "invalid", "JudgeUnavailableError"}, one
        assert outcome == "correct" or limit in (one.get("error_message") or one.get("message")), one
    return [one.get("raised") or one["status"] for one in found]


def some(short: set[int], values: range):
    return [pytest.param(n, marks=pytest.mark.slow if n in short else pytest.mark.long) for n in values]


def may_mount() -> bool:
    """Whether this process may become another user and mount: a container's root may not."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run([*IN_OWN_MOUNTS, "mount -t tmpfs x /mnt"], check=False, capture_output=True).returncode == 0


needs_root = pytest.mark.skipif(not may_mount(), reason="to become another user and to mount takes the host's root")


@needs_root
@pytest.mark.parametrize("processes", some({22}, range(10, 61, 4)))
def test_a_limit_of_processes(add_problem, add_candidate, processes):
    command, environment = as_user(processes)
    with limited(command, **environment) as running:
        found = check(running, add_problem.source, add_candidate, "ulimit -u")
    assert found == ["correct"] * 2 or processes < 40


@pytest.mark.parametrize("descriptors", some(set(), range(12, 65, 4)))  # every run has a server of few descriptors
def test_a_limit_of_descriptors(add_problem, add_candidate, descriptors):
    with limited(["prlimit", f"--nofile={descriptors}:{descriptors}"]) as running:
        found = check(running, add_problem.source, add_candidate, "ulimit -n")
    assert found == ["correct"] * 2 or descriptors < 60


@pytest.mark.long
@pytest.mark.parametrize("megabytes", [700, 900, 930, 960, 1000, 1500, 4000])
def test_a_limit_of_address_space(add_problem, add_candidate, megabytes):
    with limited(["prlimit", f"--as={megabytes << 20}:{megabytes << 20}"]) as running:
        found = check(running, add_problem.source, add_candidate, "")
    assert found == ["correct"] * 2 or megabytes < 1500


@needs_root
@pytest.mark.parametrize("kilobytes", some(set(), range(16, 400, 64)))
def test_a_small_temporary_folder(add_problem, add_candidate, kilobytes, tmp_path):
    with limited([*IN_OWN_MOUNTS, SMALL, "sh"], TMPDIR=str(tmp_path), SIZE=f"{kilobytes}k") as running:
        found = check(running, add_problem.source, add_candidate, "TMPDIR")
    assert found == ["correct"] * 2 or kilobytes < 300


@pytest.mark.long
@needs_root
def test_a_temporary_folder_that_others_fill_later(add_problem, add_candidate, tmp_path):
    with limited([*IN_OWN_MOUNTS, SMALL, "sh"], TMPDIR=str(tmp_path), SIZE="4m") as running:
        assert running.answer() == {"ready": True}
        full = Path(f"/proc/{running.process.pid}/root{tmp_path}/full")
        with pytest.raises(OSError, match="No space left"):
            full.write_bytes(b"x" * (5 << 20))
        outcome = running.evaluate(add_problem.source, add_candidate)
        assert outcome["status"] in {"correct", "invalid"}, outcome
        full.unlink()
        assert running.evaluate(add_problem.source, f"{add_candidate}\n# again\n")["status"] == "correct"
