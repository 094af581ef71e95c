"""Geometry of the report's line charts: numbers in, SVG coordinates out. The page's template draws them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

WIDTH: Final = 360
HEIGHT: Final = 190
LEFT: Final = 52
RIGHT: Final = 12
TOP: Final = 12
BOTTOM: Final = 30

TINY: Final = 1e-30

SMOOTHED_FROM: Final = 24
"""Curves of at least this many points also get a trailing mean over an eighth of them."""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position in the picture, and its number as text."""

    at: float
    text: str


@dataclass(frozen=True)
class Series:
    """One of several curves of a chart.

    Attributes:
        name: what it shows.
        number: its index, from 0, which also selects its colour.
        runs: pieces without gaps, each the `points` of an SVG polyline.
        dots: (x, y, text) of each point, for short curves.
    """

    name: str
    number: int
    runs: tuple[str, ...]
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class SeriesChart:
    """Several curves over one axis, ready to draw."""

    title: str
    series: tuple[Series, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class LineChart:
    """One curve, ready to draw.

    Attributes:
        title: what the chart shows.
        last: the last value, as text.
        runs: pieces of the curve without gaps, each the `points` of an SVG polyline.
        smooth: the trailing mean, in the same form; empty for short curves.
        dots: (x, y, text) of each point, for short curves.
        x_ticks, y_ticks: marks of the axes.
    """

    title: str
    last: str
    runs: tuple[str, ...]
    smooth: str
    dots: tuple[tuple[float, float, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def line_chart(title: str, points: Sequence[tuple[float, float | None]]) -> LineChart | None:
    """Lay out the curve through `points` (x ascending, y or None for a gap); None if no y is finite."""
    known = [(x, y) for x, y in points if _is_known(y)]
    if not known:
        return None
    x_ticks = ticks(known[0][0], known[-1][0], whole=True)
    y_ticks = ticks(min(y for _, y in known), max(y for _, y in known))
    frame = _Frame(known[0][0], known[-1][0], y_ticks[0], y_ticks[-1])
    short = len(known) < SMOOTHED_FROM
    return LineChart(
        title=title,
        last=short_number(known[-1][1]),
        runs=tuple(frame.polyline(run) for run in _without_gaps(points)),
        smooth="" if short else frame.polyline(_trailing_mean(known, len(known) // 8)),
        dots=_dots(frame, known) if short else (),
        x_ticks=tuple(Tick(frame.place(x, 0.0)[0], short_number(x)) for x in x_ticks if frame.holds(x)),
        y_ticks=tuple(Tick(frame.place(known[0][0], y)[1], short_number(y)) for y in y_ticks),
    )


def series_chart(title: str, curves: Mapping[str, Sequence[tuple[float, float | None]]]) -> SeriesChart | None:
    """Lay out several curves like `line_chart`; None if no y of any curve is finite."""
    known = {name: [(x, y) for x, y in points if _is_known(y)] for name, points in curves.items()}
    everything = [point for points in known.values() for point in points]
    if not everything:
        return None
    x_low, x_high = min(x for x, _ in everything), max(x for x, _ in everything)
    y_ticks = ticks(min(y for _, y in everything), max(y for _, y in everything))
    frame = _Frame(x_low, x_high, y_ticks[0], y_ticks[-1])
    drawn = [
        Series(
            name,
            number,
            tuple(frame.polyline(run) for run in _without_gaps(curves[name])),
            _dots(frame, points, f"{name}, ") if len(points) < SMOOTHED_FROM else (),
        )
        for number, (name, points) in enumerate(known.items())
        if points
    ]
    return SeriesChart(
        title,
        tuple(drawn),
        tuple(
            Tick(frame.place(x, 0.0)[0], short_number(x)) for x in ticks(x_low, x_high, whole=True) if frame.holds(x)
        ),
        tuple(Tick(frame.place(x_low, y)[1], short_number(y)) for y in y_ticks),
    )


def ticks(low: float, high: float, *, count: int = 4, whole: bool = False) -> list[float]:
    """About `count` round numbers from at most `low` to at least `high`; with `whole`, whole numbers only."""
    size = max(abs(low), abs(high))
    span = high - low
    if span < max(1e-9 * size, TINY):
        # One value, or values that differ only by rounding.
        span = size if size > TINY else 1.0
    raw = span / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def short_number(value: float) -> str:
    """Up to four significant digits; no exponent if that stays short."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class _Frame:
    """The rectangle of data that fills the picture within its margins."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def holds(self, x: float) -> bool:
        return self.x_low <= x <= self.x_high

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x_low) / (self.x_high - self.x_low) if self.x_high > self.x_low else 0.5
        up = (y - self.y_low) / (self.y_high - self.y_low)
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 2),
            round(HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM), 2),
        )

    def polyline(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join("{},{}".format(*self.place(x, y)) for x, y in points)


def _is_known(y: float | None) -> TypeGuard[float]:
    return y is not None and math.isfinite(y)


def _dots(
    frame: _Frame, points: Sequence[tuple[float, float]], before: str = ""
) -> tuple[tuple[float, float, str], ...]:
    return tuple((*frame.place(x, y), f"{before}step {short_number(x)}: {short_number(y)}") for x, y in points)


def _without_gaps(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if _is_known(y):
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _trailing_mean(points: Sequence[tuple[float, float]], window: int) -> list[tuple[float, float]]:
    means = []
    for index, (x, _) in enumerate(points):
        recent = [y for _, y in points[max(0, index - window + 1) : index + 1]]
        means.append((x, sum(recent) / len(recent)))
    return means
