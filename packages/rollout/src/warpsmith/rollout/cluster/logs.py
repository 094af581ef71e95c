"""The logs of Ray's actors: found by the process that died, on this machine or by asking its node."""

import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from warpsmith.records import process_log
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.last_words import notes_of, quote_into, quoted, tail_of

_PID: Final = re.compile(r"\bpid[:=]\s*(\d+)")
_ADDRESS: Final = re.compile(r"\bip[:=]\s*([0-9a-fA-F.:]+)")
_MARKS: Final = r":(?:job_id|actor_name|task_name):"
"""Starts the lines that Ray writes for itself."""
_FAILED: Final = re.compile(r"^(\(\S+ pid=\d+\)) ERROR ", re.MULTILINE)
"""Starts an error logged by vLLM, with the process that it comes from."""

_NODE_SECONDS: Final = 20.0


_STARTED: Final = "=== "
"""Start of the line that each start of an actor adds to its log in the run's directory."""


def write_to(log: Path) -> None:
    """Send this actor's stdout and stderr to a log in the run's directory; see `process_log`.

    On a node that cannot write there, they stay in Ray's log of the actor, where the reason is written first.
    """
    try:
        process_log.redirect(
            log, f"{_STARTED}pid {os.getpid()} on {os.uname().nodename}, {datetime.now(UTC):%F %T} UTC"
        )
    except OSError as error:
        sys.stderr.write(f"{log} cannot be written on this node ({error.strerror}); this log is used instead.\n")


def last_words(text: str, log: Path | None = None) -> Sequence[str]:
    """Return the last log lines of the actor that a Ray error names; if they cannot be read, say why.

    Args:
        text: the text of Ray's error, which names process and node.
        log: the actor's log in the run's directory, if it has one; Ray's log is read if that is missing or empty.
    """
    if log is not None and (lines := quoted_since(log)):
        return [lines]
    import ray
    from ray.exceptions import RayError

    pid, address = _PID.search(text), _ADDRESS.search(text)
    folder = folder_of_session()
    if pid is None:
        return [f"Ray does not name the actor's process; the logs of its processes are in {folder}."]
    here = ray.util.get_node_ip_address()
    if address is None or address[1] == here:
        return _of_process(folder, int(pid[1]))
    try:
        return log_on_node(address[1], folder, int(pid[1]))
    except RayError as error:
        return [f"The actor's log is in {folder} on {address[1]}, which does not answer: {type(error).__name__}."]


def quote_own_log(error: WarpsmithError) -> None:
    """Attach the last lines of this process's own log: what it and its children wrote to stdout and stderr."""
    if not notes_of(error):
        files = [Path(f"/proc/self/fd/{number}").readlink() for number in (1, 2)]
        for file in dict.fromkeys(files):
            if file.is_file():
                quote_into(error, [file], skip=log_noise(file), since=_STARTED)


def quoted_since(log: Path) -> str:
    """Return the last lines of an actor's log since its last start; empty if there are none here."""
    if not log.is_file():
        return ""
    text = quoted(log, skip=log_noise(log), since=_STARTED)
    return text if "\n" in text else ""


def folder_of_session() -> Path:
    """Return this session's log folder, the same on every node."""
    from ray._private.worker import global_worker

    return Path(global_worker.node.get_logs_dir_path())


def _of_process(folder: Path, pid: int) -> list[str]:
    """Return the last lines that a process wrote to stdout and stderr."""
    logs = sorted(folder.glob(f"worker-*-{pid}.out")) + sorted(folder.glob(f"worker-*-{pid}.err"))
    if not logs:
        return [f"The actor's process {pid} left no log in {folder} on {os.uname().nodename}."]
    said = [log for log in logs if log.stat().st_size]
    return [quoted(log, skip=log_noise(log)) for log in said or logs[-1:]]


def log_noise(log: Path) -> re.Pattern[str]:
    """Return what to leave out of a log: Ray's marks, and what vLLM's other processes log about the first failure.

    A failed worker of vLLM ends vLLM's core, which ends the sampler in the actor; each logs a traceback, and only the
    first shows the cause.
    """
    found = _FAILED.search(tail_of(log))
    return re.compile(rf"{_MARKS}|(?!{re.escape(found[1])})\(\S+ pid=\d+\) " if found else _MARKS)


def log_on_node(address: str, folder: Path, pid: int) -> list[str]:
    """Return the same from another node, read by a task on that node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["NodeManagerAddress"] == address and node["Alive"]]
    if not nodes:
        return [f"The actor's log is in {folder} on {address}, a node that has left the cluster."]
    strategy = NodeAffinitySchedulingStrategy(nodes[0], soft=False)
    read = ray.remote(_of_process).options(num_cpus=0, scheduling_strategy=strategy)
    found: list[str] = ray.get(read.remote(folder, pid), timeout=_NODE_SECONDS)
    return [f"On {address}: {note}" for note in found]
