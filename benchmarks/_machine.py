"""The machine, versions and date in every benchmark's result."""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NoReturn

SKIPPED: Final = 77
"""Exit code for skipped benchmarks, as in Automake."""


def describe(distributions: Sequence[str] = ()) -> dict[str, Any]:
    """Machine, versions and date of this run.

    Args:
        distributions: names of installed distributions whose versions matter to the figures.
    """
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(_memory_bytes() / 2**30, 1),
            "kernel": platform.release(),
            "gpus": _gpus(),
            "load_1min_at_start": os.getloadavg()[0],
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in distributions}},
    }


def skip(reason: str) -> NoReturn:
    """Skip a benchmark that cannot run here, with an exit code that `make bench` ignores."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def need_gpu() -> None:
    """Skip the benchmark if the driver shows no NVIDIA GPU."""
    if not _gpus():
        skip("this needs an NVIDIA GPU, and nvidia-smi shows none")


def visible_gpu() -> int:
    """Number of the GPU that this process sees first (`CUDA_VISIBLE_DEVICES`), for an evaluator, which sees all."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    return int(first) if first.isdigit() else 0


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write a benchmark's result as indented JSON, replacing the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def check_same(path: Path, known: dict[str, Any], here: dict[str, Any]) -> None:
    """Check that a result has the same GPUs and versions as this machine: a file has one of each."""
    setups = [(one["machine"]["gpus"], one["versions"]) for one in (known, here)]
    if setups[0] != setups[1]:
        sys.exit(
            f"{path} was measured with {setups[0]}, but this machine has {setups[1]}. Pass another file with --out."
        )


def continued(path: Path, rows: str, distributions: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a file to continue, or a new one without rows.

    Args:
        path: the file.
        rows: the key of the result's rows.
        distributions: as for `describe`.
        settings: what must be as it was in the file.
    """
    here = {**describe(distributions), **settings}
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {**here, rows: {}}
    check_same(path, result, here)
    for name, value in settings.items():
        if result.get(name) != value:
            sys.exit(f"{path} has {name} {result.get(name)!r}, not {value!r}; pass another --out.")
    return result


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpus() -> list[str]:
    """Names and drivers of the NVIDIA GPUs that this process sees; empty without nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "")
    only = [f"--id={visible}"] if visible.replace(",", "").isdigit() else []
    try:
        found = subprocess.run(
            ["nvidia-smi", *only, "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (FileNotFoundError, subprocess.SubprocessError):
        return []
    return found.stdout.strip().splitlines()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
