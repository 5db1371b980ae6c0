"""Curves of a report as a picture in SVG, for files that nothing is run in."""

from __future__ import annotations

import math
from collections.abc import Sequence

COLORS = ("#2459a6", "#c2571a", "#2e7d4f", "#8a3fa0", "#b3261e", "#5c6570")
WIDTH, HEIGHT = 840, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 28

Points = Sequence[tuple[int, float | None]]


def chart_svg(lines: Sequence[tuple[int, Points]], *, log: bool) -> str:
    """Return lines of points over steps, each with the number of its color.

    A line is broken at values that are not finite, and with `log` at those not above zero.
    """
    usable = [
        [(step, y) for step, raw in points if (y := _height(raw, log)) is not None]
        for _, points in lines
    ]
    every = [point for points in usable for point in points]
    if not every:
        return "<p>No points.</p>"
    (left, right), (low, high) = (_ends([point[axis] for point in every]) for axis in (0, 1))

    def across(step: float) -> float:
        return LEFT + (step - left) / (right - left) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="11" fill="#5c6570">']
    for value in _ticks(low, high, 5):
        parts.append(
            f'<path d="M{LEFT} {up(value):.1f}H{WIDTH - RIGHT}" stroke="#e3e6ea"/>'
            f'<text x="{LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">'
            f"{(10**value if log else value):.4g}</text>"
        )
    for step in _ticks(left, right, 8):
        parts.append(
            f'<text x="{across(step):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{step:,.10g}</text>'
        )
    for color, points in lines:
        path, is_drawing = "", False
        for step, raw in points:
            height = _height(raw, log)
            if height is not None:
                path += f"{'L' if is_drawing else 'M'}{across(step):.1f} {up(height):.1f}"
            is_drawing = height is not None
        stroke = COLORS[color % len(COLORS)]
        parts.append(f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="1.5"/>')
    return "".join(parts) + "</svg>"


def _height(value: float | None, log: bool) -> float | None:
    if value is None or not math.isfinite(value) or (log and value <= 0):
        return None
    return math.log10(value) if log else value


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two ends, about so many."""
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(one * unit for one in (1, 2, 5, 10) if one * unit >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]
