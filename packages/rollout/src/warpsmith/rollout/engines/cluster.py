"""Ray: a local instance of our own, or the one an address names."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.rollout.errors import EngineError

_OBJECT_STORE_BYTES = 512 << 20


@contextmanager
def ray_session(
    address: str | None = None,
    *,
    num_cpus: int | None = None,
    object_store_bytes: int = _OBJECT_STORE_BYTES,
    temp_dir: Path | None = None,
    on_lost: Callable[[EngineError], None] | None = None,
) -> Iterator[None]:
    """Connect to Ray for the time of a `with` block.

    Args:
        address: an existing cluster (`auto` for the one on this machine); None starts a local one and ends it.
        num_cpus: logical CPUs of a local instance; None for those of the machine.
        object_store_bytes: shared memory of a local instance; it holds one copy of the weights.
        temp_dir: where a local instance writes logs and sockets; its path must be short.
        on_lost: called, from another thread, when a process of the local instance itself ends. Ray would end this
            process within a minute (gcs_server) or let it wait for actors that never start (raylet).

    Raises:
        EngineError: Ray cannot be started or reached.
    """
    import ray

    local = {
        "num_cpus": num_cpus,
        "object_store_memory": object_store_bytes,
        "include_dashboard": False,
        "_temp_dir": None if temp_dir is None else str(temp_dir),
    }
    try:
        ray.init(
            address=address or "local", log_to_driver=False, logging_level="ERROR", **(local if address is None else {})
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        # A connection that failed half way would be in the way of the next one.
        ray.shutdown()
        where = address or "a local instance"
        raise EngineError(f"Ray cannot be started on {where}: {error}.", _remedy(error)) from error
    try:
        with _watched(on_lost if address is None else None):
            yield
    finally:
        ray.shutdown()


@contextmanager
def _watched(on_lost: Callable[[EngineError], None] | None) -> Iterator[None]:
    """Call `on_lost` when the raylet or the gcs_server that this process has started ends inside the block."""
    if on_lost is None:
        yield
        return
    watched = {os.pidfd_open(pid): name for name, pid in _own_processes()}
    stop, stopped = os.pipe()
    thread = threading.Thread(target=_watch, args=(watched, stop, on_lost), name="ray watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stopped)
        thread.join()
        for fd in (stop, *watched):
            os.close(fd)


def _watch(watched: dict[int, str], stop: int, on_lost: Callable[[EngineError], None]) -> None:
    ready, _, _ = select.select([stop, *watched], [], [])
    if stop not in ready:
        names = " and ".join(watched[fd] for fd in ready)
        on_lost(
            EngineError(
                f"Ray's {names} has ended, and with it the engines: it was killed, or the machine had no memory left.",
                "Look at Ray's logs and the kernel's; go on with --resume.",
            )
        )


def _own_processes() -> Iterator[tuple[str, int]]:
    """Yield name and pid of the processes that make up this process's own instance of Ray."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    for process in psutil.Process().children():
        if process.name() in {"raylet", "gcs_server"}:
            yield process.name(), process.pid


def _remedy(error: Exception) -> str:
    if "ersion mismatch" in str(error):
        return "All nodes of a cluster need the same Ray and the same Python: install requirements/cpu.lock on each."
    return "Check the address and free memory."
