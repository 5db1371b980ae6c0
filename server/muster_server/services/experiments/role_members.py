"""Members of gangs of roles, as people see them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.codec import load
from muster.document.experiment import ExperimentConfig
from muster.document.roles import member_name
from muster.wire import ExitInfo
from muster_server.db.models import AllocationRow, TrialRow
from muster_server.domain.lifecycle.outcomes import member_outcome
from muster_server.domain.states import AllocationState
from muster_server.schemas.experiments import RoleMemberOut


def of_attempt(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[RoleMemberOut]:
    """Return the members of the trial's current or last attempt; none of a gang of one kind."""
    if not config.roles:
        return []
    rows = session.scalars(
        select(AllocationRow)
        .where(AllocationRow.trial_id == trial.id, AllocationRow.attempt_no == trial.attempt_no)
        .order_by(AllocationRow.node_rank)
    )
    return [_shown(row, config) for row in rows if row.role in config.roles]


def _shown(row: AllocationRow, config: ExperimentConfig) -> RoleMemberOut:
    role = config.roles[row.role]
    told = load(ExitInfo, row.exit) if row.exit is not None else None
    outcome = member_outcome(
        AllocationState(row.observed),
        row.desired,
        told,
        node_name=row.node_name,
        member=member_name(row.role, row.role_index),
        message=row.message,
    )
    state, ended = str(row.observed), ""
    if outcome is not None:
        ended = "exited with 0" if outcome.succeeded else outcome.sentence
        state = "SUCCEEDED" if outcome.succeeded else "FAILED" if outcome.failed else "STOPPED"
    return RoleMemberOut(
        name=member_name(row.role, row.role_index),
        role=row.role,
        index=row.role_index,
        node_name=row.node_name,
        state=state,
        num_slots=len(row.slots),
        ranks=list(range(row.rank_offset, row.rank_offset + len(row.slots))),
        address=row.address,
        on_end=role.on_end or "wait",
        on_failure=role.on_failure,
        message=row.message,
        exit=ended,
    )


def names_of(session: Session, allocation_ids: Iterable[str]) -> dict[tuple[str, int], str]:
    """Return how people name the workers of gangs of roles, by allocation and local rank."""
    rows = session.execute(
        select(
            AllocationRow.id, AllocationRow.role, AllocationRow.role_index, AllocationRow.slots
        ).where(AllocationRow.id.in_(set(allocation_ids)), AllocationRow.role != "")
    )
    return {
        (row.id, local_rank): member_name(row.role, row.role_index, local_rank, len(row.slots))
        for row in rows
        for local_rank in range(-1, len(row.slots))
    }
