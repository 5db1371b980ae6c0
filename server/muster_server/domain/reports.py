"""Tables of reports: the mean and deviation of runs in groups, and tables as text for papers."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Scalar = float | int | str | bool | None
"""A value of a run. NaN and infinities are the texts "NaN", "Infinity" and "-Infinity"."""

Runs = Mapping[int, Mapping[str, Scalar]]
"""Values of runs, by trial and column."""

MAX_DECIMALS = 12
_EXPONENT = re.compile(r"e([+-]?\d+)")


@dataclass(frozen=True, kw_only=True)
class ReportCell:
    """A value of one run, or the mean of a group."""

    text: str
    """The value as it is shown: "0.912 ± 0.003". Empty for none."""
    value: float | str | None
    """Number, or the mean of a group; text of a column without numbers."""
    deviation: float | None
    """Sample standard deviation (n - 1); None for fewer than two numbers."""
    num: int
    """Number of finite numbers."""
    num_missing: int
    """Number of runs without a value."""
    num_not_finite: int
    """Number of runs whose value is NaN, infinite or no number."""
    trial_ids: list[int]
    """Runs whose values these are."""
    difference: float | None
    """Value minus the baseline's; None for the baseline itself, and where either has none."""


@dataclass(frozen=True, kw_only=True)
class ReportTableRow:
    keys: list[str]
    """Values of the columns that runs are grouped by."""
    cells: list[ReportCell]
    trial_ids: list[int]
    is_baseline: bool


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    head: list[str]
    num_keys: int
    """Number of columns, the first ones, that runs are grouped by."""
    is_grouped: bool
    rows: list[ReportTableRow]


def as_number(value: Scalar) -> float | None:
    """Return a finite number; None for everything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def table_rows(
    runs: Runs, by: Sequence[str], columns: Sequence[str], decimals: int | None
) -> list[ReportTableRow]:
    """Return a row for each run, in their order. With `by`, return one for each combination of its values,
    in their order: numbers before texts, and groups without a value last."""
    groups: dict[tuple[Scalar, ...], list[int]] = {}
    for id, values in runs.items():
        key = tuple(_key(values.get(name)) for name in by) if by else (id,)
        groups.setdefault(key, []).append(id)
    if by:
        groups = dict(sorted(groups.items(), key=lambda one: [place_of(v) for v in one[0]]))
    make = group_cell if by else _plain_cell
    return [
        ReportTableRow(
            keys=[value_text(value) or "–" for value in key] if by else [],
            cells=[make({id: runs[id].get(name) for id in ids}, decimals) for name in columns],
            trial_ids=ids,
            is_baseline=False,
        )
        for key, ids in groups.items()
    ]


def with_baseline(rows: Sequence[ReportTableRow], trial_id: int) -> list[ReportTableRow]:
    """Return the rows with differences from the row that has the baseline run. Raises LookupError
    if no row has it."""
    base = next((row for row in rows if trial_id in row.trial_ids), None)
    if base is None:
        raise LookupError(trial_id)
    return [
        replace(row, is_baseline=True)
        if row is base
        else replace(row, cells=list(map(_with_difference, row.cells, base.cells)))
        for row in rows
    ]


def _with_difference(cell: ReportCell, other: ReportCell) -> ReportCell:
    if isinstance(cell.value, float) and isinstance(other.value, float):
        return replace(cell, difference=cell.value - other.value)
    return cell


def group_cell(values: Mapping[int, Scalar], decimals: int | None) -> ReportCell:
    """Return the mean and the sample standard deviation of the finite numbers among values, by run.

    Without `decimals` the text has two digits of the deviation, and the mean as far as those go. If fewer
    runs have a number than there are, it says of how many it is.
    """
    finite = {id: n for id, value in values.items() if (n := as_number(value)) is not None}
    try:
        mean = statistics.fmean(finite.values()) if finite else None
        deviation = statistics.stdev(finite.values()) if len(finite) > 1 else None
    except OverflowError:  # numbers near the largest of a double
        mean, deviation = None, None
    if mean is not None and not math.isfinite(mean):
        mean = None
    text = "–"
    if mean is not None:
        if decimals is None and deviation:
            needed = max(0, 1 - math.floor(math.log10(deviation)))
            decimals = needed if needed <= MAX_DECIMALS else None
        text = number_text(mean, decimals)
        if deviation is not None:
            text += f" ± {number_text(deviation, decimals)}"
        if len(finite) != len(values):
            text += f" (n={len(finite)})"
    num_missing = list(values.values()).count(None)
    return ReportCell(
        text=text,
        value=mean,
        deviation=deviation,
        num=len(finite),
        num_missing=num_missing,
        num_not_finite=len(values) - num_missing - len(finite),
        trial_ids=list(finite),
        difference=None,
    )


def _plain_cell(values: Mapping[int, Scalar], decimals: int | None) -> ReportCell:
    (value,) = values.values()
    number = as_number(value)
    text = value_text(value)
    if number is not None and not isinstance(value, int):
        text = number_text(number, decimals)
    return ReportCell(
        text=text,
        value=(text or None) if number is None else number,
        deviation=None,
        num=int(number is not None),
        num_missing=int(value is None or text == ""),
        num_not_finite=0,
        trial_ids=list(values),
        difference=None,
    )


def number_text(value: float, decimals: int | None) -> str:
    """Return a number with so many decimals; None: with five digits."""
    return f"{value:.5g}" if decimals is None else f"{value:.{decimals}f}"


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
