"""The figures that a recorded run has sent to its trackers."""

from pathlib import Path

from warpsmith.records.errors import UsageError
from warpsmith.records.reader import RunReader
from warpsmith.records.report.held_out import SUMMARY_FILE
from warpsmith.records.text import read_json


def figures_of_run(run_dir: Path) -> list[str]:
    """Return the names of all figures that a run has logged, sorted.

    Raises:
        UsageError: the run has no step yet.
        WarpsmithError: it is not a run, or cannot be read.
    """
    steps = RunReader(run_dir).table("steps", latest=True)
    found = {name for metrics in steps.column("metrics").to_pylist() for name, _ in metrics}
    if not found:
        raise UsageError(f"{run_dir} has no recorded step.", "Wait for its first step.")
    return sorted(found | {"weight_version", "seconds"} | _held_out(run_dir / SUMMARY_FILE))


def _held_out(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    found = read_json(file, UsageError, "summary", "Name the directory of a run.").get("held_out", {})
    evaluations = [found.get("before"), found.get("after"), *(found.get("steps") or {}).values()]
    return {f"held_out/{name}" for one in evaluations if isinstance(one, dict) for name in one}
