"""Routes of operations on existing experiments; see docs/guides/operations.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.api.http.deps import By, Config, Cursor, Db, Id, IdempotencyKey, Limit
from muster_server.api.http.races import raced
from muster_server.api.http.routing import Read, Router, Write
from muster_server.db.engine import Database
from muster_server.domain.checkpoints.keeping import KeepPolicy
from muster_server.errors import InvalidRequest
from muster_server.schemas.base import Page
from muster_server.schemas.data import RetentionForecastOut, RetentionOut
from muster_server.schemas.document import BudgetIn
from muster_server.schemas.experiments import ExperimentDetail, ExperimentOut, SearchOut
from muster_server.schemas.operations import (
    BulkIn,
    BulkOut,
    BulkPreviewOut,
    ChildOut,
    CleaningOut,
    CleaningPlanOut,
    ContinueIn,
    DeletionOut,
    DeletionPlanOut,
    FileDeletionOut,
    ForkIn,
    KeepIn,
    SearchLimitsIn,
)
from muster_server.services.checkpoints import cleaning, file_deletions
from muster_server.services.core import callers
from muster_server.services.core.callers import Caller
from muster_server.services.experiments import (
    bulk,
    continuing,
    deletion,
    forks,
    operations,
    search_control,
    views,
)
from muster_server.services.experiments.operations import ExperimentOperation
from muster_server.services.metrics import growth, retention
from muster_server.services.quota import budgets
from muster_server.services.tracking import unmanaged

router = Router(tags=["operations"])

RETENTION_DAYS_MAX = 36_500


@router.post("/experiments/{experiment_id}:pause", status_code=202)
def pause_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Pause an experiment: its trials save a checkpoint and release their slots until it is
    resumed."""
    return _run(db, operations.PAUSE, experiment_id, by)


@router.post("/experiments/{experiment_id}:resume", status_code=202)
def resume_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Resume an experiment: its trials are queued again and continue from their checkpoints."""
    return _run(db, operations.RESUME, experiment_id, by)


@router.post("/experiments/{experiment_id}:stop", status_code=202)
def stop_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Stop all trials of an experiment, with time for a last checkpoint."""
    return _run(db, operations.STOP, experiment_id, by)


@router.post("/experiments/{experiment_id}:kill", status_code=202)
def kill_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Kill all processes of an experiment at once, without a last checkpoint."""
    return _run(db, operations.KILL, experiment_id, by)


@router.post("/experiments/{experiment_id}:close", status_code=202)
def close_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Close an unmanaged experiment whose client will not end it. Its process, if there is one, is
    not stopped, and may open it again."""

    def closed(session: Session) -> ExperimentOut:
        unmanaged.close(session, experiment_id, by)
        session.flush()
        return views.experiment_out(session, experiment_id, clock.now())

    return raced(db, closed)


@router.put("/experiments/{experiment_id}/search/limits", status_code=202)
def set_search_limits(experiment_id: Id, body: SearchLimitsIn, session: Write, by: By) -> SearchOut:
    """Change how many trials a running search creates in all, and how many run in parallel."""
    search_control.set_limits(session, experiment_id, body, by)
    session.flush()
    return views.search_out(session, experiment_id)


Count = Annotated[int | None, Query(ge=0, le=10_000)]


@router.get("/experiments/{experiment_id}/checkpoints:plan")
def preview_checkpoint_cleaning(
    experiment_id: Id,
    db: Db,
    last: Count = None,
    best: Count = None,
    experiment_best: Count = None,
) -> CleaningPlanOut:
    """Return which checkpoints a policy keeps, and why, without deleting any.

    Without numbers: the policy of its document; with some, the others are 0.
    """
    numbers = (last, best, experiment_best)
    keep = None
    if any(number is not None for number in numbers):
        keep = KeepPolicy(last=last or 0, best=best or 0, experiment_best=experiment_best or 0)
    with db.read() as session:
        return cleaning.plan(session, experiment_id, keep)


@router.post("/experiments/{experiment_id}/checkpoints:clean", status_code=202)
def clean_checkpoints(experiment_id: Id, body: KeepIn, session: Write, by: By) -> CleaningOut:
    """Delete the checkpoints that a policy does not keep, once. Checkpoints stay that an unfinished
    trial, or a fork, may continue from."""
    return cleaning.clean_now(session, experiment_id, KeepPolicy(**body.model_dump()), by)


@router.post("/experiments/{experiment_id}:archive")
def archive_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Hide an experiment that has ended from lists. It can be read as before."""
    return _run(db, operations.ARCHIVE, experiment_id, by)


@router.post("/experiments/{experiment_id}:unarchive")
def unarchive_experiment(experiment_id: Id, db: Db, by: By) -> ExperimentOut:
    """Show an archived experiment in lists again."""
    return _run(db, operations.UNARCHIVE, experiment_id, by)


def _run(
    db: Database, operation: ExperimentOperation, experiment_id: int, by: Caller
) -> ExperimentOut:
    with db.transaction() as session:
        operations.run(session, operation, experiment_id, by)
        session.flush()
        return views.experiment_out(session, experiment_id, clock.now())


@router.post("/experiments/{experiment_id}:continue", status_code=202)
def continue_experiment(
    experiment_id: Id,
    body: ContinueIn,
    session: Write,
    by: By,
    idempotency_key: IdempotencyKey = None,
) -> ExperimentDetail:
    """Continue an experiment that has ended from its newest checkpoints, longer if requested."""
    continuing.continue_experiment(
        session, experiment_id, body, by, idempotency_key=idempotency_key
    )
    session.flush()
    return views.experiment_detail(session, experiment_id, by.now)


@router.post("/experiments/{experiment_id}:fork", status_code=201)
def fork_experiment(
    experiment_id: Id,
    body: ForkIn,
    session: Write,
    by: By,
    idempotency_key: IdempotencyKey = None,
) -> ExperimentDetail:
    """Create a new experiment from its document and code, and from a checkpoint if requested."""
    made = forks.fork_experiment(session, experiment_id, body, by, idempotency_key=idempotency_key)
    session.flush()
    return views.experiment_detail(session, made.experiment_id, by.now)


@router.get("/experiments/{experiment_id}/children")
def list_experiment_children(
    experiment_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[ChildOut]:
    """List the experiments that were forked from it, newest first."""
    return forks.list_children(session, experiment_id, cursor=cursor, limit=limit)


@router.put("/experiments/{experiment_id}/budget")
def set_experiment_budget(experiment_id: Id, body: BudgetIn, db: Db, by: By) -> ExperimentDetail:
    """Replace its budget; without a limit it has none. A length of time counts from now."""
    stored, problem = budgets.store(body, now=by.now)
    if problem is not None:
        raise InvalidRequest(
            "budgets.invalid", "The budget cannot work as written.", fields=[problem]
        )
    with db.transaction() as session:
        operations.run(session, operations.budget(stored), experiment_id, by)
        session.flush()
        return views.experiment_detail(session, experiment_id, by.now)


# ---------------------------------------------------------------- deleting


@router.get("/experiments/{experiment_id}/deletion")
def preview_deletion(experiment_id: Id, session: Read) -> DeletionPlanOut:
    """Return what deleting an experiment would free, and whether that is possible now. Nothing is
    changed."""
    return deletion.preview(session, experiment_id)


@router.delete("/experiments/{experiment_id}")
def delete_experiment(
    experiment_id: Id,
    db: Db,
    by: By,
    keep_files: Annotated[bool, Query(description="Leave its checkpoint files.")] = False,
) -> DeletionOut:
    """Remove an experiment that has ended, with everything it recorded and its files."""
    with db.transaction() as session:
        begun = deletion.begin(session, experiment_id, by, keep_files=keep_files)
    return begun.model_copy(update={"complete": deletion.clear(db, only=experiment_id)})


@router.get("/deletions")
def list_deletions(
    session: Read,
    open_only: Annotated[
        bool, Query(description="Only those that wait, and those an agent refused.")
    ] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[FileDeletionOut]:
    """List the checkpoint files of deleted experiments and their state, newest first."""
    return file_deletions.list_deletions(session, open_only=open_only, cursor=cursor, limit=limit)


@router.get("/retention")
def get_retention(
    session: Read,
    config: Config,
    metric_days: Annotated[
        int | None, Query(ge=1, le=RETENTION_DAYS_MAX, description="As if this were set.")
    ] = None,
    log_days: Annotated[
        int | None, Query(ge=1, le=RETENTION_DAYS_MAX, description="As if this were set.")
    ] = None,
) -> RetentionOut:
    """Return what is deleted by age, and what that would free now. Nothing is changed.

    The ages are settings of the server (`MUSTER_METRIC_RETENTION_DAYS`, `MUSTER_LOG_RETENTION_DAYS`);
    with a parameter the answer is about that age instead.
    """
    return retention.plan(
        session,
        clock.now(),
        metric_days=config.metric_retention_days if metric_days is None else metric_days,
        log_days=config.log_retention_days if log_days is None else log_days,
        is_asked=metric_days is not None or log_days is not None,
    )


@router.get("/retention/forecast")
def get_retention_forecast(db: Db, config: Config) -> RetentionForecastOut:
    """Return how much of each kind of data is stored, how fast it grows, and how long the disk lasts."""
    now = clock.now()
    with db.read() as session:
        plan = retention.plan(
            session,
            now,
            metric_days=config.metric_retention_days,
            log_days=config.log_retention_days,
        )
        return growth.forecast(db, session, now, plan=plan, audit_days=config.audit_retention_days)


@router.post("/deletions/{deletion_id}:dismiss")
def dismiss_deletion(deletion_id: Id, session: Write, by: By) -> FileDeletionOut:
    """Give up on files that no agent can delete; they stay where they are."""
    callers.record(session, "deletions.dismissed", f"deletion:{deletion_id}", by)
    return file_deletions.dismiss(session, deletion_id, by.now)


# ---------------------------------------------------------------- many at once


@router.post("/experiments:bulk-preview")
def preview_bulk(body: BulkIn, session: Read, by: By) -> BulkPreviewOut:
    """Return the exact experiments that an operation would affect, and the digest needed to run it."""
    return bulk.preview(session, body, by)


@router.post("/experiments:bulk")
def run_bulk(body: BulkIn, db: Db, by: By, idempotency_key: IdempotencyKey = None) -> BulkOut:
    """Run a previewed operation. 409 if the selection has changed since the preview."""
    by = replace(by, bulk=(body.digest or "")[:16])
    return bulk.perform(db, body, by, idempotency_key=idempotency_key)
