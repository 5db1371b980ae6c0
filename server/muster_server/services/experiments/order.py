"""The experiments table in the order of one of its columns, page by page.

In either direction: numbers by size with the infinities at their ends, then text, then NaN, then
experiments without a value. Equal ones follow by id. Text counts by its first SORT_TEXT_CHARS
characters, so that a cursor can hold it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

from sqlalchemy import ColumnElement, Double, Select, and_, case, func, literal, or_, select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow
from muster_server.domain.experiments.columns import TableColumn
from muster_server.errors import FieldProblem, InvalidRequest

from ..core.paging import decode_cursor, encode_cursor
from .columns import Value, experiments_from, read_column, value_of

SORT_ROWS_MAX = 50_000
"""Experiments that may be put in order by a value for which there is no index."""
SORT_TEXT_CHARS = 48
_INDEXED = ("id", "name", "created")


def _rank(value: Value, descending: bool) -> ColumnElement[int]:
    """Return the rank of a value's group. Groups keep this order in both directions."""
    low, high = (2, 0) if descending else (0, 2)
    return case(
        (value.number.is_not(None), 1),
        (value.text.is_(None), 5),
        (value.text == "-Infinity", low),
        (value.text == "Infinity", high),
        (value.text == "NaN", 4),
        else_=3,
    )


def sorted_ids(
    session: Session,
    conditions: Sequence[ColumnElement[bool]],
    sort: str,
    *,
    cursor: str | None,
    limit: int,
) -> tuple[list[int], str | None]:
    """Return the ids of one page in the order of `sort` ("name", "-metric.last.loss"), and the next
    cursor.

    A page begins after the value that the last one ended with, so rows that come or go meanwhile
    shift nothing; one whose own value changes may be met twice or not at all.
    Raises InvalidRequest for what is no column, a cursor of another list, and for more than
    SORT_ROWS_MAX experiments where no index has the order.
    """
    descending = sort.startswith("-")
    column = read_column(sort.removeprefix("-"), "sort")
    if column.kind == "fixed" and column.path[0] in _INDEXED:
        return _by_index(session, conditions, column, descending, cursor, limit)
    base = experiments_from(
        select(ExperimentRow.id), joins_trial=column.kind in ("hparam", "metric")
    )
    require_few(session, conditions, what="sort")
    query = base.where(*conditions)
    value = value_of(column)
    return page_by_value(
        session, query, value, ExperimentRow.id, descending, cursor=cursor, limit=limit
    )


def page_by_value(
    session: Session,
    query: Select[Any],
    value: Value,
    row_id: Any,
    descending: bool,
    *,
    cursor: str | None,
    limit: int,
) -> tuple[list[int], str | None]:
    """Ids of one page of a query of ids in the order of a value, and the next cursor.

    Raises InvalidRequest for a cursor of another list.
    """
    rank = _rank(value, descending)
    number = func.coalesce(value.number, literal(0.0, Double))
    text = func.coalesce(func.substr(value.text, 1, SORT_TEXT_CHARS), literal(""))
    key = decode_cursor(cursor, int, (int, float), str, int)
    query = query.add_columns(rank.label("r"), number.label("n"), text.label("s"))
    if key is not None:
        after = operator.lt if descending else operator.gt
        query = query.where(_after((rank, number, text, row_id), key, after))
    way = _down if descending else _up
    query = query.order_by(rank, way(number), way(text), way(row_id)).limit(limit + 1)
    rows = session.execute(query).all()
    page = rows[:limit]
    following = None
    if len(rows) > limit:
        id_, r, n, s = page[-1]
        following = encode_cursor(r, float(n), s, id_)
    return [row[0] for row in page], following


def _by_index(
    session: Session,
    conditions: Sequence[ColumnElement[bool]],
    column: TableColumn,
    descending: bool,
    cursor: str | None,
    limit: int,
) -> tuple[list[int], str | None]:
    """Return a page of experiments by name (through the index on name and ID) or by ID, which is
    the order of creation."""
    way, after = (_down, operator.lt) if descending else (_up, operator.gt)
    by_name = column.path[0] == "name"
    parts: tuple[Any, ...] = (
        (ExperimentRow.name, ExperimentRow.id) if by_name else (ExperimentRow.id,)
    )
    query = experiments_from(select(ExperimentRow.id).add_columns(ExperimentRow.name)).where(
        *conditions
    )
    if by_name:
        # A name may be longer than a cursor: the cursor has the id, which leads to the name.
        key = decode_cursor(cursor, str, int)
        if key is not None:
            name = session.scalar(select(ExperimentRow.name).where(ExperimentRow.id == key[1]))
            if name is None or not name.startswith(str(key[0])):
                name = str(key[0])  # deleted or renamed since
            query = query.where(_both_after(parts, (name, key[1]), after))
    else:
        key = decode_cursor(cursor, int)
        if key is not None:
            query = query.where(after(ExperimentRow.id, int(str(key[0]))))
    rows = session.execute(query.order_by(*map(way, parts)).limit(limit + 1)).all()
    page = rows[:limit]
    if len(rows) <= limit:
        return [row[0] for row in page], None
    id_, name = page[-1]
    cursor = encode_cursor(name[:SORT_TEXT_CHARS], id_) if by_name else encode_cursor(id_)
    return [row[0] for row in page], cursor


def _up(part: Any) -> Any:
    return part.asc()


def _down(part: Any) -> Any:
    return part.desc()


def _both_after(
    parts: Sequence[Any], key: Sequence[Any], after: Callable[[Any, Any], Any]
) -> ColumnElement[bool]:
    first, second = parts
    return or_(after(first, key[0]), and_(first == key[0], after(second, key[1])))


def _after(
    parts: Sequence[Any], key: Sequence[Any], after: Callable[[Any, Any], Any]
) -> ColumnElement[bool]:
    """Groups go up; within one, numbers, texts and ids go the way of the order."""
    rank, *rest = parts
    same: ColumnElement[bool] = after(rest[-1], key[-1])
    for part, value in zip(reversed(rest[:-1]), reversed(key[1:-1]), strict=True):
        same = or_(after(part, value), and_(part == value, same))
    return or_(rank > key[0], and_(rank == key[0], same))


def require_few(
    session: Session, conditions: Sequence[ColumnElement[bool]], *, what: Literal["sort", "group"]
) -> None:
    """Raise InvalidRequest if more than SORT_ROWS_MAX experiments match: a value without an index has
    to be read from each."""
    found = experiments_from(select(ExperimentRow.id)).where(*conditions).limit(SORT_ROWS_MAX + 1)
    num = session.scalar(select(func.count()).select_from(found.subquery())) or 0
    if num <= SORT_ROWS_MAX:
        return
    if what == "group":
        raise InvalidRequest(
            "experiments.too_many_to_group",
            f"More than {SORT_ROWS_MAX:,} experiments match; that many cannot be grouped.",
            hint="Narrow the list by state, project, label or name.",
            fields=[FieldProblem("by", "has no index for so many")],
        )
    raise InvalidRequest(
        "experiments.too_many_to_sort",
        f"More than {SORT_ROWS_MAX:,} experiments match; that many are put in order only by "
        "created, id or name.",
        hint="Narrow the list by state, project, label or name.",
        fields=[FieldProblem("sort", "has no index for so many", "-created")],
    )
