"""Routes of trials; see docs/reference/rest-api.md."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query

from muster_server import clock
from muster_server.api.http.deps import By, Cursor, Db, Id, Limit
from muster_server.api.http.routing import Read, Router, Snapshot, Write
from muster_server.db.engine import Database
from muster_server.db.models import EventRow
from muster_server.schemas.analysis.performance import PerformanceOut
from muster_server.schemas.analysis.pipelines import PipelineStepOut
from muster_server.schemas.analysis.progress import ProgressOut, StacksOut
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut, TrialSystemMetricsOut
from muster_server.schemas.experiments import (
    CheckpointOut,
    EvaluationOut,
    KeepRunningIn,
    ProcessGroupOut,
    TrialDetail,
    TrialOut,
    WorkerOut,
)
from muster_server.schemas.guards import TryGuardsIn, TryGuardsOut
from muster_server.schemas.reproduction import ReproductionOut
from muster_server.schemas.tracking import TrackedRunOut
from muster_server.services.core import callers, lookup
from muster_server.services.core.callers import Caller
from muster_server.services.core.event_views import list_events
from muster_server.services.experiments import reproduction, search_control, trials
from muster_server.services.insight import performance
from muster_server.services.nodes import system_metrics
from muster_server.services.runtime import (
    evaluations,
    guard_trials,
    pipelines,
    progress,
    tracked_runs,
    waste,
)

router = Router(tags=["trials"])

Attempt = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="Attempt number; the current one by default.")
]


@router.get("/trials/{trial_id}")
def get_trial(
    trial_id: Id,
    session: Read,
    summary: Annotated[
        Literal["all", "headline"],
        Query(
            description="headline: of the metrics only the search's, losses, and what Muster itself"
            " measures of a step, for trials of thousands."
        ),
    ] = "all",
) -> TrialDetail:
    """Return one trial with its attempts, newest first."""
    return trials.trial_detail(session, trial_id, headline=summary == "headline")


@router.get("/trials/{trial_id}/system-metrics")
def get_trial_system_metrics(
    trial_id: Id,
    session: Read,
    node: Annotated[
        list[str] | None,
        Query(
            max_length=system_metrics.NODES_MAX,
            description="Names of nodes; by default the first 8 of the newest attempt.",
        ),
    ] = None,
) -> TrialSystemMetricsOut:
    """Return how busy the nodes of a trial were during its attempts: processors, memory, disks, each
    network interface and GPU."""
    return system_metrics.of_trial(session, trial_id, nodes=node or (), now=clock.now())


@router.get("/trials/{trial_id}/reproduction")
def get_trial_reproduction(trial_id: Id, session: Read) -> ReproductionOut:
    """Return what it takes to run a trial again: the origin of each setting, the commit of its code,
    and the Python, torch, driver and packages of its newest attempt."""
    return reproduction.of_trial(session, trial_id)


@router.post("/trials/{trial_id}/guards:try")
def try_guards(trial_id: Id, body: TryGuardsIn, session: Snapshot) -> TryGuardsOut:
    """Return what guards would have done with the stored values of a trial. Nothing changes."""
    return guard_trials.try_guards(session, trial_id, body)


@router.post("/trials/{trial_id}:stop", status_code=202)
def stop_trial(trial_id: Id, db: Db, by: By) -> TrialOut:
    """Stop a trial, with time for a last checkpoint."""
    return _end(db, trial_id, "stop", by)


@router.post("/trials/{trial_id}:kill", status_code=202)
def kill_trial(trial_id: Id, db: Db, by: By) -> TrialOut:
    """Kill the processes of a trial at once, without a last checkpoint."""
    return _end(db, trial_id, "kill", by)


@router.post("/trials/{trial_id}:promote", status_code=202)
def promote_trial(trial_id: Id, session: Write, by: By) -> TrialOut:
    """Promote a trial that waits at its rung, whatever its rank."""
    search_control.promote(session, trial_id, by)
    session.flush()
    return trials.trial_out(session, trial_id)


@router.post("/trials/{trial_id}:keep")
def keep_trial(trial_id: Id, body: KeepRunningIn, session: Write, by: By) -> TrialDetail:
    """Keep a trial running for some hours, whatever the rules on waste of its pool and document say."""
    waste.keep(session, trial_id, hours=body.hours, by=by)
    session.flush()
    return trials.trial_detail(session, trial_id)


def _end(db: Database, trial_id: int, desired: Literal["stop", "kill"], by: Caller) -> TrialOut:
    with db.transaction() as session:
        trials.end_trial(session, trial_id, desired, principal=by.principal, now=by.now)
        callers.record(session, f"trials.{desired}_requested", f"trial:{trial_id}", by)
        session.flush()
        return trials.trial_out(session, trial_id)


@router.get("/trials/{trial_id}/workers")
def list_trial_workers(
    trial_id: Id, session: Read, attempt: Attempt = None, cursor: Cursor = None, limit: Limit = 200
) -> Page[WorkerOut]:
    """List worker processes in order of rank."""
    return trials.list_workers(session, trial_id, attempt_no=attempt, cursor=cursor, limit=limit)


@router.get("/trials/{trial_id}/groups")
def list_trial_groups(
    trial_id: Id, session: Read, attempt: Attempt = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[ProcessGroupOut]:
    """List process groups."""
    return trials.list_groups(session, trial_id, attempt_no=attempt, cursor=cursor, limit=limit)


@router.get("/trials/{trial_id}/performance")
def get_trial_performance(
    trial_id: Id,
    session: Snapshot,
    attempt: Attempt = None,
    rows: Annotated[
        int,
        Query(ge=1, le=1000, description="How many of the newest rows of each rank count."),
    ] = performance.ROWS,
) -> PerformanceOut:
    """Return where the time of its newest steps went, rank by rank: parts of the step, who waits
    for whom, communication of each process group, stages of a pipeline."""
    return performance.trial_performance(session, trial_id, attempt_no=attempt, num_rows=rows)


@router.get("/trials/{trial_id}/pipeline-step")
def get_trial_pipeline_step(
    trial_id: Id,
    session: Snapshot,
    attempt: Attempt = None,
    pipeline: Annotated[
        int, Query(ge=0, le=65535, description="Which of several pipelines beside each other.")
    ] = 0,
) -> PipelineStepOut:
    """Return the timeline of a pipeline's workers in one step: the newest step that all of them
    have recorded."""
    return pipelines.noted_step(session, trial_id, attempt_no=attempt, pipeline=pipeline)


@router.get("/trials/{trial_id}/progress")
def get_trial_progress(trial_id: Id, session: Read, by: By) -> ProgressOut:
    """Return how far each rank is, and which of them delays the others when nothing moves."""
    return progress.trial_progress(session, trial_id, now=by.now)


@router.post("/trials/{trial_id}:stacks", status_code=202)
def ask_trial_stacks(trial_id: Id, session: Write, by: By) -> StacksOut:
    """Request the stacks of every rank: the calls of all its threads. The training goes on
    meanwhile. The responses arrive one by one; read them with get_trial_stacks."""
    progress.request_stacks(session, trial_id, by)
    session.flush()
    return progress.trial_stacks(session, trial_id, attempt_no=None, no=None)


@router.get("/trials/{trial_id}/stacks")
def get_trial_stacks(
    trial_id: Id,
    session: Read,
    attempt: Attempt = None,
    no: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Which time; the last by default.")
    ] = None,
) -> StacksOut:
    """Return the requested stacks of the ranks, in order of rank."""
    return progress.trial_stacks(session, trial_id, attempt_no=attempt, no=no)


@router.get("/trials/{trial_id}/checkpoints")
def list_trial_checkpoints(
    trial_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[CheckpointOut]:
    """List checkpoints, newest first."""
    return trials.list_checkpoints(session, trial_id, cursor=cursor, limit=limit)


@router.get("/trials/{trial_id}/evaluations")
def list_trial_evaluations(trial_id: Id, session: Read) -> list[EvaluationOut]:
    """List the evaluations of its model by name: scores of each class, confusion matrix."""
    return evaluations.list_evaluations(session, trial_id)


@router.get("/trials/{trial_id}/tracked-runs")
def list_tracked_runs(
    trial_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[TrackedRunOut]:
    """List the runs that its script has started with MLflow: params and tags."""
    return tracked_runs.list_runs(session, trial_id, cursor=cursor, limit=limit)


@router.get("/trials/{trial_id}/events")
def list_trial_events(
    trial_id: Id,
    db: Db,
    type: Annotated[str | None, Query(max_length=64)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[EventOut]:
    """List the events of a trial, newest first. type: only events of this type, such as `guard.fired`."""
    about = EventRow.trial_id == trial_id
    if type is not None:
        about &= EventRow.type == type
    with db.read() as session:
        lookup.get_trial(session, trial_id)
        return list_events(session, about, cursor=cursor, limit=limit)
