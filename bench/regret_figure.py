"""The figure of `regret.py`: per problem and budget, the mean regret of each tool and its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from html import escape

COLORS = {"muster": "#0072b2", "optuna": "#d55e00", "ray": "#7f7f7f"}
LABELS = {"muster": "Muster (TPE, ASHA promotion)", "optuna": "Optuna (TPE, Hyperband pruner)", "ray": "Ray Tune (ASHA)"}  # fmt: skip
ROW, LEFT, RIGHT, TOP = 20, 250, 24, 56
WIDTH = 760


def draw(
    results: dict[str, dict[str, list[list[float]]]],
    budgets: dict[str, list[int]],
    tools: Sequence[str],
) -> str:
    """An SVG: one line per (problem, budget), regret along a logarithmic axis, less is better."""
    lines = [(name, i, n) for name in results for i, n in enumerate(budgets[name])]
    values = [
        statistics.fmean(s[i] for s in results[name][t]) for name, i, _ in lines for t in tools
    ]
    low = 10 ** math.floor(math.log10(max(min(v for v in values if v > 0), 1e-5)))
    high = 10 ** math.ceil(math.log10(max(values)))
    span = math.log10(high / low)

    def x(value: float) -> float:
        clipped = min(max(value, low), high)
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(clipped / low) / span

    height = TOP + ROW * len(lines) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for i, tool in enumerate(tools):
        at = 10 + i * 250
        out.append(f'<circle cx="{at}" cy="14" r="4" fill="{COLORS[tool]}"/>')
        out.append(f'<text x="{at + 8}" y="18">{escape(LABELS[tool])}</text>')
    out.append(
        f'<text x="{LEFT}" y="38" fill="#555">Normalised regret of the mean of the seeds, with 95 % '
        "intervals; less is better</text>"
    )
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        at = x(10.0**power)
        out.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 8}" y2="{height - 24}" stroke="#ddd"/>'
        )
        out.append(
            f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle" fill="#555">{10.0**power:g}</text>'
        )
    for line, (name, i, budget) in enumerate(lines):
        y = TOP + ROW * line + 4
        shown = escape(name) if i == 0 else ""
        out.append(f'<text x="6" y="{y + 4}">{shown}</text>')
        out.append(
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#555">{budget} ×</text>'
        )
        for place, tool in enumerate(tools):
            at_y = y + 5 * (place - 1)  # intervals overlap: one above the other
            regrets = [s[i] for s in results[name][tool]]
            mean = statistics.fmean(regrets)
            width = 2.09 * statistics.stdev(regrets) / math.sqrt(len(regrets))
            out.append(
                f'<line x1="{x(mean - width):.1f}" x2="{x(mean + width):.1f}" y1="{at_y}" y2="{at_y}" '
                f'stroke="{COLORS[tool]}" stroke-width="1.5" opacity="0.6"/>'
            )
            out.append(f'<circle cx="{x(mean):.1f}" cy="{at_y}" r="3" fill="{COLORS[tool]}"/>')
    return "\n".join([*out, "</svg>\n"])
