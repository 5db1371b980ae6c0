"""What a column of the experiments table can be, and how a condition on one is written.

A column is named by a text that also stands in addresses and saved views:

    name, state, project, …            what every experiment has (FIXED)
    config.resources.slots             a key of the resolved document, by its path
    label.team                         a label
    hparam.lr                          a hyperparameter of the trial that stands for the experiment
    metric.last.train/loss             of that trial's summary: last, min, max or best

The trial that stands for an experiment is its best one, or its first while none is best. `best` is
the smaller or the larger end by the experiment's own goal, and empty for metrics it is not judged
by: whether another metric is better low or high is nobody's to guess.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

FixedColumn = Literal[
    "id",
    "name",
    "state",
    "project",
    "owner",
    "priority",
    "slots",
    "best",
    "created",
    "started",
    "ended",
]
FixedTrialColumn = Literal["no", "state", "metric", "step", "started", "ended", "elapsed"]
"""What every trial has. `metric` is the search's, `elapsed` the seconds from its first start to its
end."""
FixedRunColumn = Literal["name", "experiment", "trial", "state", "step", "seed"]
"""What every run of a report has: `experiment` and `trial` are ids."""
Statistic = Literal["last", "min", "max", "best"]
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "is"]

FIXED: tuple[FixedColumn, ...] = get_args(FixedColumn)
FIXED_OF_TRIALS: tuple[FixedTrialColumn, ...] = get_args(FixedTrialColumn)
FIXED_OF_RUNS: tuple[FixedRunColumn, ...] = get_args(FixedRunColumn)
MAX_COLUMN_CHARS = 320
MAX_DEPTH = 12
"""Keys of a path into the document."""


class BadColumn(ValueError):
    """Not a column, or not a condition on one; the message says why."""


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    kind: Literal["fixed", "config", "label", "hparam", "metric"]
    path: tuple[str, ...]
    """Path of the column: the name of a fixed column, a label, a hyperparameter or a metric; the keys
    of a config value."""
    statistic: Statistic | None = None
    """Statistic of a metric; None for other columns."""

    @property
    def text(self) -> str:
        if self.kind == "fixed":
            return self.path[0]
        parts = [self.kind, *([self.statistic] if self.statistic else []), *self.path]
        return ".".join(parts)


def parse_column(text: str, fixed: Sequence[str] = FIXED) -> TableColumn:
    """Return the column that a text names; `fixed`: those without a dot. Raises BadColumn."""
    if len(text) > MAX_COLUMN_CHARS:
        raise BadColumn(f"has more than {MAX_COLUMN_CHARS} characters")
    kind, dot, rest = text.partition(".")
    if not dot and text in fixed:
        return TableColumn(kind="fixed", path=(text,))
    if kind == "config" and rest:
        keys = tuple(rest.split("."))
        if "" in keys or len(keys) > MAX_DEPTH:
            raise BadColumn(f"is no path of 1 to {MAX_DEPTH} keys with dots between them")
        return TableColumn(kind="config", path=keys)
    if kind == "hparam" and rest:
        return TableColumn(kind="hparam", path=(rest,))
    if kind == "label" and rest:
        return TableColumn(kind="label", path=(rest,))
    if kind == "metric":
        for statistic in get_args(Statistic):
            if rest.startswith(f"{statistic}.") and len(rest) > len(statistic) + 1:
                return TableColumn(
                    kind="metric", path=(rest[len(statistic) + 1 :],), statistic=statistic
                )
    raise BadColumn("is no column")


@dataclass(frozen=True, kw_only=True)
class Condition:
    column: TableColumn
    operator: Operator
    number: float | None
    """What is compared with, when it is a number; infinities are."""
    text: str
    """Compared value as it was written; "missing" or "set" behind `is`."""


_CONDITION = re.compile(r"(.+?)\s+(=|!=|<=|>=|<|>|is)\s+(.+)", re.DOTALL)
_OF_A_METRIC = re.compile(r"(metric\..+)\s+(=|!=|<=|>=|<|>|is)\s+(\S+)", re.DOTALL)
"""The last operator counts: the name of a metric may hold one, and its values are never text."""


def parse_condition(text: str, fixed: Sequence[str] = FIXED) -> Condition:
    """`metric.last.val/loss < 0.5`. A number is compared with numbers, other text with text.
    `is missing` and `is set` ask whether there is a value.

    Raises BadColumn.
    """
    found = _OF_A_METRIC.fullmatch(text.strip()) or _CONDITION.fullmatch(text.strip())
    if found is None:
        raise BadColumn("is not written as: column, operator, value, with blanks between them")
    column, operator, value = found.groups()
    if operator == "is" and value not in ("missing", "set"):
        raise BadColumn("asks by `is` for something other than missing or set")
    number = _number(value)
    if number is not None and math.isnan(number):
        raise BadColumn("compares with NaN, which nothing equals")
    return Condition(
        column=parse_column(column, fixed),
        operator=operator,  # type: ignore[arg-type]
        number=number,
        text=value,
    )


def _number(text: str) -> float | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
