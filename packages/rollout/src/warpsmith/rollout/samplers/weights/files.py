"""Weights as files in memory-backed scratch space, for processes that can only read files."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.rollout.samplers.weights.payload import Adapter, WeightPayload


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yield a new directory, in memory if the machine has /dev/shm; it is removed afterwards."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-weights-", dir=str(shared) if shared.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def adapter_directory(payload: WeightPayload, adapter: Adapter) -> Iterator[Path]:
    """Yield a directory with a payload's low-rank factors in peft's file format; it is removed afterwards."""
    with scratch_directory() as folder:
        payload.save_adapter(folder, adapter)
        yield folder
