"""Notes torch's own peaks of GPU memory in each process, for `benchmarks/eight_b.py`.

Python imports this at its start because the folder is in PYTHONPATH. The ranks of a run tell no figure of their
allocators, and what the driver shows includes blocks that an allocator keeps.
"""

import json
import os
import sys
import threading
import time
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _run_the_next() -> None:
    """Run the `sitecustomize` of the installation, which this one hides."""
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path).resolve() != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _watch(folder: Path) -> None:
    path = folder / f"{os.getpid()}.json"
    while True:
        time.sleep(0.5)
        # A module that is still being imported lacks its parts.
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not getattr(cuda, "is_initialized", bool)():
            continue
        # The current device is another one in each thread.
        devices = range(cuda.device_count())
        figures = {
            "program": sys.argv[0],
            "rank": os.environ.get("RANK"),
            "allocated": max(cuda.max_memory_allocated(device) for device in devices),
            "reserved": max(cuda.max_memory_reserved(device) for device in devices),
        }
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(figures), encoding="utf-8")
        unfinished.replace(path)


_run_the_next()
if "EIGHT_B_MEMORY" in os.environ:
    threading.Thread(target=_watch, args=(Path(os.environ["EIGHT_B_MEMORY"]),), daemon=True).start()
