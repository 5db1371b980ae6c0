"""Deployments as the REST API shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_models.domain.deployments.deciding import LIVE
from muster_models.schemas.deployments import (
    AddressOut,
    DeploymentItem,
    DeploymentOptions,
    DeploymentOut,
    ReplicaOut,
    RevisionOut,
)
from muster_server.db.models import (
    AllocationRow,
    DeploymentReplicaRow,
    DeploymentRevisionRow,
    DeploymentRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.states import TrialState
from muster_server.errors import Conflict
from muster_server.schemas.base import Page
from muster_server.security.principal import Principal
from muster_server.services.core.paging import read_page
from muster_server.settings import Settings

from .management import find_deployment, may_change

REVISIONS_SHOWN = 50
ENDED_SHOWN = 10
_REPORTED = {
    "requests_per_s": "serve/requests_per_s",
    "latency_p50_ms": "serve/latency_p50_ms",
    "latency_p95_ms": "serve/latency_p95_ms",
    "latency_p99_ms": "serve/latency_p99_ms",
}
_LATENCIES = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms")


@dataclass
class _DeploymentParts:
    """What belongs to one deployment."""

    target: DeploymentRevisionRow
    replicas: list[ReplicaOut] = field(default_factory=list)


def list_deployments(
    session: Session,
    principal: Principal,
    settings: Settings,
    *,
    cursor: str | None,
    limit: int,
) -> Page[DeploymentItem]:
    """Return one page of the deployments by name."""
    rows, following = read_page(
        session, select(DeploymentRow), DeploymentRow.name, cursor=cursor, limit=limit
    )
    found = _load(session, rows)
    items = [
        DeploymentItem(**_item(session, principal, settings, row, found[row.id])) for row in rows
    ]
    return Page(items=items, next=following)


def deployment_out(
    session: Session, principal: Principal, settings: Settings, name: str
) -> DeploymentOut:
    """Return a deployment with its history and replicas. Raises NotFound."""
    row = find_deployment(session, name)
    found = _load(session, [row], num_ended=ENDED_SHOWN)[row.id]
    revisions = session.scalars(
        select(DeploymentRevisionRow)
        .where(DeploymentRevisionRow.deployment_id == row.id)
        .order_by(DeploymentRevisionRow.number.desc())
        .limit(REVISIONS_SHOWN)
    )
    return DeploymentOut(
        **_item(session, principal, settings, row, found),
        options=DeploymentOptions(**row.options),
        revisions=[RevisionOut.from_row(revision) for revision in revisions],
        replicas=found.replicas,
    )


def address_of(session: Session, settings: Settings, name: str) -> AddressOut:
    """Return where a deployment answers requests. Raises NotFound and Conflict."""
    row = find_deployment(session, name)
    url = _url(settings, row)
    if url is None:
        raise Conflict(
            "deployments.no_address",
            f"Deployment {name} answers no requests: "
            + ("it is stopped." if row.backend is None else "this server has no router."),
            hint="`muster deploy list` shows which deployments do.",
        )
    return AddressOut(name=row.name, url=url)


def _url(settings: Settings, row: DeploymentRow) -> str | None:
    router = settings.resolved_router_url()
    return None if router is None or row.backend is None else f"{router}/{row.name}"


def _load(
    session: Session, rows: Sequence[DeploymentRow], *, num_ended: int = 0
) -> dict[int, _DeploymentParts]:
    ids = [row.id for row in rows]
    versions: dict[int, dict[int, DeploymentRevisionRow]] = defaultdict(dict)
    replicas: dict[int, list[DeploymentReplicaRow]] = defaultdict(list)
    for replica in session.scalars(
        select(DeploymentReplicaRow)
        .where(DeploymentReplicaRow.deployment_id.in_(ids), DeploymentReplicaRow.phase != "ended")
        .order_by(DeploymentReplicaRow.id)
    ):
        replicas[replica.deployment_id].append(replica)
    if num_ended:
        for row in rows:
            replicas[row.id] += session.scalars(
                select(DeploymentReplicaRow)
                .where(
                    DeploymentReplicaRow.deployment_id == row.id,
                    DeploymentReplicaRow.phase == "ended",
                )
                .order_by(DeploymentReplicaRow.id.desc())
                .limit(num_ended)
            )
    needed = {one.revision for some in replicas.values() for one in some}
    for revision in session.scalars(
        select(DeploymentRevisionRow).where(
            DeploymentRevisionRow.deployment_id.in_(ids),
            DeploymentRevisionRow.number.in_(needed | {row.target for row in rows}),
        )
    ):
        versions[revision.deployment_id][revision.number] = revision
    experiments = [one.experiment_id for some in replicas.values() for one in some]
    trials = {
        trial.experiment_id: trial
        for trial in session.scalars(
            select(TrialRow).where(TrialRow.experiment_id.in_({e for e in experiments if e}))
        )
    }
    nodes = {
        trial_id: name
        for trial_id, attempt_no, name in session.execute(
            select(AllocationRow.trial_id, AllocationRow.attempt_no, AllocationRow.node_name)
            .where(AllocationRow.trial_id.in_([trial.id for trial in trials.values()]))
            .order_by(AllocationRow.attempt_no)
        )
    }
    return {
        row.id: _DeploymentParts(
            target=versions[row.id][row.target],
            replicas=[
                _replica(
                    one,
                    versions[row.id][one.revision].version,
                    trials.get(one.experiment_id or 0),
                    nodes,
                )
                for one in replicas[row.id]
            ],
        )
        for row in rows
    }


def _replica(
    row: DeploymentReplicaRow, version: int, trial: TrialRow | None, nodes: dict[int, str]
) -> ReplicaOut:
    reason = row.reason
    if trial is not None and row.phase != "ended":
        reason = trial.pending_reason if trial.state == TrialState.QUEUED else trial.reason
        if row.phase == "starting" and trial.state == TrialState.RUNNING and row.status:
            reason = f"The router finds it {row.status} at {row.host}:{row.port}."
    summary = trial.summary if trial is not None else {}
    return ReplicaOut.from_row(
        row,
        version=version,
        trial_id=trial.id if trial is not None else None,
        trial_state=trial.state if trial is not None else None,
        node=nodes.get(trial.id) if trial is not None else None,
        reason=reason,
        **{
            name: float(decode_number(summary[metric]["last"])) if metric in summary else None
            for name, metric in _REPORTED.items()
        },
    )


def _item(
    session: Session,
    principal: Principal,
    settings: Settings,
    row: DeploymentRow,
    found: _DeploymentParts,
) -> dict[str, Any]:
    serving = [one for one in found.replicas if one.phase == "serving"]
    live = [one for one in found.replicas if one.phase in LIVE]
    owner = session.get(UserRow, row.owner_id) if row.owner_id else None
    slowest = {
        name: max((v for one in serving if (v := getattr(one, name)) is not None), default=None)
        for name in _LATENCIES
    }
    return {
        "name": row.name,
        "project": session.get_one(ProjectRow, row.project_id).name,
        "owner": owner.username if owner is not None else None,
        "state": _state(row, len(serving)),
        "message": row.message,
        "url": _url(settings, row),
        "model": found.target.model,
        "version": found.target.version,
        "reference": found.target.reference,
        "revision": row.target,
        "num_replicas": row.num_replicas,
        "num_ready": len(serving),
        "slots": row.slots,
        "requests_per_s": sum(one.requests_per_s or 0.0 for one in serving),
        "num_requests": sum(one.num_requests for one in live),
        "num_errors": sum(one.num_errors for one in live),
        **slowest,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "updated_at": row.updated_at,
        "may_change": may_change(principal, row),
    }


def _state(
    row: DeploymentRow, num_ready: int
) -> Literal["starting", "ready", "updating", "degraded", "unavailable", "stopping", "stopped"]:
    if row.wants == "stop":
        return "stopped" if row.is_stopped else "stopping"
    if row.stable is None:
        return "starting"
    if row.stable != row.target:
        return "updating"
    if num_ready >= row.num_replicas:
        return "ready"
    return "degraded" if num_ready else "unavailable"
