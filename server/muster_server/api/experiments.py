"""Routes of experiments; see docs/reference/rest-api.md."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from muster_server import clock
from muster_server.api.http.deps import By, Cursor, Foresee, Id, IdempotencyKey, Limit, Me
from muster_server.api.http.routing import Read, Router, Snapshot, Write
from muster_server.db.models import EventRow
from muster_server.domain.experiments.columns import MAX_COLUMN_CHARS
from muster_server.domain.states import ExperimentState, TrialState
from muster_server.schemas.analysis.performance import FiguresOut
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut
from muster_server.schemas.document import document_schema
from muster_server.schemas.experiments import (
    ExperimentColumnsOut,
    ExperimentCountOut,
    ExperimentDetail,
    ExperimentGroupsOut,
    ExperimentIn,
    ExperimentOut,
    ExperimentPatch,
    PreviewOut,
    SearchOut,
    TrialOut,
)
from muster_server.schemas.operations import ArchivedFilter
from muster_server.schemas.search import ImportanceOut, SearchResultsOut
from muster_server.services.core import lookup
from muster_server.services.core.callers import note
from muster_server.services.core.event_views import list_events
from muster_server.services.experiments import groups, previews, submission, trials, views
from muster_server.services.experiments.columns import MAX_COLUMNS, MAX_CONDITIONS
from muster_server.services.experiments.filters import ExperimentFilter
from muster_server.services.insight import performance
from muster_server.services.search import results

router = Router(tags=["experiments"])

TrialNo = Annotated[int, Query(ge=1, le=2**31 - 1)]
ColumnText = Annotated[str, Query(max_length=MAX_COLUMN_CHARS)]
ConditionText = Annotated[str, Query(max_length=MAX_COLUMN_CHARS + 200)]


@router.post("/experiments", status_code=201)
def create_experiment(
    body: ExperimentIn,
    session: Write,
    by: By,
    idempotency_key: IdempotencyKey = None,
) -> ExperimentDetail:
    """Submit an experiment."""
    made = submission.create_experiment(
        session,
        body,
        user_id=by.principal.user_id,
        user_name=by.principal.name,
        role=by.principal.role,
        now=by.now,
        idempotency_key=idempotency_key,
    )
    if made.is_new:
        note(session, "experiments.submitted", made.experiment_id, by)
    session.flush()
    return views.experiment_detail(session, made.experiment_id, by.now)


@router.post("/experiments:preview")
def preview_experiment(body: ExperimentIn, session: Read, me: Me, foresight: Foresee) -> PreviewOut:
    """Check a document and show what it would do. Nothing is stored."""
    return previews.preview_experiment(
        session, body, foresight, user_id=me.user_id, role=me.role, now=clock.now()
    )


def _filter(
    state: Annotated[list[ExperimentState] | None, Query(max_length=10)] = None,
    project: Annotated[str | None, Query(max_length=128)] = None,
    label: Annotated[
        list[str] | None,
        Query(max_length=20, description="name=value, or the name alone for any value."),
    ] = None,
    owner: Annotated[str | None, Query(max_length=64, description="By user name.")] = None,
    q: Annotated[str | None, Query(max_length=200, description="Part of the name.")] = None,
    archived: ArchivedFilter = "exclude",
    where: Annotated[
        list[ConditionText] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description="A condition on a column, with blanks: metric.last.val/loss < 0.5, or "
            "hparam.lr is missing",
        ),
    ] = None,
) -> ExperimentFilter:
    return ExperimentFilter(
        states=state or (),
        project=project,
        labels=label or (),
        owner=owner,
        text=q,
        archived=archived,
        where=where or (),
    )


Filter = Annotated[ExperimentFilter, Depends(_filter)]


@router.get("/experiments")
def list_experiments(
    session: Read,
    filters: Filter,
    sort: Annotated[
        str,
        Query(
            max_length=MAX_COLUMN_CHARS + 1,
            description="A column; with - before it the largest first. Experiments without a value "
            "come last, NaN before them.",
        ),
    ] = "-created",
    column: Annotated[
        list[ColumnText] | None,
        Query(
            max_length=MAX_COLUMNS,
            description="Columns for `values`: config.<path>, label.<name>, hparam.<name>, "
            "metric.<last|min|max|best>.<name>.",
        ),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[ExperimentOut]:
    """List experiments, newest first unless sorted. Several conditions must all hold."""
    return views.list_experiments(
        session,
        filters,
        cursor=cursor,
        limit=limit,
        now=clock.now(),
        sort=sort,
        columns=column or (),
    )


@router.get("/experiments:schema")
def get_document_schema() -> dict[str, Any]:
    """Return the JSON schema of the experiment document: keys, values, defaults and what they mean.
    Editors complete and explain documents with it."""
    return document_schema()


@router.get("/experiments:count")
def count_experiments(session: Read, filters: Filter) -> ExperimentCountOut:
    """Return the number of experiments that match the filters."""
    return ExperimentCountOut(num_experiments=views.count(session, filters))


@router.get("/experiments:groups")
def group_experiments(
    session: Read,
    filters: Filter,
    by: Annotated[
        str,
        Query(
            max_length=MAX_COLUMN_CHARS,
            description="A column: project, owner, state, config.<path>, label.<name>, "
            "hparam.<name>, …",
        ),
    ],
    column: Annotated[
        list[ColumnText] | None,
        Query(max_length=MAX_COLUMNS, description="Columns of numbers, for statistics."),
    ] = None,
) -> ExperimentGroupsOut:
    """Group the experiments that match the filters by the value of a column, with the mean, minimum
    and maximum of others."""
    return groups.group_experiments(session, filters, by=by, columns=column or ())


@router.get("/experiments:columns")
def list_experiment_columns(
    session: Read, project: Annotated[str | None, Query(max_length=128)] = None
) -> ExperimentColumnsOut:
    """List the columns for which the newest 100 experiments have values."""
    return views.columns_out(session, project)


@router.get("/experiments/{experiment_id}")
def get_experiment(experiment_id: Id, session: Read) -> ExperimentDetail:
    """Return one experiment with its document and resolved configuration."""
    return views.experiment_detail(session, experiment_id, clock.now())


@router.patch("/experiments/{experiment_id}")
def update_experiment(
    experiment_id: Id, body: ExperimentPatch, session: Write, by: By
) -> ExperimentDetail:
    """Change name, notes, labels or priority."""
    submission.update_experiment(session, experiment_id, body, principal=by.principal, now=by.now)
    detail: dict[str, Any] = {"fields": sorted(body.model_dump(exclude_none=True))}
    if body.priority is not None:
        detail["priority"] = body.priority
    note(session, "experiments.changed", experiment_id, by, detail)
    session.flush()
    return views.experiment_detail(session, experiment_id, by.now)


@router.get("/experiments/{experiment_id}/trials")
def list_experiment_trials(
    experiment_id: Id,
    session: Read,
    state: Annotated[list[TrialState] | None, Query(max_length=10)] = None,
    no: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Only this trial.")] = None,
    where: Annotated[
        list[ConditionText] | None,
        Query(
            max_length=MAX_CONDITIONS,
            description="A condition on a column, with blanks: hparam.lr < 0.1",
        ),
    ] = None,
    sort: Annotated[
        str,
        Query(
            max_length=MAX_COLUMN_CHARS + 1,
            description="A column; with - before it the largest first. Columns are no, state, "
            "metric, step, started, ended, elapsed, hparam.<name> and "
            "metric.<last|min|max|best>.<name>.",
        ),
    ] = "no",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[TrialOut]:
    """List the trials of an experiment that meet all conditions; those without a value come last
    when sorted by it."""
    return trials.list_trials(
        session,
        experiment_id,
        states=state or (),
        no=no,
        where=where or (),
        sort=sort,
        cursor=cursor,
        limit=limit,
    )


@router.get("/experiments/{experiment_id}/figures")
def list_experiment_figures(
    experiment_id: Id,
    session: Snapshot,
    no: Annotated[
        list[TrialNo] | None,
        Query(max_length=performance.TRIALS_MAX, description="Numbers of trials; all by default."),
    ] = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=performance.TRIALS_MAX)] = performance.TRIALS_MAX,
) -> Page[FiguresOut]:
    """List how fast the trials of an experiment are: means over the newest 100 rows that each rank
    measured in the current attempt."""
    return performance.list_figures(
        session, experiment_id, nos=no or (), cursor=cursor, limit=limit
    )


@router.get("/experiments/{experiment_id}/events")
def list_experiment_events(
    experiment_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[EventOut]:
    """List the events of an experiment and its trials, newest first."""
    lookup.get_experiment(session, experiment_id)
    about = EventRow.experiment_id == experiment_id
    return list_events(session, about, cursor=cursor, limit=limit)


@router.get("/experiments/{experiment_id}/search/results")
def get_search_results(experiment_id: Id, session: Read) -> SearchResultsOut:
    """Return hyperparameters and best value of every trial, in columns."""
    return results.results_out(session, experiment_id)


@router.get("/experiments/{experiment_id}/search/importance")
def get_search_importance(experiment_id: Id, session: Read) -> ImportanceOut:
    """Return the importance of each hyperparameter (PED-ANOVA), from the latest 10,000 trials with
    a value."""
    return results.importance_out(session, experiment_id)


@router.get("/experiments/{experiment_id}/search")
def get_experiment_search(experiment_id: Id, session: Read) -> SearchOut:
    """Return the search: rungs, the trials on them, and what the next trial must reach."""
    return views.search_out(session, experiment_id)
