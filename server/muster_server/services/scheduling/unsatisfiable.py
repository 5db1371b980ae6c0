"""Waiting trials that the present nodes can never hold, for the front page."""

from __future__ import annotations

from sqlalchemy import String, cast, func, or_, select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.messages import from_columns
from muster_server.domain.scheduling.unsatisfiable import NEVER
from muster_server.domain.states import TrialState
from muster_server.schemas.base import parts_out
from muster_server.schemas.cluster import ImpossibleOut

SHOWN_MAX = 20


def find_impossible(session: Session) -> tuple[list[ImpossibleOut], int]:
    """(the first such trial of each experiment, newest experiment first, SHOWN_MAX of them at most;
    how many experiments have any)."""
    parts = cast(TrialRow.pending_parts, String)
    firsts = (
        select(func.min(TrialRow.id).label("id"))
        .where(
            TrialRow.state == TrialState.QUEUED,
            or_(*(parts.contains(f'"{code}"') for code in NEVER)),
        )
        .group_by(TrialRow.experiment_id)
    ).subquery()
    query = (
        select(TrialRow, ExperimentRow.name, func.count().over().label("num"))
        .join(firsts, firsts.c.id == TrialRow.id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(ExperimentRow.desired == "run", ExperimentRow.deleting_at.is_(None))
        .order_by(TrialRow.experiment_id.desc())
        .limit(SHOWN_MAX)
    )
    rows = session.execute(query).all()
    shown = [
        ImpossibleOut(
            trial_id=row.TrialRow.id,
            trial_no=row.TrialRow.no,
            experiment_id=row.TrialRow.experiment_id,
            experiment_name=row.name,
            waiting_since=row.TrialRow.waiting_since,
            pending_reason=row.TrialRow.pending_reason,
            pending_parts=parts_out(
                from_columns(row.TrialRow.pending_reason, row.TrialRow.pending_parts)
            ),
        )
        for row in rows
    ]
    return shown, rows[0].num if rows else 0
