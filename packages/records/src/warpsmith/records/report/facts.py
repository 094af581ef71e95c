"""What a run was: model, configuration, duration, command and versions, as far as its directory records them."""

import datetime as dt
import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.report.errors import ReportError
from warpsmith.records.text import read_json
from warpsmith.records.units import duration

CONFIG_FILE: Final = "config.json"
START_FILE: Final = "start.json"
PROBLEMS_FILE: Final = "problems.jsonl"
_NOT_RECORDED: Final = "not recorded"
# Keys of config.json, the first that exists counts.
_SHOWN: Final = {
    "Model": ("policy.path", "model", "policy"),
    "Algorithm": ("algorithm.type",),
    "Problems": ("problems.type",),
    "Prompts a step": ("algorithm.prompts_per_step",),
    "Samples a prompt": ("algorithm.samples_per_prompt",),
    "Turns at most": ("rollout.environment.max_turns", "rollout.max_turns"),
    "Learning rate": ("optimizer.lr",),
    "Seed": ("run.seed",),
}


def configuration(run_dir: Path) -> dict[str, Any]:
    """Return RUN/config.json with dotted keys; empty without one.

    Raises:
        ReportError: it is not a JSON object.
    """
    return flattened(_object(run_dir / CONFIG_FILE))


def facts(run_dir: Path, config: dict[str, Any], turns: pa.Table, steps: pa.Table) -> list[tuple[str, str]]:
    """Return names and values for the head of the page.

    Command and versions are the keys `command` and `versions` of RUN/start.json.
    """
    found = [(label, _first(config, names)) for label, names in _SHOWN.items()]
    recorded = _object(run_dir / START_FILE)
    began, seconds = extent(turns, steps)
    times = [("Started", _moment(began)), ("Duration", duration(seconds))] if began is not None else []
    command, versions = recorded.get("command"), recorded.get("versions")
    spoken = command if isinstance(command, str) else " ".join(map(str, command or ()))
    named = ", ".join(f"{k} {v}" for k, v in versions.items()) if isinstance(versions, dict) else ""
    shown = [(label, str(value)) for label, value in found if value is not None]
    return [*shown, *times, ("Command", spoken or _NOT_RECORDED), ("Versions", named or _NOT_RECORDED)]


def extent(turns: pa.Table, steps: pa.Table) -> tuple[float | None, float]:
    """Return when the run began (seconds since 1970 UTC; None if nothing is recorded), and its duration so far."""
    begins, ends = [], []
    for table, durations in ((turns, ("generate_s", "wait_s", "evaluate_s")), (steps, ("seconds",))):
        if table.num_rows:
            lasting = [pc.fill_null(table.column(name), 0.0) for name in durations]
            end = table.column("started")
            for seconds in lasting:
                end = pc.add(end, seconds)
            begins.append(pc.min(table.column("started")).as_py())
            ends.append(pc.max(end).as_py())
    return (min(begins), max(ends) - min(begins)) if begins else (None, 0.0)


def problem_texts(run_dir: Path) -> dict[str, dict[str, str]]:
    """Return `source` and `solution` by problem from RUN/problems.jsonl; empty without one.

    A line that a killed run left unfinished at the end is skipped.

    Raises:
        ReportError: another line does not have the expected form.
    """
    file = run_dir / PROBLEMS_FILE
    if not file.is_file():
        return {}
    found: dict[str, dict[str, str]] = {}
    whole, _, _unfinished = file.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            found[str(entry["problem"])] = {key: str(entry[key]) for key in ("source", "solution") if entry.get(key)}
        except (ValueError, TypeError, KeyError):
            raise ReportError(
                f"Line {number} of {file} does not have the expected form.",
                'Each line is {"problem": name, "source": text, "solution": text}; the last is optional.',
            ) from None
    return found


def flattened(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested object with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = read_json(path, ReportError, remedy="Fix it or move it away.")
    if not isinstance(found, dict):
        raise ReportError(f"{path} is not a JSON object.", "Fix it or move it away.")
    return found


def _first(config: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
