"""A scatter plot over a logarithmic axis, as an SVG that needs nothing to be looked at."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 420, 60, 50, 40, 20


def scatter(path: Path, points: Sequence[tuple[float, float, str]], *, title: str, x_label: str, y_label: str) -> None:
    """Write points (x, y, name); x is on a logarithmic axis, and the band from 0.98 to 1.02 is shaded.

    Args:
        path: the file to write.
        points: x above zero, y, and a name that shows where the pointer rests.
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


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#cccccc"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
