"""One self-contained HTML page about several results: a table for each set of results that can be compared.

Names of models, runs and problems are foreign text. All of it is escaped, and the page's content policy allows only our
own script and style sheet, by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from warpsmith.evaluator.bench.page import shown
from warpsmith.evaluator.bench.printing import percent
from warpsmith.evaluator.bench.scores import FASTER_THAN
from warpsmith.rollout._version import __version__
from warpsmith.rollout.bench.comparison import COMPARED, is_timed

TEMPLATE: Final = "leaderboard.html.jinja"
_SHOWN: Final = ("samples", "budget", "sampling", "prompt_style", "context_tokens")
_SHOWN_OF_JUDGING: Final = ("judge", "device", "language", "trials", "operators", "baseline", "version")


@dataclass(frozen=True)
class Board:
    """Results that differ in model and strategy alone, the best first.

    Attributes:
        title: problems and devices.
        settings: what they have in common, by name.
        timed: whether times were taken.
        baselines: names of the references that speedups are over, the first one first; none if nothing was timed.
        ks: the k of pass@k that every result has.
        rows: one a result.
    """

    title: str
    settings: dict[str, str]
    timed: bool
    baselines: list[str]
    ks: list[int]
    rows: list[dict[str, Any]]


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("warpsmith.rollout.bench", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "percent": percent, "number": _number}
    ours = jinja2.PackageLoader("warpsmith.evaluator.bench", ".")
    script, style = (Markup(ours.get_source(environment, name)[0]) for name in ("page.js", "page.css"))
    return str(
        environment.get_template(TEMPLATE).render(
            boards=boards_of(results),
            faster_than=FASTER_THAN,
            script=script,
            style=style,
            policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
            "form-action 'none'",
            version=__version__,
            made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    )


def boards_of(results: Sequence[Mapping[str, Any]]) -> list[Board]:
    """Return a board for each set of results that agree in problems, devices and settings except model and strategy."""
    groups: dict[str, dict[tuple[str, ...], list[Mapping[str, Any]]]] = {}
    for result in results:
        common = {name: value for name, value in result["settings"].items() if name not in COMPARED}
        key = json.dumps([result["problem_set"], common], sort_keys=True)
        groups.setdefault(key, {}).setdefault(tuple(result["devices"]), []).append(result)
    for by_devices in groups.values():
        # A result without a correct kernel was timed on no device, and is comparable with any.
        if () in by_devices and len(by_devices) > 1:
            untimed = by_devices.pop(())
            next(iter(by_devices.values())).extend(untimed)
    return [_board(group) for by_devices in groups.values() for group in by_devices.values()]


def _board(results: Sequence[Mapping[str, Any]]) -> Board:
    first = results[0]
    timed = any(map(is_timed, results))
    rows = sorted((_row(result) for result in results), key=_order, reverse=True)
    baselines = list(dict.fromkeys(name for row in rows for name in row["speed_over"])) if timed else []
    shared = set.intersection(*(set(row["pass_at"]) for row in rows))
    devices = next((", ".join(result["devices"]) for result in results if result["devices"]), "")
    timed_on = f", timed on {devices}" if devices else ""
    return Board(
        f"{first['problem_set']['problems']} problems ({first['problem_set']['sha256'][:8]}){timed_on}",
        _common(first["settings"]),
        timed,
        baselines,
        sorted(shared),
        rows,
    )


def _common(settings: Mapping[str, Any]) -> dict[str, str]:
    judging = settings["judging"]
    found = {name: settings[name] for name in _SHOWN} | {n: judging[n] for n in _SHOWN_OF_JUDGING if n in judging}
    return dict(_flat(found))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of nested tables that are set, with dotted names, as text."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    total = result["scores"][-1]
    searches = result["searches"]
    return {
        "name": result.get("name", ""),
        "model": result["model"],
        "strategy": result["strategy"]["type"],
        "attempts": result["strategy"].get("attempts", 1),
        "counted": total["counted"],
        "correct": total["correct_rate"],
        "pass_at": {int(k): value for k, value in total["pass_at"].items()},
        "speed": total["speed"],
        "speed_over": total["speed_over"],
        "without_score": sum(not search["scored"] for search in searches),
        **{name: result["spent"][name] for name in ("evaluations", "generate_s", "judge_s", "cost", "currency")},
        "tokens": result["spent"]["prompt_tokens"] + result["spent"]["completion_tokens"],
    }


def _order(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the sort key of a result: what is faster than the reference, then what is correct, then how fast."""
    speed = row["speed"]
    fast = _at(speed["fast_p"], 1.0) if speed else 0.0
    return fast, row["correct"] or 0.0, (speed and speed["geometric_mean"]) or 0.0


def _at(shares: Mapping[Any, float], p: float) -> float:
    return next((share for key, share in shares.items() if float(key) == p), 0.0)


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
