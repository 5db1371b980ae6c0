"""Deployments as the controller sees them, and what it decides about them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from muster_models.domain.deployments.deciding import (
    Abort,
    DeploymentDecision,
    DeploymentView,
    ReplicaView,
    SetPhase,
    SettleUpdate,
    Start,
    Stopped,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    DeploymentReplicaRow,
    DeploymentRevisionRow,
    DeploymentRow,
    ExperimentRow,
    ModelRow,
    ModelVersionRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.db.rows import from_row
from muster_server.domain.messages import english
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL, TrialState
from muster_server.errors import MusterError
from muster_server.schemas.experiments import ExperimentIn
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.core.writes import require_one
from muster_server.services.experiments import operations
from muster_server.services.experiments.submission import create_experiment

from ..registry.lineage import code_of

log = structlog.get_logger(__name__)

ENDED_LOOKED_AT = 10
"""Replicas that have ended which are looked at for why, of each deployment."""
INFRA_RESTARTS = 1_000
"""Restarts of a replica after failures of machines."""
ANY_DEPLOYMENT = exists().where(DeploymentRow.is_stopped.is_(False))
"""Whether any deployment is not stopped."""


def load_views(session: Session) -> list[DeploymentView]:
    """Return every deployment that is not stopped."""
    rows = session.scalars(select(DeploymentRow).where(DeploymentRow.is_stopped.is_(False))).all()
    if not rows:
        return []
    replicas: dict[int, list[ReplicaView]] = defaultdict(list)
    for replica, experiment_state, trial in session.execute(
        select(DeploymentReplicaRow, ExperimentRow.state, TrialRow)
        .outerjoin(ExperimentRow, ExperimentRow.id == DeploymentReplicaRow.experiment_id)
        .outerjoin(TrialRow, TrialRow.experiment_id == DeploymentReplicaRow.experiment_id)
        .where(
            DeploymentReplicaRow.deployment_id.in_([row.id for row in rows]),
            DeploymentReplicaRow.phase != "ended",
        )
        .order_by(DeploymentReplicaRow.id)
    ):
        replicas[replica.deployment_id].append(_view(replica, experiment_state, trial))
    for row in rows:
        # Their errors count, and their reasons are told.
        for ended in session.scalars(
            select(DeploymentReplicaRow)
            .where(
                DeploymentReplicaRow.deployment_id == row.id,
                DeploymentReplicaRow.phase == "ended",
                DeploymentReplicaRow.revision == row.target,
            )
            .order_by(DeploymentReplicaRow.id.desc())
            .limit(ENDED_LOOKED_AT)
        ):
            replicas[row.id].append(_view(ended, None, None))
    return [
        from_row(
            DeploymentView,
            row,
            wants="stop" if row.wants == "stop" else "run",
            ready_within_s=float(row.options["ready_within_s"]),
            replicas=tuple(sorted(replicas[row.id], key=lambda one: one.id)),
        )
        for row in rows
    ]


def _view(
    replica: DeploymentReplicaRow, experiment_state: str | None, trial: TrialRow | None
) -> ReplicaView:
    is_over = experiment_state is None or experiment_state in TERMINAL_EXPERIMENT
    is_current = (
        trial is not None
        and trial.state == TrialState.RUNNING
        and trial.attempt_no == replica.attempt_no
    )
    reason = replica.reason
    if trial is not None:
        is_over = is_over or trial.state in TERMINAL_TRIAL
        reason = trial.pending_reason if trial.state == TrialState.QUEUED else trial.reason
    return from_row(
        ReplicaView,
        replica,
        is_over=is_over,
        is_up=is_current and replica.status.startswith("UP"),
        is_routed=replica.status != "" and not replica.status.startswith(("DRAIN", "MAINT")),
        reason=reason,
    )


def apply(session: Session, decision: DeploymentDecision, *, now: dt.datetime) -> None:
    """Carry a decision out. Raises Outdated when what it was based on has changed."""
    match decision:
        case Start():
            _start(session, decision, now)
        case SetPhase():
            _set_phase(session, decision, now)
        case SettleUpdate():
            _settle(session, decision, now)
        case Abort():
            _abort(session, decision, now)
        case Stopped():
            require_one(
                session,
                update(DeploymentRow)
                .where(DeploymentRow.id == decision.deployment_id, DeploymentRow.wants == "stop")
                .values(is_stopped=True, backend=None, updated_at=now),
                "it is not to be stopped any more",
            )
    touch(session, "deployments", "loops")


def _start(session: Session, decision: Start, now: dt.datetime) -> None:
    deployment = _target(session, decision.deployment_id, decision.revision)
    revision = _revision(session, deployment.id, decision.revision)
    replica = DeploymentReplicaRow(
        deployment_id=deployment.id, revision=revision.number, phase="starting", phase_since=now,
        created_at=now,
    )  # fmt: skip
    owner = session.get(UserRow, deployment.owner_id) if deployment.owner_id else None
    document = _document(session, deployment, revision)
    more, blob_sha256 = code_of(session, _lineage(session, revision))
    body = ExperimentIn(document=json.dumps(document | more, indent=1), blob_sha256=blob_sha256)
    try:
        with session.begin_nested():
            submission = create_experiment(
                session,
                body,
                user_id=deployment.owner_id,
                user_name=owner.username if owner is not None else "the deployment",
                now=now,
            )
    except MusterError as error:
        fields = "; ".join(f"{problem.path} {english(problem.message)}" for problem in error.fields)
        replica.phase, replica.reason = "ended", f"{error.message} {fields}".strip()
        deployment.num_failures += 1
        deployment.failed_at, deployment.message = now, replica.reason
    else:
        replica.experiment_id = submission.experiment_id
    session.add(replica)
    session.flush()


def _lineage(session: Session, revision: DeploymentRevisionRow) -> Mapping[str, Any]:
    """Return where the version of a revision comes from; nothing if it was deleted meanwhile."""
    found = session.scalar(
        select(ModelVersionRow.lineage)
        .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
        .where(ModelRow.name == revision.model, ModelVersionRow.number == revision.version)
    )
    return found or {}


def _document(
    session: Session, deployment: DeploymentRow, revision: DeploymentRevisionRow
) -> dict[str, Any]:
    """Return the document of a replica."""
    options = deployment.options
    return {
        "name": f"{deployment.name} r{revision.number}",
        "project": session.get_one(ProjectRow, deployment.project_id).name,
        "labels": {"deployment": deployment.name},
        "serve": {
            "model": f"{revision.model}:{revision.version}",
            "name": deployment.name,
            "listen": options["listen"],
            "key_sha256": hashlib.sha256(deployment.key.encode()).hexdigest(),
            **{
                name: options[name]
                for name in ("max_batch", "max_queue", "max_body_bytes", "max_tokens")
            },
        },
        "resources": {
            "slots": deployment.slots,
            "nodes": 1,
            "slot_type": options["slot_type"],
            "pool": options["pool"],
            "priority": options["priority"],
            "preemptible": False,
        },
        "restarts": {"user": 0, "infra": INFRA_RESTARTS},
        "outputs": None,
        "stop_grace_s": 90.0,
    }


def _set_phase(session: Session, decision: SetPhase, now: dt.datetime) -> None:
    values: dict[str, object] = {"phase": decision.after, "phase_since": now}
    if decision.reason:
        values["reason"] = decision.reason
    if decision.after == "ended":
        values |= {"status": "", "num_sessions": 0}
    require_one(
        session,
        update(DeploymentReplicaRow)
        .where(
            DeploymentReplicaRow.id == decision.replica_id,
            DeploymentReplicaRow.phase == decision.before,
        )
        .values(**values),
        "the replica is in another phase",
    )
    replica = session.get_one(DeploymentReplicaRow, decision.replica_id, populate_existing=True)
    deployment = session.get_one(DeploymentRow, decision.deployment_id)
    if decision.counts_as_failure:
        deployment.num_failures += 1
        deployment.failed_at, deployment.message = now, decision.reason
    elif decision.after == "serving" and replica.revision == deployment.target:
        deployment.num_failures, deployment.failed_at = 0, None
        deployment.message = "" if deployment.target != deployment.stable else deployment.message
    if decision.after == "stopping" and replica.experiment_id is not None:
        operations.run(session, operations.STOP, replica.experiment_id, _controller(now))
    session.flush()


def _settle(session: Session, decision: SettleUpdate, now: dt.datetime) -> None:
    deployment = _target(session, decision.deployment_id, decision.revision)
    if deployment.stable is not None:
        _revision(session, deployment.id, deployment.stable).state = "replaced"
    revision = _revision(session, deployment.id, decision.revision)
    revision.state, revision.settled_at = "serving", now
    deployment.stable, deployment.message, deployment.updated_at = decision.revision, "", now
    session.flush()


def _abort(session: Session, decision: Abort, now: dt.datetime) -> None:
    deployment = _target(session, decision.deployment_id, decision.revision)
    revision = _revision(session, deployment.id, decision.revision)
    revision.state, revision.message = "failed", decision.reason
    deployment.target, deployment.target_since = decision.back_to, now
    deployment.num_failures, deployment.failed_at = 0, None
    deployment.message = (
        f"The update to version {revision.version} of {revision.model} was given up: "
        f"{decision.reason.rstrip('.')}."
    )
    deployment.updated_at = now
    session.flush()


def _target(session: Session, deployment_id: int, revision: int) -> DeploymentRow:
    """Return a deployment, locked. Raises Outdated unless this revision is its target."""
    require_one(
        session,
        update(DeploymentRow)
        .where(DeploymentRow.id == deployment_id, DeploymentRow.target == revision)
        .values(target=revision),
        "another revision is the target",
    )
    return session.get_one(DeploymentRow, deployment_id, populate_existing=True)


def _revision(session: Session, deployment_id: int, number: int) -> DeploymentRevisionRow:
    return session.scalars(
        select(DeploymentRevisionRow).where(
            DeploymentRevisionRow.deployment_id == deployment_id,
            DeploymentRevisionRow.number == number,
        )
    ).one()


def _controller(now: dt.datetime) -> Caller:
    return Caller(principal=Principal(kind="user", name="the deployment", role="admin"), now=now)
