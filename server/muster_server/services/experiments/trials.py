"""Trials: what REST shows of them, and stopping one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Row, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster.document.experiment import ExperimentConfig
from muster.wire import Number, decode_number
from muster_server import clock
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    ProcessGroupRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.lifecycle.outcomes import FAILURES
from muster_server.domain.messages import AnyMessage, from_columns
from muster_server.domain.metrics import headline_of, is_headline
from muster_server.domain.scheduling.unsatisfiable import is_impossible
from muster_server.domain.search.methods import WAITING, method_of
from muster_server.domain.states import TERMINAL_TRIAL, TERMINATIONS, RetryClass, TrialState
from muster_server.errors import NotFound
from muster_server.schemas.base import Page, parts_out
from muster_server.schemas.experiments import (
    AttemptOut,
    CheckpointOut,
    MetricSummary,
    NoticeOut,
    ProcessGroupOut,
    ReusedTrialOut,
    TrialDetail,
    TrialOut,
    WorkerOut,
)
from muster_server.security.principal import Principal
from muster_server.services.core.lookup import get_trial

from ..checkpoints import local, lookup, sources
from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from ..core.paging import decode_cursor, encode_cursor, read_page, read_page_of_tuples
from ..runtime import notices, predictions, tracked_runs, waste
from ..scheduling import held_slots
from ..search import reuse
from . import role_members, trial_columns
from .operations import require_managed

SILENT_AFTER_S = 600.0
"""Seconds without a word of its client after which an unmanaged trial is called silent."""
ATTEMPTS_MAX = 200
"""Latest attempts shown with a trial."""

Found = Row[TrialRow, ExperimentRow]


def list_trials(
    session: Session,
    experiment_id: int,
    *,
    states: Sequence[str],
    no: int | None = None,
    where: Sequence[str] = (),
    sort: str,
    cursor: str | None,
    limit: int,
) -> Page[TrialOut]:
    """Return the trials of an experiment that meet all conditions, in the order of a column.

    Those without a value come last in either direction. Raises NotFound, and InvalidRequest for
    what is no column and for more trials than can be put in order by a column without an index.
    """
    experiment = get_experiment(session, experiment_id)
    filters = [
        TrialRow.experiment_id == experiment_id,
        *trial_columns.conditions(where, experiment),
    ]
    if states:
        filters.append(TrialRow.state.in_(states))
    if no is not None:
        filters.append(TrialRow.no == no)
    query = _query().where(*filters)
    column, descending = trial_columns.read_sort(sort), sort.startswith("-")
    if column.text not in ("no", "metric"):
        ids, following = trial_columns.sorted_ids(
            session, experiment, filters, column, descending, cursor=cursor, limit=limit
        )
        found = {row[0].id: row for row in session.execute(query.where(TrialRow.id.in_(ids)))}
        return Page(items=_trials(session, [found[id_] for id_ in ids]), next=following)
    if column.text == "no":
        rows, following = read_page_of_tuples(
            session, query, TrialRow.no, cursor=cursor, limit=limit, newest_first=descending
        )
        return Page(items=_trials(session, rows), next=following)
    rows = session.execute(_page_by_metric(query, cursor, descending).limit(limit + 1)).all()
    last = rows[limit - 1][0] if rows[limit:] else None
    following = encode_cursor(last.metric, last.no) if last else None
    return Page(items=_trials(session, rows[:limit]), next=following)


def trial_out(session: Session, trial_id: int) -> TrialOut:
    """Raises NotFound."""
    return _trials(session, [_one(session, trial_id)])[0]


def trial_detail(session: Session, trial_id: int, *, headline: bool = False) -> TrialDetail:
    """Return a trial with its attempts and configuration.

    headline: include only the headline metrics (domain.metrics.is_headline) and the search's
    metric. Raises NotFound.
    """
    found = _one(session, trial_id)
    trial, experiment = found[0], found[1]
    (out,) = _trials(session, [found], headline=headline)
    return TrialDetail.from_row(
        out,
        desired=trial.desired,
        estimated_start_at=trial.estimated_start_at if trial.state == TrialState.QUEUED else None,
        seed=trial.seed,
        searcher=experiment.config.search.method,
        may_be_sent_on=_may_be_sent_on(trial, experiment),
        metric_name=experiment.metric_name,
        metric_goal=experiment.metric_goal,
        attempts=_attempts(session, trial.id),
        members=role_members.of_attempt(session, trial, experiment.config),
        exit_code=_exit_code(session, trial),
        child_runs=tracked_runs.child_labels(session, [trial.id]).get(trial.id, []),
        config=dump(experiment.config),
        notices=[
            NoticeOut(text=notice.english, parts=parts_out(notice))
            for notice in notices_of(session, trial, experiment.config)
        ],
        waste=waste.notice_out(session, trial),
        keep_until=trial.keep_until,
        prediction=predictions.get_progress(session, trial.id),
    )


def notices_of(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[AnyMessage]:
    """Return what to say at the top of a trial, most serious first."""
    before = [] if trial.state in TERMINAL_TRIAL else reuse.notice(session, trial, config)
    at_risk = local.notice(session, trial) if config.checkpoints.local else None
    return [
        *([at_risk] if at_risk is not None else []),
        *notices.notices(session, trial, config),
        *before,
    ]


def _may_be_sent_on(trial: TrialRow, experiment: ExperimentRow) -> bool:
    search = experiment.config.search
    # Not paused by somebody with the whole experiment.
    is_resting = trial.state == TrialState.PAUSED and trial.desired == "pause"
    return (
        is_resting
        and experiment.desired == "run"
        and method_of(search.method).rule(search) in WAITING
    )


def end_trial(
    session: Session,
    trial_id: int,
    desired: Literal["stop", "kill"],
    *,
    principal: Principal,
    now: dt.datetime,
) -> None:
    """Ask for it to stop, or to be killed. Asked again, or after its end, nothing changes.

    Raises NotFound, and Forbidden for a trial of somebody else.
    """
    trial = get_trial(session, trial_id, lock=True)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    require_charge(session, principal, experiment, is_end=True)
    require_managed(experiment, "stopped" if desired == "stop" else "killed")
    if trial.state in TERMINAL_TRIAL or trial.desired in (desired, "kill"):
        return
    trial.desired = desired
    trial.reason = f"{'Stopped' if desired == 'stop' else 'Killed'} by {principal.name}."
    add_event(
        session,
        f"trial.{desired}_requested",
        f"{desired.capitalize()} requested by {principal.name}.",
        now=now,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no or None,
    )
    touch(session, "loops", f"trial:{trial.id}", f"experiment:{trial.experiment_id}")


def list_workers(
    session: Session, trial_id: int, *, attempt_no: int | None, cursor: str | None, limit: int
) -> Page[WorkerOut]:
    """Workers of an attempt (the current one when None) in order of rank."""
    trial = get_trial(session, trial_id)
    query = (
        select(WorkerRow)
        .where(
            WorkerRow.trial_id == trial_id,
            WorkerRow.attempt_no == (trial.attempt_no if attempt_no is None else attempt_no),
        )
        .order_by(WorkerRow.rank, WorkerRow.id)
        .limit(limit + 1)
    )
    key = decode_cursor(cursor, int, int)
    if key is not None:
        rank, row_id = key
        query = query.where(
            or_(WorkerRow.rank > rank, and_(WorkerRow.rank == rank, WorkerRow.id > row_id))
        )
    rows = list(session.scalars(query))
    following = encode_cursor(rows[limit - 1].rank, rows[limit - 1].id) if rows[limit:] else None
    names = role_members.names_of(session, [row.allocation_id for row in rows[:limit]])
    items = [
        WorkerOut.from_row(
            row,
            latest=_numbers(row.latest),
            member=names.get((row.allocation_id, row.local_rank), ""),
        )
        for row in rows[:limit]
    ]
    return Page(items=items, next=following)


def list_groups(
    session: Session, trial_id: int, *, attempt_no: int | None, cursor: str | None, limit: int
) -> Page[ProcessGroupOut]:
    """Process groups of an attempt (the current one when None), oldest first."""
    trial = get_trial(session, trial_id)
    query = select(ProcessGroupRow).where(
        ProcessGroupRow.trial_id == trial_id,
        ProcessGroupRow.attempt_no == (trial.attempt_no if attempt_no is None else attempt_no),
    )
    rows, following = read_page(session, query, ProcessGroupRow.id, cursor=cursor, limit=limit)
    items = [ProcessGroupOut.from_row(row, size=len(row.ranks)) for row in rows]
    return Page(items=items, next=following)


def list_checkpoints(
    session: Session, trial_id: int, *, cursor: str | None, limit: int
) -> Page[CheckpointOut]:
    """Newest first."""
    trial = sources.trial_with_files(session, get_trial(session, trial_id))
    if trial is None:
        return Page(items=[], next=None)
    query = select(CheckpointRow).where(CheckpointRow.trial_id == trial.id)
    rows, following = read_page(
        session, query, CheckpointRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    best = lookup.best_id(session, trial)
    items = [
        CheckpointOut.from_row(
            row,
            num_files=len(row.files),
            metrics=_numbers(row.metrics),
            is_latest=row.id == trial.latest_checkpoint_id,
            is_best=row.id == best,
        )
        for row in rows
    ]
    return Page(items=items, next=following)


def _query() -> Select[TrialRow, ExperimentRow]:
    return (
        select(TrialRow, ExperimentRow)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(ExperimentRow.deleting_at.is_(None))
    )


def _page_by_metric(
    query: Select[TrialRow, ExperimentRow], cursor: str | None, descending: bool
) -> Select[TrialRow, ExperimentRow]:
    metric = TrialRow.metric
    query = query.order_by(metric.is_(None), metric.desc() if descending else metric, TrialRow.no)
    key = decode_cursor(cursor, (float, int, type(None)), int)
    if key is None:
        return query
    value, no = key
    if value is None:
        return query.where(metric.is_(None), TrialRow.no > no)
    return query.where(
        or_(
            metric.is_(None),
            metric < value if descending else metric > value,
            and_(metric == value, TrialRow.no > no),
        )
    )


def _one(session: Session, trial_id: int) -> Found:
    found = session.execute(_query().where(TrialRow.id == trial_id)).one_or_none()
    if found is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return found


def _trials(session: Session, rows: Sequence[Found], *, headline: bool = False) -> list[TrialOut]:
    ids = [trial.id for trial, _ in rows]
    reported, restarted = _last_reports(session, ids), _num_restarts(session, ids)
    held = held_slots.of_trials(session, ids)
    child_runs = tracked_runs.child_labels(session, ids)
    reused = _reused(session, [trial for trial, _ in rows])
    return [
        _trial(
            trial,
            experiment,
            reported.get(trial.id),
            restarted.get(trial.id, 0),
            held.get(trial.id, 0),
            child_runs.get(trial.id, []),
            reused.get(trial.reused_from or 0),
            headline,
        )
        for trial, experiment in rows
    ]


def _reused(session: Session, trials: Sequence[TrialRow]) -> dict[int, ReusedTrialOut]:
    """Return the trials whose results these take, by id, as far as the caller sees them."""
    ids = {trial.reused_from for trial in trials if trial.reused_from is not None}
    if not ids:
        return {}
    rows = session.execute(_query().where(TrialRow.id.in_(ids)))
    return {trial.id: ReusedTrialOut.from_row(trial) for trial, _ in rows}


def _last_reports(session: Session, trial_ids: Sequence[int]) -> dict[int, dt.datetime]:
    query = (
        select(WorkerRow.trial_id, func.max(WorkerRow.last_report_at))
        .where(WorkerRow.trial_id.in_(trial_ids), WorkerRow.last_report_at.is_not(None))
        .group_by(WorkerRow.trial_id)
    )
    return {trial_id: at for trial_id, at in session.execute(query) if at is not None}


_FAILURES = [
    termination
    for termination, (_, retry) in TERMINATIONS.items()
    if retry in (RetryClass.USER, RetryClass.INFRA)
]


def _num_restarts(session: Session, trial_ids: Sequence[int]) -> dict[int, int]:
    """Return how often each trial was restarted after a failure.

    Attempts that gave up their slots for a preemption, a pause or a drain do not count. Trials
    without a restart are left out.
    """
    query = (
        select(AttemptRow.trial_id, func.count())
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(
            AttemptRow.trial_id.in_(trial_ids),
            AttemptRow.no < TrialRow.attempt_no,
            AttemptRow.termination.in_(_FAILURES),
        )
        .group_by(AttemptRow.trial_id)
    )
    return dict(session.execute(query).all())


def _trial(
    trial: TrialRow,
    experiment: ExperimentRow,
    reported: dt.datetime | None,
    num_restarts: int,
    num_slots_held: int,
    child_runs: Sequence[str],
    source: ReusedTrialOut | None,
    headline: bool,
) -> TrialOut:
    steps = {name: entry["step"] for name, entry in trial.summary.items()}
    name_shown = headline_of(steps, experiment.metric_name, child_runs)
    return TrialOut.from_row(
        trial,
        experiment_id=experiment.id,
        experiment_name=experiment.name,
        pending_parts=parts_out(from_columns(trial.pending_reason, trial.pending_parts)),
        is_impossible=trial.state == TrialState.QUEUED and is_impossible(trial.pending_parts),
        num_slots=experiment.slots_per_trial,
        num_slots_held=num_slots_held,
        num_restarts=num_restarts,
        headline=name_shown,
        summary={
            name: _summary(value)
            for name, value in trial.summary.items()
            if not headline or is_headline(name) or name in (name_shown, experiment.metric_name)
        },
        last_report_at=reported or trial.heard_at,
        unmanaged=experiment.unmanaged,
        is_silent=_is_silent(trial),
        is_reused=trial.reused_from is not None,
        reused_from=source,
    )


def _is_silent(trial: TrialRow) -> bool:
    if trial.state != TrialState.RUNNING or trial.heard_at is None:
        return False
    return (clock.now() - trial.heard_at).total_seconds() > SILENT_AFTER_S


def _summary(value: dict[str, Any]) -> MetricSummary:
    return MetricSummary(
        last=decode_number(value["last"]),
        min=value["min"],
        max=value["max"],
        count=value["count"],
        step=value["step"],
    )


def _numbers(values: dict[str, Number]) -> dict[str, float]:
    return {name: decode_number(value) for name, value in values.items()}


def _exit_code(session: Session, trial: TrialRow) -> int | None:
    """Return the exit code of the process whose failure ended a FAILED trial, as shells give it."""
    if trial.state != TrialState.FAILED:
        return None
    attempt = session.scalar(
        select(AttemptRow).where(AttemptRow.trial_id == trial.id, AttemptRow.no == trial.attempt_no)
    )
    if attempt is None:
        return None
    exits = session.scalars(
        select(AllocationRow.exit)
        .where(AllocationRow.attempt_id == attempt.id, AllocationRow.exit.is_not(None))
        .order_by(AllocationRow.node_rank)
    )
    found = [found for found in exits if found is not None and found["cause"] in FAILURES]
    ends = [info["first_failure"] or info for info in found]
    ends.sort(key=lambda end: end.get("rank") != attempt.root_rank)
    for end in ends:
        if end.get("signal"):
            return 128 + int(end["signal"])
        if end.get("exit_code"):
            return int(end["exit_code"])
    return None


def _attempts(session: Session, trial_id: int) -> list[AttemptOut]:
    """Newest first."""
    rows = list(
        session.scalars(
            select(AttemptRow)
            .where(AttemptRow.trial_id == trial_id)
            .order_by(AttemptRow.no.desc())
            .limit(ATTEMPTS_MAX)
        )
    )
    nodes: dict[int, list[str]] = {}
    for attempt_id, name in session.execute(
        select(AllocationRow.attempt_id, AllocationRow.node_name)
        .where(AllocationRow.attempt_id.in_([row.id for row in rows]))
        .order_by(AllocationRow.node_rank)
    ):
        if name not in nodes.setdefault(attempt_id, []):  # Members of roles may share a node.
            nodes[attempt_id].append(name)
    return [AttemptOut.from_row(row, nodes=nodes.get(row.id, [])) for row in rows]
