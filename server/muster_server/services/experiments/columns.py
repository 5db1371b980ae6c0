"""Columns of the experiments table in SQL: their values, and conditions on them."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import Session, aliased

from muster.document.codec import dump
from muster_server.db.functions import JsonKind, JsonMember, Seconds
from muster_server.db.models import ExperimentRow, ProjectRow, TrialRow, UserRow
from muster_server.db.models.base import Json
from muster_server.domain.experiments.columns import (
    FIXED,
    FIXED_OF_TRIALS,
    BadColumn,
    Condition,
    TableColumn,
    parse_column,
    parse_condition,
)
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem, InvalidRequest

MAX_COLUMNS = 40
MAX_CONDITIONS = 10
COLUMNS_SEARCHED = 100
"""Experiments, the newest, in which the choice of columns is looked for."""

Scalar = float | int | str | bool | None

Shown = aliased(TrialRow, name="shown")
"""The trial that stands for an experiment: its best one, or its first."""


def shown_trial() -> ColumnElement[bool]:
    """Return the condition that joins `Shown` to its experiment."""
    first = aliased(TrialRow)
    first_id = (
        select(first.id)
        .where(first.experiment_id == ExperimentRow.id, first.no == 1)
        .correlate(ExperimentRow)
        .scalar_subquery()
    )
    return Shown.id == func.coalesce(ExperimentRow.best_trial_id, first_id)


# ---------------------------------------------------------------- what was asked for


def read_columns(texts: Sequence[str], *, field: str = "column") -> list[TableColumn]:
    """Raises InvalidRequest, naming the one that is none."""
    return [read_column(text, field) for text in dict.fromkeys(texts)]


def read_column(text: str, field: str, fixed: Sequence[str] = FIXED) -> TableColumn:
    """Raises InvalidRequest, naming `field`."""
    try:
        return parse_column(text, fixed)
    except BadColumn as error:
        raise _bad(field, text, error, fixed) from None


def read_conditions(texts: Sequence[str], fixed: Sequence[str]) -> list[Condition]:
    """Raises InvalidRequest for one that cannot be read, and for more than MAX_CONDITIONS."""
    if len(texts) > MAX_CONDITIONS:
        raise InvalidRequest(
            "experiments.too_many_conditions",
            f"{len(texts)} conditions were given, at most {MAX_CONDITIONS} are possible.",
            fields=[
                FieldProblem(
                    "where",
                    Message("field.too_many", limit=MAX_CONDITIONS),
                )
            ],
        )
    found = []
    for text in texts:
        try:
            found.append(parse_condition(text, fixed))
        except BadColumn as error:
            raise _bad("where", text, error, fixed) from None
    return found


def _bad(field: str, text: str, error: BadColumn, fixed: Sequence[str]) -> InvalidRequest:
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    config = "" if fixed is FIXED_OF_TRIALS else "config.<path>; label.<name>; "
    return InvalidRequest(
        "experiments.bad_column",
        f"{shown!r} {error}.",
        hint=f"Columns are {', '.join(fixed)}; {config}hparam.<name>; "
        "metric.<last|min|max|best>.<name>.",
        fields=[FieldProblem(field, str(error), "metric.last.train/loss")],
    )


# ---------------------------------------------------------------- a column as SQL


@dataclass(frozen=True)
class Value:
    """SQL expressions for the value of one column: a number, a text or neither. NaN and the
    infinities are distinct texts."""

    number: ColumnElement[Any]
    text: ColumnElement[Any]


_UNFIT = frozenset('"\\,{}')
"""Characters of keys that paths, as SQLite or SQLAlchemy for PostgreSQL write them, cannot have."""


def json_member(document: Any, key: str) -> ColumnElement[Any]:
    """Return the value of a key of a JSON column, as JSON."""
    return type_coerce(JsonMember(document, key), Json) if _UNFIT & set(key) else document[key]


def json_value(document: Any, path: tuple[str, ...]) -> Value:
    """Return the value at a path of a JSON column."""
    for number, key in enumerate(path, 1):
        if _UNFIT & set(key):
            above = document[path[: number - 1]] if number > 1 else document
            return json_value(json_member(above, key), path[number:])
    at = document[path]
    kind = JsonKind(document, literal("$" + "".join(f'."{key}"' for key in path)), at)
    plain = at.as_string()
    return Value(
        number=case((kind.in_(("integer", "real", "number")), cast(at.as_float(), Double))),
        text=case(
            (kind.in_(("text", "string")), plain),
            # As JSON, where SQLite would say 1 and 0.
            (kind == "true", literal("true")),
            (kind == "false", literal("false")),
            (kind.in_(("boolean", "object", "array")), plain),
        ),
    )


def _fixed(name: str) -> tuple[ColumnElement[Any], bool]:
    """Return the column, and whether it holds numbers (or times)."""
    columns: Mapping[str, tuple[Any, bool]] = {
        "id": (ExperimentRow.id, True),
        "name": (ExperimentRow.name, False),
        "state": (ExperimentRow.state, False),
        "project": (ProjectRow.name, False),
        "owner": (UserRow.username, False),
        "priority": (ExperimentRow.priority, True),
        "slots": (ExperimentRow.slots_per_trial, True),
        "best": (ExperimentRow.best_metric, True),
        # Ids are given out in order of time.
        "created": (ExperimentRow.id, True),
    }
    return columns[name]


def value_of(column: TableColumn) -> Value:
    """For a query that joins `Shown` where the column is a trial's."""
    if column.kind == "config":
        return json_value(type_coerce(ExperimentRow.config, Json), column.path)
    if column.kind == "label":
        return json_value(ExperimentRow.labels, column.path)
    if column.kind == "hparam":
        return json_value(Shown.hparams, column.path)
    if column.kind == "metric":
        (name,) = column.path
        if column.statistic != "best":
            return json_value(Shown.summary, (name, str(column.statistic)))
        ends = {end: json_value(Shown.summary, (name, end)).number for end in ("min", "max")}
        judged = ExperimentRow.metric_name == name
        best = case(
            (and_(judged, ExperimentRow.metric_goal == "max"), ends["max"]), (judged, ends["min"])
        )
        return Value(number=best, text=cast(null(), String))
    if column.path[0] in ("started", "ended"):
        at = ExperimentRow.started_at if column.path[0] == "started" else ExperimentRow.ended_at
        return Value(number=Seconds(at), text=cast(null(), String))
    plain, is_number = _fixed(column.path[0])
    return (
        Value(number=cast(plain, Double), text=cast(null(), String))
        if is_number
        else Value(number=cast(null(), Double), text=plain)
    )


def experiments_from(query: Select[Any], *, joins_trial: bool = False) -> Select[Any]:
    """Return the query for experiments with project and owner, which conditions may be about."""
    query = (
        query.select_from(ExperimentRow)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id, isouter=True)
    )
    return query.join(Shown, shown_trial(), isouter=True) if joins_trial else query


# ---------------------------------------------------------------- conditions

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def where(texts: Sequence[str]) -> list[ColumnElement[bool]]:
    """Conditions as SQL, for a query that joins experiments, projects and (outer) users.

    An experiment without a value matches `is missing` alone, not even `!=`. Raises InvalidRequest.
    """
    found = []
    for condition in read_conditions(texts, FIXED):
        test = test_of(condition, value_of(condition.column))
        if condition.column.kind in ("hparam", "metric"):
            test = (
                select(Shown.id)
                .where(shown_trial(), test)
                .correlate(ExperimentRow, ProjectRow, UserRow)
                .exists()
            )
        found.append(not_(test) if asks_for_missing(condition) else test)
    return found


def asks_for_missing(condition: Condition) -> bool:
    """Return whether the condition asks for rows without a value."""
    return condition.operator == "is" and condition.text == "missing"


def test_of(condition: Condition, value: Value) -> ColumnElement[bool]:
    """Return the condition on a value as SQL; a row without a value passes none.

    `is missing` is tested as `is set`: whoever asks turns the answer round, about whole rows.
    """
    if condition.operator == "is":
        return or_(value.number.is_not(None), value.text.is_not(None))
    compare = _COMPARE[condition.operator]
    if condition.number is None or math.isinf(condition.number):
        return and_(value.text.is_not(None), compare(value.text, condition.text))
    by_number = and_(value.number.is_not(None), compare(value.number, condition.number))
    # An infinity is text in the database, and larger or smaller than every number.
    beyond = {"<": "-Infinity", "<=": "-Infinity", ">": "Infinity", ">=": "Infinity"}
    if condition.operator in beyond:
        return or_(by_number, value.text == beyond[condition.operator])
    if condition.operator == "=" and condition.column.kind != "metric":
        # "1.10" may be meant as text as well.
        return or_(by_number, value.text == condition.text)
    return by_number


# ---------------------------------------------------------------- values


def values_of(
    session: Session, rows: Sequence[ExperimentRow], columns: Sequence[TableColumn]
) -> dict[int, dict[str, Scalar]]:
    """Return the value in each column, by experiment ID and column.

    Objects and lists become JSON text; infinities and NaN become "Infinity", "-Infinity" and "NaN".
    A missing value is null.
    """
    own = [column for column in columns if column.kind != "fixed"]
    found: dict[int, dict[str, Scalar]] = {row.id: {} for row in rows}
    if not own or not rows:
        return found
    names = list(dict.fromkeys(c.path[0] for c in own if c.kind == "metric"))
    query = (
        select(
            ExperimentRow.id, Shown.hparams, *(json_member(Shown.summary, name) for name in names)
        )
        .join(Shown, shown_trial())
        .where(ExperimentRow.id.in_([row.id for row in rows]))
    )
    trials = {id_: (hparams, entries) for id_, hparams, *entries in session.execute(query)}
    for row in rows:
        hparams, entries = trials.get(row.id, ({}, [None] * len(names)))
        summary = dict(zip(names, entries, strict=True))
        config = dump(row.config)
        for column in own:
            values = {"config": config, "label": row.labels}.get(column.kind, hparams)
            found[row.id][column.text] = value_in(row, values, summary, column)
    return found


def value_in(
    row: ExperimentRow, values: Mapping[str, Any], summary: Mapping[str, Any], column: TableColumn
) -> Scalar:
    """Return the value of a column, as `values_of` does.

    values: what the path of the column leads into. summary: of the trial, for a metric.
    """
    if column.kind == "metric":
        statistic = str(column.statistic)
        if statistic == "best":
            if row.metric_name != column.path[0]:
                return None
            statistic = "max" if row.metric_goal == "max" else "min"
        return _scalar((summary[column.path[0]] or {}).get(statistic))
    found: Any = values
    for key in column.path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return _scalar(found)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- the choice


def choice(session: Session, project: str | None) -> tuple[dict[str, int], int]:
    """Columns that the newest COLUMNS_SEARCHED experiments have a value for → how many of them do;
    and how many were looked at."""
    query = experiments_from(
        select(
            type_coerce(ExperimentRow.config, Json),
            ExperimentRow.labels,
            Shown.hparams,
            Shown.summary,
        ),
        joins_trial=True,
    )
    query = query.where(ExperimentRow.deleting_at.is_(None), ExperimentRow.archived_at.is_(None))
    if project is not None:
        query = query.where(ProjectRow.name == project)
    query = query.order_by(ExperimentRow.id.desc()).limit(COLUMNS_SEARCHED)
    counted: dict[str, int] = {}
    rows = session.execute(query).all()
    for config, labels, hparams, summary in rows:
        names = [f"config.{path}" for path in _leaves(config)]
        names += [f"label.{name}" for name in labels or {}]
        names += [f"hparam.{name}" for name in hparams or {}]
        names += [f"metric.last.{name}" for name in summary or {}]
        for name in names:
            counted[name] = counted.get(name, 0) + 1
    return {name: counted[name] for name in sorted(counted) if _is_column(name)}, len(rows)


def _is_column(text: str) -> bool:
    try:
        return parse_column(text).text == text
    except BadColumn:
        return False


def _leaves(document: Mapping[str, Any], before: str = "") -> list[str]:
    """Paths of what is not null and not a map; keys that hold a dot have no path."""
    found = []
    for key, value in document.items():
        if "." in key or key == "":
            continue
        if isinstance(value, Mapping):
            found += _leaves(value, f"{before}{key}.")
        elif value is not None and value != []:
            found.append(f"{before}{key}")
    return found
