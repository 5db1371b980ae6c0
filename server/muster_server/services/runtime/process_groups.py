"""The process groups that the workers of an attempt have made."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import ProcessGroupRow
from muster_server.domain.insight.step_traffic import ProcessGroup


def process_groups(session: Session, trial_id: int, attempt_no: int) -> list[ProcessGroup]:
    """Return the process groups of an attempt that its workers reported."""
    rows = session.scalars(
        select(ProcessGroupRow)
        .where(ProcessGroupRow.trial_id == trial_id, ProcessGroupRow.attempt_no == attempt_no)
        .order_by(ProcessGroupRow.id)
    )
    return [
        ProcessGroup(name=row.name, ranks=tuple(row.ranks), backend=row.backend) for row in rows
    ]
