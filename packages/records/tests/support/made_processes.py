"""What the tests run in processes of their own; a module, so that a spawned interpreter can import it."""

import resource
import signal

from made_rows import turns

from warpsmith.records import RunWriter
from warpsmith.records.writer import RecordWriteError


def append_as_allowed(run_dir, started, allowed, count):
    """Append `count` batches, one for each release of `allowed`: a run without end takes ever longer to read."""
    with RunWriter(run_dir) as writer:
        for number in range(count):
            allowed.acquire()
            writer.append("turns", turns(str(number), f"{number}b"))
            started.set()


def fill_a_small_disk(run_dir, answer):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    writer = RunWriter(run_dir)
    done = 0
    try:
        while True:
            writer.append("turns", turns(*(f"{done}.{row}" for row in range(50))))
            done += 1
    except RecordWriteError as error:
        said = str(error)
    writer.append("turns", turns("after"))
    writer.close()
    answer.put((done, said))
