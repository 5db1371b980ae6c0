"""Deployments: making, updating, rolling back, scaling and stopping them, and who may do so.

Everybody who is signed in sees every deployment. Members of a project deploy in it; only the owner of a
deployment, while a member of its project, and administrators change one. Nothing is started here: the controller makes so what these write down.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster.document.inference import UsedModel
from muster_models.domain.deployments.routing import BACKENDS_MAX
from muster_models.schemas.deployments import (
    DEPLOYMENT_NAME,
    DeploymentIn,
    DeploymentOptions,
    DeploymentUpdateIn,
    RollbackIn,
    ScaleIn,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    DeploymentRevisionRow,
    DeploymentRow,
    ProjectRow,
)
from muster_server.db.sight import SEES_ALL
from muster_server.errors import (
    Conflict,
    FieldProblem,
    Forbidden,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from muster_server.security.principal import Principal
from muster_server.services.core import access, callers
from muster_server.services.core.callers import Caller
from muster_server.services.core.lookup import get_project
from muster_server.services.core.ownership import is_in_charge, say_whose
from muster_server.services.experiments.model_uses import find_used
from muster_server.services.quota.projects import DEFAULT_PROJECT, find_or_make
from muster_server.settings import Settings

REVISIONS_MAX = 10_000
"""Revisions of one deployment."""


def find_deployment(session: Session, name: str, *, lock: bool = False) -> DeploymentRow:
    """Return the deployment of this name, locked until the end of the transaction if asked. Raises
    NotFound."""
    query = (
        select(DeploymentRow)
        .where(DeploymentRow.name == name)
        .execution_options(populate_existing=lock)
    )
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound(
            "deployments.not_found",
            f"There is no deployment {name[:63]!r}.",
            hint="`muster deploy list` shows all deployments.",
        )
    return row


def may_change(principal: Principal, deployment: DeploymentRow) -> bool:
    return is_in_charge(principal, deployment.owner_id)


def create_deployment(
    session: Session, body: DeploymentIn, caller: Caller, *, settings: Settings
) -> DeploymentRow:
    """Deploy a version under a name that is not taken, or that of a stopped deployment of the caller's.

    Raises InvalidRequest, Conflict, Forbidden, and Unavailable without a router.
    """
    _require_router(settings)
    used = _resolve(session, body.model)
    name = body.name or used.model
    if not re.fullmatch(DEPLOYMENT_NAME, name):
        raise InvalidRequest(
            "deployments.bad_name",
            f"{name[:100]!r} cannot be the name of a deployment.",
            fields=[
                FieldProblem(
                    "name",
                    "must be lower-case letters, digits and hyphens, at most 63",
                    "name it yourself: --name digits",
                )
            ],
        )
    if f"/{name}" == settings.router_prefix():
        raise InvalidRequest(
            "deployments.bad_name",
            f"{name!r} cannot be the name of a deployment.",
            fields=[
                FieldProblem("name", "is the path of the router's address", "choose another name")
            ],
        )
    existing = session.scalar(
        select(DeploymentRow).where(DeploymentRow.name == name).with_for_update()
    )
    if existing is not None and not existing.is_stopped:
        raise Conflict(
            "deployments.name_taken",
            f"There is a deployment {name!r} already.",
            hint=f"`muster deploy update {name} {body.model}` changes what it serves, and --name "
            "makes another one.",
        )
    backend = _free_backend(session)
    options = {name: getattr(body, name) for name in DeploymentOptions.model_fields}
    options["listen"] = body.listen or settings.deployments_listen
    if existing is None:
        existing = DeploymentRow(
            project_id=_project_id(session, body.project, caller),
            owner_id=caller.principal.user_id,
            name=name,
            last_revision=0,
            created_at=caller.now,
            created_by=caller.principal.actor,
        )
    else:
        _require_charge(session, caller.principal, existing)
    existing.wants, existing.is_stopped, existing.backend = "run", False, backend
    existing.num_replicas, existing.slots, existing.options = body.replicas, body.slots, options
    existing.key = secrets.token_hex(32)
    existing.stable = None
    revision = _aim(existing, caller.now)
    try:
        with session.begin_nested():
            session.add(existing)
    except IntegrityError:
        raise Conflict(
            "deployments.name_taken",
            f"Somebody else has just made a deployment {name!r}.",
            hint="Try again, or choose another name.",
        ) from None
    _add_revision(session, existing, revision, used, body.model, body.reason, caller)
    _record(
        session,
        caller,
        "deployments.created",
        existing,
        {"model": f"{used.model}:{used.version}", "replicas": body.replicas},
    )
    return existing


def update_deployment(
    session: Session, name: str, body: DeploymentUpdateIn, caller: Caller
) -> DeploymentRow:
    """Let a deployment serve another version. Raises NotFound, Forbidden, InvalidRequest and
    Conflict."""
    deployment = _running(session, name, caller)
    used = _resolve(session, body.model)
    _serve(session, deployment, used, body.model, body.reason, caller, "deployments.updated")
    return deployment


def roll_back(session: Session, name: str, body: RollbackIn, caller: Caller) -> DeploymentRow:
    """Return to a former revision, as a new one. Raises NotFound, Forbidden, InvalidRequest and
    Conflict."""
    deployment = _running(session, name, caller)
    query = select(DeploymentRevisionRow).where(
        DeploymentRevisionRow.deployment_id == deployment.id
    )
    if body.revision is not None:
        former = session.scalar(query.where(DeploymentRevisionRow.number == body.revision))
        if former is None:
            raise NotFound(
                "deployments.no_revision",
                f"Deployment {name} has no revision {body.revision}.",
                hint=f"`muster deploy show {name}` lists its revisions.",
            )
    else:
        current = _current(session, deployment)
        former = session.scalar(
            query.where(
                DeploymentRevisionRow.number < deployment.target,
                DeploymentRevisionRow.settled_at.is_not(None),
                (DeploymentRevisionRow.version != current.version)
                | (DeploymentRevisionRow.model != current.model),
            ).order_by(DeploymentRevisionRow.number.desc())
        )
        if former is None:
            raise Conflict(
                "deployments.nothing_before",
                f"No other version has served in deployment {name} before.",
                hint=f"Name a version: `muster deploy update {name} MODEL:VERSION`.",
            )
    used = _resolve(session, f"{former.model}:{former.version}")
    reason = body.reason or f"rolled back to revision {former.number}"
    _serve(session, deployment, used, former.reference, reason, caller, "deployments.rolled_back")
    return deployment


def scale(session: Session, name: str, body: ScaleIn, caller: Caller) -> DeploymentRow:
    """Change the number of replicas. Raises NotFound, Forbidden and Conflict."""
    deployment = _running(session, name, caller)
    before = deployment.num_replicas
    if before != body.replicas:
        deployment.num_replicas, deployment.updated_at = body.replicas, caller.now
        detail = {"from": before, "to": body.replicas}
        _record(session, caller, "deployments.scaled", deployment, detail)
    return deployment


def stop(session: Session, name: str, caller: Caller) -> DeploymentRow:
    """Stop a deployment: its replicas answer what they have begun, and end. Raises NotFound and
    Forbidden."""
    deployment = find_deployment(session, name, lock=True)
    _require_charge(session, caller.principal, deployment)
    if deployment.wants != "stop":
        deployment.wants, deployment.updated_at = "stop", caller.now
        _record(session, caller, "deployments.stopped", deployment)
    return deployment


def delete_deployment(session: Session, name: str, caller: Caller) -> None:
    """Delete a stopped deployment with its history. Raises NotFound, Forbidden and Conflict."""
    deployment = find_deployment(session, name, lock=True)
    _require_charge(session, caller.principal, deployment)
    if not deployment.is_stopped:
        raise Conflict(
            "deployments.not_stopped",
            f"Deployment {name} is not stopped; only one that is can be deleted.",
            hint=f"Stop it first: `muster deploy stop {name}`.",
        )
    _record(session, caller, "deployments.deleted", deployment)
    session.delete(deployment)


def _serve(
    session: Session,
    deployment: DeploymentRow,
    used: UsedModel,
    reference: str,
    reason: str,
    caller: Caller,
    action: str,
) -> None:
    current = _current(session, deployment)
    if (current.model, current.version) == (used.model, used.version):
        raise Conflict(
            "deployments.same_version",
            f"Deployment {deployment.name} is told to serve version {used.version} of model "
            f"{used.model} already.",
            hint="Name another version, or move the alias first.",
        )
    if deployment.last_revision >= REVISIONS_MAX:
        raise Conflict(
            "deployments.too_many_revisions",
            f"Deployment {deployment.name} has had {REVISIONS_MAX} revisions, the maximum.",
            hint="Make a new deployment.",
        )
    if deployment.stable != deployment.target:
        # The one before has not been rolled out completely, and never will be.
        current.state, current.message = "replaced", "Another update came first."
    revision = _aim(deployment, caller.now)
    _add_revision(session, deployment, revision, used, reference, reason, caller)
    _record(
        session,
        caller,
        action,
        deployment,
        {"model": f"{used.model}:{used.version}", "why": reason},
    )


def _aim(deployment: DeploymentRow, now: dt.datetime) -> int:
    """Make a new revision the target, and return its number."""
    deployment.last_revision += 1
    deployment.target, deployment.target_since = deployment.last_revision, now
    deployment.num_failures, deployment.failed_at, deployment.message = 0, None, ""
    deployment.updated_at = now
    return deployment.last_revision


def _add_revision(
    session: Session,
    deployment: DeploymentRow,
    number: int,
    used: UsedModel,
    reference: str,
    reason: str,
    caller: Caller,
) -> None:
    session.add(
        DeploymentRevisionRow(
            deployment_id=deployment.id,
            number=number,
            reference=reference,
            model=used.model,
            version=used.version,
            state="rolling_out",
            reason=reason,
            created_at=caller.now,
            created_by=caller.principal.actor,
        )
    )
    session.flush()


def _current(session: Session, deployment: DeploymentRow) -> DeploymentRevisionRow:
    return session.scalars(
        select(DeploymentRevisionRow).where(
            DeploymentRevisionRow.deployment_id == deployment.id,
            DeploymentRevisionRow.number == deployment.target,
        )
    ).one()


def _running(session: Session, name: str, caller: Caller) -> DeploymentRow:
    deployment = find_deployment(session, name, lock=True)
    _require_charge(session, caller.principal, deployment)
    if deployment.wants == "stop":
        raise Conflict(
            "deployments.stopped",
            f"Deployment {name} is {'' if deployment.is_stopped else 'being '}stopped.",
            hint="Deploy it again with `muster deploy MODEL --name NAME`.",
        )
    return deployment


def _resolve(session: Session, reference: str) -> UsedModel:
    """Return the version that a reference means now. Raises InvalidRequest."""
    found = find_used(session, "model", reference)
    if isinstance(found, FieldProblem):
        raise InvalidRequest(
            "deployments.bad_model", f"{reference[:120]!r} cannot be deployed.", fields=[found]
        )
    return found


def _free_backend(session: Session) -> int:
    taken = set(
        session.scalars(
            select(DeploymentRow.backend).where(DeploymentRow.backend.is_not(None)),
            execution_options=SEES_ALL,
        )
    )
    free = next((n for n in range(1, BACKENDS_MAX + 1) if n not in taken), None)
    if free is None:
        raise Conflict(
            "deployments.too_many",
            f"{BACKENDS_MAX} deployments run, the maximum.",
            hint="Stop one that nobody uses.",
        )
    return free


def _require_router(settings: Settings) -> None:
    if settings.router_dir is None:
        raise Unavailable(
            "deployments.no_router",
            "This server has no router: HAProxy is not installed, or MUSTER_ROUTER_DIR is not set.",
            hint="Install the package haproxy (`apt-get install haproxy`) and start `muster up` again.",
        )


def _project_id(session: Session, name: str, caller: Caller) -> int:
    who = caller.principal
    access.require_submit(session, name, user_id=who.user_id, role=who.role)
    if name == DEFAULT_PROJECT:
        return find_or_make(session, DEFAULT_PROJECT, caller.now)
    try:
        return get_project(session, name).id
    except NotFound:
        raise InvalidRequest(
            "deployments.no_project",
            f"There is no project {name!r}.",
            fields=[FieldProblem("project", "must be the name of a project")],
        ) from None


def _require_charge(session: Session, principal: Principal, deployment: DeploymentRow) -> None:
    if may_change(principal, deployment):
        project = session.get_one(ProjectRow, deployment.project_id)
        access.require(session, project, "submit", principal)
        return
    whose = say_whose(session, deployment.owner_id)
    raise Forbidden(
        "deployments.not_yours",
        f"Deployment {deployment.name} {whose}; its owner and administrators may change it.",
        hint="Deploy the model under another name.",
    )


def _record(
    session: Session,
    caller: Caller,
    action: str,
    deployment: DeploymentRow,
    detail: Mapping[str, Any] | None = None,
) -> None:
    callers.record(session, action, f"deployment:{deployment.name}", caller, detail)
    touch(session, "deployments", "loops")
