"""How many slots trials hold now: an elastic one may run on fewer than it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, NodeSlotRow, TrialRow


def of_trials(session: Session, trial_ids: Sequence[int]) -> dict[int, int]:
    """Return the slots that each trial holds; trials that hold none are left out."""
    query = (
        select(AllocationRow.trial_id, func.count())
        .join(NodeSlotRow, NodeSlotRow.allocation_id == AllocationRow.id)
        .where(AllocationRow.trial_id.in_(trial_ids))
        .group_by(AllocationRow.trial_id)
    )
    return dict(session.execute(query).all())


def of_experiments(session: Session, experiment_ids: Sequence[int]) -> dict[int, int]:
    """Experiment → slots that its trials hold together; those that hold none are left out."""
    query = (
        select(TrialRow.experiment_id, func.count())
        .select_from(NodeSlotRow)
        .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .where(TrialRow.experiment_id.in_(experiment_ids))
        .group_by(TrialRow.experiment_id)
    )
    return dict(session.execute(query).all())
