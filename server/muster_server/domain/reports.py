"""Tables of reports: the mean and deviation of runs in groups, and tables as text for papers."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Scalar = float | int | str | bool | None
"""A value of a run. NaN and infinities are the texts "NaN", "Infinity" and "-Infinity"."""

MAX_DECIMALS = 12
_EXPONENT = re.compile(r"e([+-]?\d+)")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The values of several runs in one column."""

    mean: float | None
    """Mean of the finite numbers; None if there are none."""
    deviation: float | None
    """Sample standard deviation, with n - 1; None for fewer than two numbers."""
    num: int
    """Number of finite numbers."""
    num_missing: int
    """Number of runs without a value."""
    num_not_finite: int
    """Number of runs whose value is NaN, infinite or no number."""


@dataclass(frozen=True, kw_only=True)
class TableRun:
    """A run with its values, by column."""

    id: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class TableCell:
    text: str
    """The value as it is shown: "0.912 ± 0.003". Empty for none."""
    value: float | str | None
    """Number, or mean of several; text of a column without numbers."""
    spread: Spread | None
    """Statistics of a group; None in a table with a row for each run."""
    run_ids: Sequence[int]
    """Runs whose values the cell has."""
    difference: float | None = None
    """Value minus that of the baseline; None for the baseline itself, and where either has none."""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    keys: Sequence[str]
    """Values of the columns that runs are grouped by."""
    cells: Sequence[TableCell]
    run_ids: Sequence[int]
    is_baseline: bool = False


def spread(values: Sequence[Scalar]) -> Spread:
    """Return the mean and the sample standard deviation of the finite numbers among values."""
    present = [value for value in values if value is not None]
    finite = [number for value in present if (number := as_number(value)) is not None]
    try:
        mean = statistics.fmean(finite) if finite else None
        deviation = statistics.stdev(finite) if len(finite) > 1 else None
    except OverflowError:  # numbers near the largest of a double
        mean, deviation = None, None
    return Spread(
        mean=mean if mean is not None and math.isfinite(mean) else None,
        deviation=deviation,
        num=len(finite),
        num_missing=len(values) - len(present),
        num_not_finite=len(present) - len(finite),
    )


def as_number(value: Scalar) -> float | None:
    """Return a finite number; None for everything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def run_rows(
    runs: Sequence[TableRun], columns: Sequence[str], decimals: int | None
) -> list[TableRow]:
    """Return a row for each run, in their order."""
    return [
        TableRow(
            keys=(),
            cells=[_plain(run, column, decimals) for column in columns],
            run_ids=[run.id],
        )
        for run in runs
    ]


def grouped_rows(
    runs: Sequence[TableRun], by: Sequence[str], columns: Sequence[str], decimals: int | None
) -> list[TableRow]:
    """Return a row for each combination of the values of `by`, in their order: numbers before
    texts, and groups without a value last."""
    groups: dict[tuple[Scalar, ...], list[TableRun]] = {}
    for run in runs:
        groups.setdefault(tuple(_key(run.values.get(name)) for name in by), []).append(run)
    return [
        TableRow(
            keys=[value_text(value) or "–" for value in key],
            cells=[_of_group(members, column, decimals) for column in columns],
            run_ids=[run.id for run in members],
        )
        for key, members in sorted(groups.items(), key=lambda one: [place_of(v) for v in one[0]])
    ]


def with_baseline(rows: Sequence[TableRow], run_id: int) -> list[TableRow]:
    """Return the rows with differences from the row that has the baseline run. Raises LookupError
    if no row has it."""
    base = next((row for row in rows if run_id in row.run_ids), None)
    if base is None:
        raise LookupError(run_id)
    return [
        replace(row, is_baseline=True)
        if row is base
        else replace(
            row,
            cells=[
                replace(cell, difference=_difference(cell.value, other.value))
                for cell, other in zip(row.cells, base.cells, strict=True)
            ],
        )
        for row in rows
    ]


def spread_text(found: Spread, size: int, decimals: int | None) -> str:
    """Return "0.912 ± 0.003": two digits of the deviation, and the mean as far as those go.

    size: of the group. If fewer of its runs have a number, the text says of how many it is.
    """
    if found.mean is None:
        return "–"
    shown = decimals
    if shown is None and found.deviation:
        needed = max(0, 1 - math.floor(math.log10(found.deviation)))
        shown = needed if needed <= MAX_DECIMALS else None
    text = number_text(found.mean, shown)
    if found.deviation is not None:
        text += f" ± {number_text(found.deviation, shown)}"
    return text if found.num == size else f"{text} (n={found.num})"


def number_text(value: float, decimals: int | None) -> str:
    """Return a number with so many decimals; None: with five digits."""
    return f"{value:.5g}" if decimals is None else f"{value:.{decimals}f}"


def _plain(run: TableRun, column: str, decimals: int | None) -> TableCell:
    value = run.values.get(column)
    number = as_number(value)
    if number is None:
        text = value_text(value)
        return TableCell(text=text, value=text or None, spread=None, run_ids=[run.id])
    is_whole = isinstance(value, int)
    text = str(value) if is_whole else number_text(number, decimals)
    return TableCell(text=text, value=number, spread=None, run_ids=[run.id])


def _of_group(members: Sequence[TableRun], column: str, decimals: int | None) -> TableCell:
    values = [run.values.get(column) for run in members]
    found = spread(values)
    return TableCell(
        text=spread_text(found, len(members), decimals),
        value=found.mean,
        spread=found,
        run_ids=[
            run.id
            for run, value in zip(members, values, strict=True)
            if as_number(value) is not None
        ],
    )


def _difference(value: float | str | None, other: float | str | None) -> float | None:
    if isinstance(value, float) and isinstance(other, float):
        return value - other
    return None


def _key(value: Scalar) -> Scalar:
    # True and 1 are one key of a dict, and two values here.
    return value_text(value) if isinstance(value, bool) else value


def value_text(value: Scalar) -> str:
    """Return a value as text; empty for none."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def place_of(value: Scalar) -> tuple[int, float, str]:
    """Return the key that orders values: numbers, then texts, then what has no value."""
    number = as_number(value)
    if number is not None:
        return 0, number, ""
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


# ---------------------------------------------------------------- tables as text


def latex_table(
    head: Sequence[str], num_keys: int, rows: Sequence[Sequence[str]], title: str
) -> str:
    """Return a table in LaTeX for the package booktabs.

    head: names of the columns. num_keys: how many of them are keys, which are set to the left.
    rows: cells as LaTeX.
    """
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{latex_text(title)}}}",
        f"  \\begin{{tabular}}{{{'l' * num_keys}{'r' * (len(head) - num_keys)}}}",
        r"    \toprule",
        f"    {' & '.join(map(latex_text, head))} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex_text(text: str) -> str:
    """Return text that LaTeX sets as it is, on one line."""
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split()))


def latex_number(text: str) -> str:
    r"""Return a number, with a deviation if it has one, as LaTeX: `$0.912 \pm 0.003$`."""
    text = text.replace("±", r"\pm")
    return f"${_EXPONENT.sub(lambda e: f' {chr(92)}times 10^{{{int(e[1])}}}', text)}$"


def markdown_table(head: Sequence[str], num_keys: int, rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts in Markdown; the columns after the keys are set to the right."""
    lines = [
        f"| {' | '.join(map(markdown_text, head))} |",
        f"|{':--|' * num_keys}{'--:|' * (len(head) - num_keys)}",
        *(f"| {' | '.join(map(markdown_text, row))} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|!" else c for c in " ".join(text.split()))
