"""The experiments table in groups: one for each value of a column, with statistics of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow
from muster_server.domain.states import ExperimentState
from muster_server.schemas.experiments import (
    ColumnStatisticsOut,
    ExperimentGroupOut,
    ExperimentGroupsOut,
)

from .columns import experiments_from, read_column, read_columns, value_of
from .filters import ExperimentFilter, conditions
from .order import require_few

MAX_GROUPS = 200
"""Groups of one reply, the largest ones; all are counted."""


def group_experiments(
    session: Session, filters: ExperimentFilter, *, by: str, columns: Sequence[str]
) -> ExperimentGroupsOut:
    """Return the groups of the experiments that match, the largest first.

    Experiments without a value in `by` are a group of their own. Statistics are over finite numbers;
    other values do not count. Raises InvalidRequest.
    """
    key = read_column(by, "by")
    wanted = read_columns(columns)
    matching = conditions(filters)
    require_few(session, matching, what="group")
    joins_trial = any(column.kind in ("hparam", "metric") for column in (key, *wanted))
    key_value = value_of(key)
    # Values are computed in a query of their own: grouping by an expression with parameters would
    # repeat the parameters, and PostgreSQL could not see that both are the same.
    inner = (
        experiments_from(
            select(
                key_value.number.label("number"),
                key_value.text.label("text"),
                ExperimentRow.state.label("state"),
                *(value_of(column).number.label(f"v{i}") for i, column in enumerate(wanted)),
            ),
            joins_trial=joins_trial,
        )
        .where(*matching)
        .subquery()
    )
    statistics: list[Any] = []
    for i in range(len(wanted)):
        value = inner.c[f"v{i}"]
        statistics += [func.count(value), func.avg(value), func.min(value), func.max(value)]
    states = [func.sum(case((inner.c.state == state, 1), else_=0)) for state in ExperimentState]
    size = func.count()
    rows = session.execute(
        select(inner.c.number, inner.c.text, size, func.count().over(), *states, *statistics)
        .group_by(inner.c.number, inner.c.text)
        .order_by(size.desc(), inner.c.number, inner.c.text)
        .limit(MAX_GROUPS)
    ).all()
    return ExperimentGroupsOut(
        by=key.text,
        num_groups=rows[0][3] if rows else 0,
        items=[_group(row, [column.text for column in wanted]) for row in rows],
    )


def _group(row: Sequence[Any], columns: Sequence[str]) -> ExperimentGroupOut:
    number, text, size, _, *rest = row
    num_states = len(ExperimentState)
    by_state = {
        str(s): int(n) for s, n in zip(ExperimentState, rest[:num_states], strict=True) if n
    }
    quads = rest[num_states:]
    return ExperimentGroupOut(
        value=text if number is None else number,
        num_experiments=size,
        num_by_state=by_state,
        columns={
            column: ColumnStatisticsOut(
                num_values=quads[4 * i],
                mean=quads[4 * i + 1],
                min=quads[4 * i + 2],
                max=quads[4 * i + 3],
            )
            for i, column in enumerate(columns)
        },
    )
