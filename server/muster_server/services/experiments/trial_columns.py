"""Columns of the trials of an experiment in SQL: conditions on them, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Double, String, cast, func, not_, null, select, type_coerce
from sqlalchemy.orm import Session

from muster_server.db.functions import Seconds
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.experiments.columns import FIXED_OF_TRIALS, TableColumn
from muster_server.errors import FieldProblem, InvalidRequest

from .columns import (
    Value,
    asks_for_missing,
    json_value,
    read_column,
    read_conditions,
    test_of,
)
from .order import SORT_ROWS_MAX, page_by_value


def read_sort(sort: str) -> TableColumn:
    """Return the column of an order: "no", "-metric", "hparam.lr". Raises InvalidRequest."""
    return _of_trials(read_column(sort.removeprefix("-"), "sort", FIXED_OF_TRIALS), "sort")


def conditions(texts: Sequence[str], experiment: ExperimentRow) -> list[ColumnElement[bool]]:
    """Return conditions such as "hparam.lr < 0.1" as SQL; a trial without a value meets `is missing` alone.

    Raises InvalidRequest.
    """
    found = []
    for condition in read_conditions(texts, FIXED_OF_TRIALS):
        test = test_of(condition, _value(_of_trials(condition.column, "where"), experiment))
        found.append(not_(test) if asks_for_missing(condition) else test)
    return found


def sorted_ids(
    session: Session,
    experiment: ExperimentRow,
    filters: Sequence[ColumnElement[bool]],
    column: TableColumn,
    descending: bool,
    *,
    cursor: str | None,
    limit: int,
) -> tuple[list[int], str | None]:
    """Ids of one page of the trials that meet `filters`, and the next cursor.

    Raises InvalidRequest for a cursor of another list, and for more than SORT_ROWS_MAX trials.
    """
    found = select(TrialRow.id).where(*filters)
    counted = found.limit(SORT_ROWS_MAX + 1).subquery()
    if (session.scalar(select(func.count()).select_from(counted)) or 0) > SORT_ROWS_MAX:
        raise InvalidRequest(
            "trials.too_many_to_sort",
            f"More than {SORT_ROWS_MAX:,} trials match; that many are put in order only by no or "
            "metric.",
            hint="Narrow the list by state or by conditions.",
            fields=[FieldProblem("sort", "has no index for so many", "metric")],
        )
    value = _value(column, experiment)
    return page_by_value(session, found, value, TrialRow.id, descending, cursor=cursor, limit=limit)


def _of_trials(column: TableColumn, field: str) -> TableColumn:
    if column.kind in ("config", "label"):
        raise InvalidRequest(
            "experiments.bad_column",
            "All trials of an experiment have the same configuration and labels.",
            hint="Their hyperparameters are columns: hparam.<name>.",
            fields=[FieldProblem(field, "is no column of trials", "hparam.lr")],
        )
    return column


def _value(column: TableColumn, experiment: ExperimentRow) -> Value:
    if column.kind == "hparam":
        return json_value(TrialRow.hparams, column.path)
    if column.kind == "metric":
        (name,) = column.path
        statistic = str(column.statistic)
        if statistic == "best" and experiment.metric_name == name:
            # Best is known of the search's metric alone; of others a summary has no such key.
            statistic = "max" if experiment.metric_goal == "max" else "min"
        return json_value(TrialRow.summary, (name, statistic))
    numbers: Mapping[str, Any] = {
        "no": TrialRow.no,
        "metric": TrialRow.metric,
        "step": TrialRow.step,
        "started": Seconds(TrialRow.started_at),
        "ended": Seconds(TrialRow.ended_at),
        "elapsed": Seconds(TrialRow.ended_at) - Seconds(TrialRow.started_at),
    }
    (fixed,) = column.path
    if fixed == "state":
        return Value(number=cast(null(), Double), text=type_coerce(TrialRow.state, String))
    return Value(number=cast(numbers[fixed], Double), text=cast(null(), String))
