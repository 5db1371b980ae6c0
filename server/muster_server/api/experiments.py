"""Routes of experiments; see docs/reference/rest-api.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.api.deps import Config, Cursor, Db, Id, Limit, Me, RemoteAddr
from muster_server.db.engine import Database
from muster_server.db.models import EventRow
from muster_server.domain.states import ExperimentState, TrialState
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut
from muster_server.schemas.experiments import (
    ExperimentDetail,
    ExperimentIn,
    ExperimentOut,
    ExperimentPatch,
    PreviewOut,
    SearchOut,
    TrialOut,
)
from muster_server.security.principal import Principal
from muster_server.services import audit, experiment_views, experiments, previews, trials
from muster_server.services.event_views import list_events
from muster_server.services.scheduling import scheduler_policy

router = APIRouter(tags=["experiments"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=128,
        pattern=r"^[\x21-\x7e]+$",
        description="A repetition with the same key and body returns the first one's experiment.",
    ),
]


@router.post("/experiments", status_code=201, operation_id="create_experiment")
def create_experiment(
    body: ExperimentIn,
    db: Db,
    me: Me,
    addr: RemoteAddr,
    idempotency_key: IdempotencyKey = None,
) -> ExperimentDetail:
    """Submit an experiment."""
    with db.transaction() as session:
        made = experiments.create_experiment(
            session,
            body,
            user_id=me.user_id,
            user_name=me.name,
            now=clock.now(),
            idempotency_key=idempotency_key,
        )
        if made.is_new:
            _audit(session, me, addr, "experiments.submitted", made.experiment_id)
        session.flush()
        return experiment_views.experiment_detail(session, made.experiment_id)


@router.post("/experiments:preview", operation_id="preview_experiment")
def preview_experiment(body: ExperimentIn, db: Db, config: Config) -> PreviewOut:
    """Check a document and show what it would do. Nothing is stored."""
    with db.read() as session:
        return previews.preview_experiment(session, body, scheduler_policy(config), now=clock.now())


@router.get("/experiments", operation_id="list_experiments")
def list_experiments(
    db: Db,
    state: Annotated[list[ExperimentState] | None, Query(max_length=10)] = None,
    project: Annotated[str | None, Query(max_length=128)] = None,
    q: Annotated[str | None, Query(max_length=200, description="Part of the name.")] = None,
    archived: Annotated[bool, Query(description="Archived ones too.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[ExperimentOut]:
    """Experiments, newest first."""
    filters = experiment_views.ExperimentFilter(
        states=state or (), project=project, text=q, archived=archived
    )
    with db.read() as session:
        return experiment_views.list_experiments(session, filters, cursor=cursor, limit=limit)


@router.get("/experiments/{experiment_id}", operation_id="get_experiment")
def get_experiment(experiment_id: Id, db: Db) -> ExperimentDetail:
    """One experiment with its document and resolved configuration."""
    with db.read() as session:
        return experiment_views.experiment_detail(session, experiment_id)


@router.patch("/experiments/{experiment_id}", operation_id="update_experiment")
def update_experiment(
    experiment_id: Id, body: ExperimentPatch, db: Db, me: Me, addr: RemoteAddr
) -> ExperimentDetail:
    """Change name, notes, labels or priority."""
    with db.transaction() as session:
        experiments.update_experiment(session, experiment_id, body, clock.now())
        detail: dict[str, Any] = {"fields": sorted(body.model_dump(exclude_none=True))}
        if body.priority is not None:
            detail["priority"] = body.priority
        _audit(session, me, addr, "experiments.changed", experiment_id, detail)
        session.flush()
        return experiment_views.experiment_detail(session, experiment_id)


@router.post("/experiments/{experiment_id}:stop", status_code=202, operation_id="stop_experiment")
def stop_experiment(experiment_id: Id, db: Db, me: Me, addr: RemoteAddr) -> ExperimentOut:
    """Ask for all its trials to stop."""
    with db.transaction() as session:
        experiments.stop_experiment(session, experiment_id, user_name=me.name, now=clock.now())
        _audit(session, me, addr, "experiments.stop_requested", experiment_id)
        session.flush()
        return experiment_views.experiment_out(session, experiment_id)


@router.post("/experiments/{experiment_id}:archive", operation_id="archive_experiment")
def archive_experiment(experiment_id: Id, db: Db, me: Me, addr: RemoteAddr) -> ExperimentOut:
    """Hide an experiment that has ended from the list."""
    return _set_archived(db, me, addr, experiment_id, True)


@router.post("/experiments/{experiment_id}:unarchive", operation_id="unarchive_experiment")
def unarchive_experiment(experiment_id: Id, db: Db, me: Me, addr: RemoteAddr) -> ExperimentOut:
    """Show it in the list again."""
    return _set_archived(db, me, addr, experiment_id, False)


def _set_archived(
    db: Database, me: Principal, addr: str, experiment_id: int, archived: bool
) -> ExperimentOut:
    with db.transaction() as session:
        experiments.set_archived(session, experiment_id, archived, clock.now())
        action = "experiments.archived" if archived else "experiments.unarchived"
        _audit(session, me, addr, action, experiment_id)
        session.flush()
        return experiment_views.experiment_out(session, experiment_id)


@router.delete("/experiments/{experiment_id}", status_code=204, operation_id="delete_experiment")
def delete_experiment(experiment_id: Id, db: Db, me: Me, addr: RemoteAddr) -> Response:
    """Remove an experiment that has ended, with everything it recorded."""
    with db.transaction() as session:
        _audit(session, me, addr, "experiments.deleted", experiment_id)
        experiments.delete_experiment(session, experiment_id)
    return Response(status_code=204)


@router.get("/experiments/{experiment_id}/trials", operation_id="list_experiment_trials")
def list_experiment_trials(
    experiment_id: Id,
    db: Db,
    state: Annotated[list[TrialState] | None, Query(max_length=10)] = None,
    sort: trials.TrialSort = "no",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[TrialOut]:
    """Trials of an experiment; those without a metric come last when sorted by it."""
    with db.read() as session:
        return trials.list_trials(
            session, experiment_id, states=state or (), sort=sort, cursor=cursor, limit=limit
        )


@router.get("/experiments/{experiment_id}/events", operation_id="list_experiment_events")
def list_experiment_events(
    experiment_id: Id, db: Db, cursor: Cursor = None, limit: Limit = 50
) -> Page[EventOut]:
    """What happened to it and its trials, newest first."""
    with db.read() as session:
        experiments.get_experiment(session, experiment_id)
        about = EventRow.experiment_id == experiment_id
        return list_events(session, about, cursor=cursor, limit=limit)


@router.get("/experiments/{experiment_id}/search", operation_id="get_experiment_search")
def get_experiment_search(experiment_id: Id, db: Db) -> SearchOut:
    """The search: rungs, the trials on them, and what the next trial must reach."""
    with db.read() as session:
        return experiment_views.search_out(session, experiment_id)


def _audit(
    session: Session,
    me: Principal,
    addr: str,
    action: str,
    experiment_id: int,
    detail: Mapping[str, Any] | None = None,
) -> None:
    audit.record(
        session,
        actor=me.actor,
        action=action,
        subject=f"experiment:{experiment_id}",
        now=clock.now(),
        remote_addr=addr,
        detail=detail,
    )
