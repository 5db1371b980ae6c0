"""The figure of `compare.py`: the share of targets that each rule has reached after how much training."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 60, 220, 20, 50
COLORS = ("#7f7f7f", "#0072b2", "#004466", "#56b4e9", "#009e73", "#d55e00", "#a63603", "#e69f00", "#cc79a7", "#6a3d9a")  # fmt: skip
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)


def draw(reached: dict[str, list[tuple[float, float]]], budget: float) -> str:
    """Return an SVG; full trainings lie on a logarithmic axis, and more is better."""
    low, top = math.log(TICKS[0]), max(share for line in reached.values() for _, share in line)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(value) - low) / (math.log(budget) - low)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share / top

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in (t for t in TICKS if t <= budget):
        out.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')  # fmt: skip
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')  # fmt: skip
    for tenth in range(math.floor(top * 10) + 1):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tenth / 10):.1f}" y2="{y(tenth / 10):.1f}" stroke="#ddd"/>')  # fmt: skip
        out.append(f'<text x="{LEFT - 8}" y="{y(tenth / 10) + 4:.1f}" text-anchor="end">{10 * tenth}%</text>')  # fmt: skip
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 12}" fill="#555">Training spent, in full trainings; share of regret targets reached</text>')  # fmt: skip
    ranked = sorted(reached, key=lambda rule: -reached[rule][-1][1])
    for place, rule in enumerate(ranked):
        color = COLORS[list(reached).index(rule) % len(COLORS)]
        dash = ' stroke-dasharray="5 3"' if rule.startswith("Optuna") else ""
        points = " ".join(f"{x(at):.1f},{y(share):.1f}" for at, share in reached[rule])
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6"{dash}/>')  # fmt: skip
        at = TOP + 14 + 18 * place
        out.append(f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 34}" y1="{at - 4}" y2="{at - 4}" stroke="{color}" stroke-width="2"{dash}/>')  # fmt: skip
        out.append(f'<text x="{WIDTH - RIGHT + 40}" y="{at}">{escape(rule)}</text>')
    return "\n".join([*out, "</svg>\n"])
