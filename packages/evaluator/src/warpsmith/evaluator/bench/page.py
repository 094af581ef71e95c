"""One self-contained HTML page about a run, to read offline in a browser and to pass on.

Problems, candidates and messages are untrusted text. All of it is escaped, and the page's content policy allows only
our own script and style sheet, by their hashes: injected code could neither run nor load anything.
"""

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.bench.printing import NOT_TIMED, level_name, percent, terms_of
from warpsmith.evaluator.bench.scores import FASTER_THAN
from warpsmith.evaluator.bench.scoring import Answer, LevelScore
from warpsmith.records.folders import write_file
from warpsmith.records.wording import printable

FILE: Final = "report.html"
TEMPLATE: Final = "page.html.jinja"
MOST_SHOWN: Final = 100_000
"""Maximum characters of a source that are shown; results.parquet has all of it."""

WIDTH: Final = 720
HEIGHT: Final = 190
MARGIN: Final = 28
BINS: Final = (*(2.0**exponent for exponent in (-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4)),)
"""Borders of the histogram's bars in speedups, dense around one."""


@dataclass(frozen=True)
class Bar:
    """One bar of the histogram, in the picture's units, with its labels."""

    x: float
    y: float
    width: float
    height: float
    label: str
    count: int
    title: str
    faster: bool


def write_page(out: Path, report: dict[str, Any], answers: Sequence[Answer], scores: Sequence[LevelScore]) -> Path:
    """Write `report.html`; return its path.

    Args:
        out: the folder of results.
        report: what was run: the content of summary.json without its scores.
        answers: one per row of the table.
        scores: scores by level.
    """
    path = out / FILE
    write_file(path, render(report, answers, scores))
    return path


def render(report: dict[str, Any], answers: Sequence[Answer], scores: Sequence[LevelScore]) -> str:
    """Return the page."""
    environment = _environment()
    script, style = (_part(environment, name) for name in ("page.js", "page.css"))
    return str(
        environment.get_template(TEMPLATE).render(
            report=report,
            terms=terms_of(report["format"]),
            answers=answers,
            scores=scores,
            speedups=FASTER_THAN,
            bars=histogram([speedup for answer in answers if (speedup := answer.speedup) is not None]),
            picture={"width": WIDTH, "height": HEIGHT, "base": HEIGHT - MARGIN},
            not_timed=NOT_TIMED,
            script=script,
            style=style,
            policy=_policy(script, style),
            version=__version__,
            made_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            most_shown=MOST_SHOWN,
        )
    )


def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("warpsmith.evaluator.bench", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "percent": percent, "level_name": level_name, "figure": _figure}
    return environment


def _part(environment: Any, name: str) -> Any:
    """Return our own script or style sheet as trusted markup."""
    from markupsafe import Markup

    return Markup(environment.loader.get_source(environment, name)[0])


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def shown(text: str | None) -> str:
    """Return untrusted text with control characters, direction marks and surrogates escaped."""
    if text is None:
        return ""
    return printable(text[:MOST_SHOWN])


def _figure(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.4g}{unit}"


def histogram(speedups: Sequence[float]) -> list[Bar]:
    """Lay out a histogram of speedups; no bars if nothing was timed."""
    if not speedups:
        return []
    borders = [0.0, *BINS, math.inf]
    spans = list(pairwise(borders))
    counts = [sum(low < speedup <= high for speedup in speedups) for low, high in spans]
    width = WIDTH / len(spans)
    return [
        _bar(number * width, width, span, count, max(counts))
        for number, (span, count) in enumerate(zip(spans, counts, strict=True))
    ]


def _bar(x: float, width: float, span: tuple[float, float], count: int, most: int) -> Bar:
    low, high = span
    height = (HEIGHT - 2 * MARGIN) * count / most
    text = f"above {low:.3g}x" if math.isinf(high) else f"{low:.3g}x to {high:.3g}x"
    return Bar(
        x=round(x + 2, 2),
        y=round(HEIGHT - MARGIN - height, 2),
        width=round(width - 4, 2),
        height=round(height, 2),
        label=f">{low:.3g}" if math.isinf(high) else f"{high:.3g}",
        count=count,
        title=f"{text}: {count}",
        faster=low >= 1,
    )
