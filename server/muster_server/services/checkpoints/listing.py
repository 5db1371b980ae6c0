"""Checkpoints of all trials, as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVarTuple

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_server.db.models import CheckpointRow, ExperimentRow, ProjectRow, TrialRow
from muster_server.domain.metrics import headline_name
from muster_server.schemas.checkpoints import (
    CheckpointListItem,
    CheckpointListOut,
    CheckpointState,
    CheckpointTotal,
)

from ..core.paging import decode_cursor, encode_cursor

Ts = TypeVarTuple("Ts")

Order = Literal["newest", "largest"]


@dataclass(frozen=True, kw_only=True)
class CheckpointFilter:
    """Which checkpoints are wanted. Those of experiments that are being deleted never are."""

    experiment_id: int | None = None
    project: str | None = None
    states: Sequence[CheckpointState] = ()
    """Empty: all."""


def list_checkpoints(
    session: Session,
    wanted: CheckpointFilter,
    *,
    order: Order,
    cursor: str | None,
    limit: int,
) -> CheckpointListOut:
    """Return a page of the checkpoints of all trials, with what all of them take, state by state.

    order: the latest saved first, or the largest. Totals are of the experiment and project that are
    asked for, whatever the states. Raises InvalidRequest for a cursor of another order.
    """
    of: list[ColumnElement[bool]] = [ExperimentRow.deleting_at.is_(None)]
    if wanted.experiment_id is not None:
        of.append(ExperimentRow.id == wanted.experiment_id)
    if wanted.project is not None:
        of.append(ProjectRow.name == wanted.project)
    totals = [
        CheckpointTotal(state=state, num_checkpoints=num, size_bytes=int(size))
        for state, num, size in session.execute(
            _joined(select(CheckpointRow.state, func.count(), func.sum(CheckpointRow.size_bytes)))
            .where(*of)
            .group_by(CheckpointRow.state)
            .order_by(CheckpointRow.state)
        )
    ]
    if wanted.states:
        of.append(CheckpointRow.state.in_(sorted(wanted.states)))
    query = _joined(select(CheckpointRow, TrialRow, ExperimentRow, ProjectRow.name)).where(*of)
    if order == "largest":
        query = query.order_by(CheckpointRow.size_bytes.desc(), CheckpointRow.id.desc())
        key = decode_cursor(cursor, int, int)
        if key is not None:
            size, id_ = CheckpointRow.size_bytes, CheckpointRow.id
            query = query.where(or_(size < key[0], and_(size == key[0], id_ < key[1])))
    else:
        query = query.order_by(CheckpointRow.id.desc())
        key = decode_cursor(cursor, int)
        if key is not None:
            query = query.where(CheckpointRow.id < key[0])
    rows = session.execute(query.limit(limit + 1)).all()
    items = [item(*row) for row in rows[:limit]]
    after = None
    if rows[limit:]:
        last = items[-1]
        after = (
            encode_cursor(last.size_bytes, last.id)
            if order == "largest"
            else encode_cursor(last.id)
        )
    return CheckpointListOut(items=items, next=after, totals=totals)


def _joined(query: Select[*Ts]) -> Select[*Ts]:
    return (
        query.select_from(CheckpointRow)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
    )


def item(
    row: CheckpointRow, trial: TrialRow, experiment: ExperimentRow, project: str
) -> CheckpointListItem:
    # Without a search metric the loss or error that stands for a training everywhere else.
    name = experiment.metric_name or headline_name(row.metrics)
    return CheckpointListItem.from_row(
        row,
        experiment_id=experiment.id,
        experiment_name=experiment.name,
        project=project,
        trial_id=trial.id,
        trial_no=trial.no,
        metric_name=name,
        metric=decode_number(row.metrics[name]) if name in row.metrics else None,
        num_files=len(row.files),
        is_latest=row.id == trial.latest_checkpoint_id,
    )
