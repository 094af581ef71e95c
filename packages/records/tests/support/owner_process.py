"""Owns a run directory until its stdin ends; `away` gives it the identity of a process on another host.

`race` has many processes try at once, and prints how many of them owned the directory and how many were refused.
"""

import os
import sys
from pathlib import Path

from warpsmith.records import commands
from warpsmith.records.ownership import OwnershipLostError, RunInUseError, Timing, owned, process

STARTERS = 16
FAST = Timing(beat_s=0.05, lease_s=1.0, orphan_s=20.0, poll_s=0.02)


def hold(run_dir: Path) -> None:
    with owned(run_dir, timing=FAST):
        print("owns", flush=True)
        sys.stdin.read()


def race(run_dir: Path) -> None:
    """Fork starters that begin together; who owns the directory keeps it until all others have ended."""
    go, ready = os.pipe()
    awaited, done = os.pipe()
    for _ in range(STARTERS):
        if os.fork() == 0:
            os.close(ready)
            os.read(go, 1)
            os._exit(attempt(run_dir, awaited))
    os.close(ready)
    codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(STARTERS - 1)]
    os.write(done, b"x")
    codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
    print(codes.count(0), codes.count(2), flush=True)


def attempt(run_dir: Path, awaited: int) -> int:
    try:
        with owned(run_dir, timing=FAST, on_lost=lambda _: os._exit(3)) as ownership:
            os.read(awaited, 1)
            ownership.check()
    except RunInUseError:
        return 2
    except OwnershipLostError:
        return 3
    return 0


if __name__ == "__main__":
    role, directory = sys.argv[1], Path(sys.argv[2])
    if role == "away":
        process.space = lambda: "another boot/pid:[1]"  # type: ignore[assignment]
        process.socket.gethostname = lambda: "far-away"
    commands.run(lambda: race(directory) if role == "race" else hold(directory))
