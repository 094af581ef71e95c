"""Ray: a local instance of our own, or the one an address names."""

from collections.abc import Iterator
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
) -> Iterator[None]:
    """Connect to Ray for the time of a `with` block.

    Args:
        address: an existing cluster (`auto` for the one on this machine); None starts a local one and ends it.
        num_cpus: logical CPUs of a local instance; None for those of the machine.
        object_store_bytes: shared memory of a local instance; it holds one copy of the weights.
        temp_dir: where a local instance writes logs and sockets; its path must be short.

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
        yield
    finally:
        ray.shutdown()


def _remedy(error: Exception) -> str:
    if "ersion mismatch" in str(error):
        return "All nodes of a cluster need the same Ray and the same Python: install requirements/cpu.lock on each."
    return "Check the address and free memory."
