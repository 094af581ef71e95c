"""Self-contained SVG plots: a scatter over a logarithmic axis, and bars of shares."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 420, 60, 50, 40, 20


def scatter(path: Path, points: Sequence[tuple[float, float, str]], *, title: str, x_label: str, y_label: str) -> None:
    """Write points (x, y, name); x is on a logarithmic axis, and the band from 0.98 to 1.02 is shaded.

    Args:
        path: the file to write.
        points: x above zero, y, and a name shown on hover.
        title: above the plot.
        x_label: below it.
        y_label: beside it.
    """
    xs = [math.log10(x) for x, _, _ in points]
    low, high = math.floor(min(xs)), math.ceil(max(xs))
    bottom = min(0.9, *(y for _, y, _ in points))
    top = max(1.1, *(y for _, y, _ in points))

    def across(x: float) -> float:
        return LEFT + (x - low) / max(high - low, 1) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (y - bottom) / (top - bottom) * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">{escape(title)}</text>',
        f'<rect x="{LEFT}" y="{up(1.02):.1f}" width="{WIDTH - LEFT - RIGHT}" height="{up(0.98) - up(1.02):.1f}" '
        'fill="#dfeedd"/>',
    ]
    for power in range(low, high + 1):
        parts.append(_line(across(power), TOP, across(power), HEIGHT - BOTTOM))
        parts.append(_text(across(power), HEIGHT - BOTTOM + 18, f"{10.0**power:g}", "middle"))
    for step in range(6):
        value = bottom + (top - bottom) * step / 5
        parts.append(_line(LEFT, up(value), WIDTH - RIGHT, up(value)))
        parts.append(_text(LEFT - 6, up(value) + 4, f"{value:.2f}", "end"))
    parts += [
        f'<circle cx="{across(math.log10(x)):.1f}" cy="{up(y):.1f}" r="4" fill="#2563a8">'
        f"<title>{escape(name)}: {x:.4g}, {y:.3f}</title></circle>"
        for x, y, name in points
    ]
    parts.append(_text(WIDTH / 2, HEIGHT - 12, escape(x_label), "middle"))
    parts.append(
        f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


BAR, GAP, KEY = 34, 20, 24
COLOURS = ("#2563a8", "#e08a1e", "#a33b3b", "#3f8f4f", "#c25b9b", "#7b55a3", "#2a9d9d", "#8c8c8c", "#d9d9d9")


def bars(path: Path, rows: Sequence[tuple[str, Mapping[str, float]]], *, title: str) -> None:
    """Write one bar per row, from 0 to 100 %, divided by the shares of its parts.

    Args:
        path: the file to write.
        rows: a name and the parts, not negative, all rows with the same parts in the same order; at most nine.
        title: above the bars.
    """
    names = list(rows[0][1])
    height = TOP + len(rows) * (BAR + GAP) + KEY + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">{escape(title)}</text>',
    ]
    for number, (name, shares) in enumerate(rows):
        parts += _bar(TOP + number * (BAR + GAP), name, shares)
    step = (WIDTH - 2 * RIGHT) / len(names)
    for number, name in enumerate(names):
        x, y = RIGHT + number * step, height - KEY
        parts.append(f'<rect x="{x:.1f}" y="{y - 10}" width="12" height="12" fill="{COLOURS[number]}"/>')
        parts.append(_text(x + 17, y, escape(name), "start"))
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def _bar(y: float, name: str, shares: Mapping[str, float]) -> list[str]:
    total, x = sum(shares.values()) or 1.0, float(RIGHT)
    parts = [_text(RIGHT, y + 11, escape(name), "start")]
    for colour, (part, value) in zip(COLOURS, shares.items(), strict=False):
        width = value / total * (WIDTH - 2 * RIGHT)
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 16}" width="{width:.1f}" height="{BAR - 12}" fill="{colour}">'
            f"<title>{escape(part)}: {value:.3g} s, {value / total:.1%}</title></rect>"
        )
        if value / total > 0.05:
            parts.append(_text(x + width / 2, y + 31, f"{value / total:.0%}", "middle"))
        x += width
    return parts


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#cccccc"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
