"""Where replicas answer requests, as their workers report it."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import update
from sqlalchemy.orm import Session

from muster.wire import EndpointRecord
from muster_server.db.engine import touch
from muster_server.db.models import DeploymentReplicaRow, TrialRow
from muster_server.domain.nodes.reports import ReportedAllocation

PORT_MAX = 65_535


def record(
    session: Session, allocation: ReportedAllocation, reported: EndpointRecord, now: dt.datetime
) -> None:
    """Keep the address of a replica's process. What an attempt says that is not the present one of its
    trial changes nothing, and neither does a job that is no replica."""
    del now
    trial = session.get_one(TrialRow, allocation.trial_id)
    if trial.attempt_no != allocation.attempt_no or not 1 <= reported.port <= PORT_MAX:
        return
    session.execute(
        update(DeploymentReplicaRow)
        .where(DeploymentReplicaRow.experiment_id == trial.experiment_id)
        .values(
            attempt_no=allocation.attempt_no,
            host=reported.host[:255],
            port=reported.port,
            status="",
            num_sessions=0,
            num_requests=0,
            num_errors=0,
        )
        .execution_options(synchronize_session=False)
    )
    touch(session, "deployments", "loops")
