"""Experiments as REST shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, Select, and_, case, exists, func, or_, select
from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster_server.db.models import (
    ExperimentRow,
    MetricSeriesRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.lifecycle.outcomes import DOUBTFUL
from muster_server.domain.messages import AnyMessage, from_columns
from muster_server.domain.metrics import headline_of
from muster_server.domain.search import Searcher
from muster_server.domain.search.methods import method_of
from muster_server.domain.search.ranking import RungEntry
from muster_server.domain.states import TERMINAL_TRIAL, ExperimentState, TrialState
from muster_server.errors import NotFound
from muster_server.schemas.base import Page, parts_out
from muster_server.schemas.cluster import RunningWarningOut
from muster_server.schemas.experiments import (
    ExperimentColumnOut,
    ExperimentColumnsOut,
    ExperimentDetail,
    ExperimentOut,
    HeadlineOut,
    NoticeOut,
    OrderedExperimentOut,
    RungOut,
    RungTrial,
    SearchOut,
)

from ..core.lookup import get_experiment
from ..lifecycle import dependencies
from ..quota import budgets, spending
from ..runtime import quiet, tracked_runs
from ..scheduling import held_slots
from ..search import notices
from ..search.standstill import AT_REST, standstill
from . import columns as experiment_columns
from . import forks, order
from .filters import ExperimentFilter, conditions
from .trials import notices_of
from .unsaved import unsaved_work

RUNG_TRIALS_MAX = 300
"""Trials shown per rung; of more, the best RUNG_BEST and others evenly by rank. All are counted."""
RUNG_BEST = 150
WARNINGS_SHOWN = 20
BEFORE_SHOWN = 20
"""Experiments shown that wait for another; all are counted."""


def list_experiments(
    session: Session,
    filters: ExperimentFilter,
    *,
    cursor: str | None,
    limit: int,
    now: dt.datetime,
    sort: str = "-created",
    columns: Sequence[str] = (),
) -> Page[ExperimentOut]:
    """Return a page in the order of `sort`, with the values of `columns`. Raises InvalidRequest."""
    wanted = experiment_columns.read_columns(columns)
    ids, following = order.sorted_ids(
        session, conditions(filters), sort, cursor=cursor, limit=limit
    )
    found = {row[0].id: row for row in session.execute(_query().where(ExperimentRow.id.in_(ids)))}
    rows = [found[id_] for id_ in ids]
    values = experiment_columns.values_of(session, [row[0] for row in rows], wanted)
    items = [
        ExperimentOut(**fields, values=values[fields["id"]])
        for fields in _fields(session, rows, now)
    ]
    return Page(items=items, next=following)


def count(session: Session, filters: ExperimentFilter) -> int:
    """Return the number of experiments that match all filters. Raises InvalidRequest."""
    counted = (
        select(func.count())
        .select_from(ExperimentRow)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id, isouter=True)
        .where(*conditions(filters))
    )
    return session.scalar(counted) or 0


def columns_out(session: Session, project: str | None) -> ExperimentColumnsOut:
    """Return the columns that can tell the newest experiments apart."""
    found, num = experiment_columns.choice(session, project)
    return ExperimentColumnsOut(
        items=[ExperimentColumnOut(column=c, num_experiments=n) for c, n in found.items()],
        num_searched=num,
    )


def running_warnings(session: Session, now: dt.datetime) -> tuple[list[RunningWarningOut], int]:
    """Return the newest WARNINGS_SHOWN running experiments that report a non-finite value or stand still, and
    how many there are."""
    is_running = (
        ExperimentRow.state == ExperimentState.RUNNING,
        ExperimentRow.deleting_at.is_(None),
    )
    # Few of what runs: whose summaries are read, and which searches are asked.
    diverges = exists().where(
        TrialRow.experiment_id == ExperimentRow.id,
        TrialRow.state == TrialState.RUNNING,
        MetricSeriesRow.trial_id == TrialRow.id,
        MetricSeriesRow.last_text != "",
    )
    moves = exists().where(
        TrialRow.experiment_id == ExperimentRow.id, TrialRow.state.not_in(AT_REST)
    )
    may_stand = and_(ExperimentRow.search_state.is_not(None), ~moves)
    rows = session.scalars(
        select(ExperimentRow)
        .where(*is_running, or_(diverges, may_stand))
        .order_by(ExperimentRow.id.desc())
    ).all()
    ids = [row.id for row in rows]
    trials, shown = _count_trials(session, ids), _shown_trials(session, ids)
    found = []
    for row in rows:
        counted = trials.get(row.id, _Trials())
        metric = _non_finite_metric(row, shown.get(row.id))
        still = standstill(session, row, counted.by_state, now) if counted.by_state else None
        if metric is not None or still is not None:
            found.append(
                RunningWarningOut(
                    experiment_id=row.id,
                    experiment_name=row.name,
                    only_trial_id=_only_trial_id(row, counted),
                    non_finite_metric=metric,
                    standstill=_notice_out(still) if still is not None else None,
                )
            )
    return found[:WARNINGS_SHOWN], len(found)


def experiment_out(session: Session, experiment_id: int, now: dt.datetime) -> ExperimentOut:
    """Raises NotFound."""
    return ExperimentOut(**_fields(session, [_one(session, experiment_id)], now)[0])


def experiment_detail(session: Session, experiment_id: int, now: dt.datetime) -> ExperimentDetail:
    """Raises NotFound."""
    found = _one(session, experiment_id)
    (fields,) = _fields(session, [found], now)
    row: ExperimentRow = found[0]
    spent = spending.of_experiment(session, experiment_id, now)
    waiting = dependencies.waiting_for(session, experiment_id)
    return ExperimentDetail(
        **fields,
        notices=[
            *([fields["standstill"]] if fields["standstill"] is not None else ()),
            *(
                _notice_out(notice)
                for notice in (*notices.notices(session, row), *_trial_notices(session, row))
            ),
        ],
        document=row.document,
        overrides=row.overrides,
        config=dump(row.config),
        blob_sha256=row.blob_sha256,
        left_out=row.left_out or [],
        spending=budgets.spending_out(spent),
        budget=budgets.budget_out(
            session,
            f"experiment:{row.id}",
            row.budget,
            spent,
            since=row.created_at,
            exhausted=from_columns(row.exhausted_reason, row.exhausted_parts),
            now=now,
        ),
        parent=forks.parent_out(session, row),
        unsaved=unsaved_work(session, [row.id], now),
        num_children=forks.num_children(session, row.id),
        after=_ordered(session, [(entry.experiment, entry.when) for entry in row.config.after]),
        before=_ordered(session, waiting[:BEFORE_SHOWN]),
        num_before=len(waiting),
        num_continued=row.num_continued,
    )


def _notice_out(notice: AnyMessage) -> NoticeOut:
    return NoticeOut(text=notice.english, parts=parts_out(notice))


def _ordered(session: Session, entries: Sequence[tuple[int, str]]) -> list[OrderedExperimentOut]:
    """Return the other ends of `after`, in the order given."""
    found = {
        id: (name, state)
        for id, name, state in session.execute(
            select(ExperimentRow.id, ExperimentRow.name, ExperimentRow.state).where(
                ExperimentRow.id.in_([id for id, _ in entries]), ExperimentRow.deleting_at.is_(None)
            )
        )
    }
    return [
        OrderedExperimentOut.model_validate({"id": id, "when": when, "name": name, "state": state})
        for id, when in entries
        for name, state in [found.get(id, (None, None))]
    ]


def _trial_notices(session: Session, experiment: ExperimentRow) -> list[AnyMessage]:
    """Return the notices about the only trial of a single training; [] for a search."""
    if method_of(experiment.config.search.method).is_search:
        return []
    trial = session.scalar(select(TrialRow).where(TrialRow.experiment_id == experiment.id).limit(1))
    return [] if trial is None else notices_of(session, trial, experiment.config)


def search_out(session: Session, experiment_id: int) -> SearchOut:
    """Return the search with its rungs, as its searcher knows them now. Raises NotFound."""
    experiment = get_experiment(session, experiment_id)
    assert experiment.search_state is not None, f"experiment {experiment_id} has no search"
    searcher = Searcher.from_state(experiment.search_state)
    spec = searcher.spec
    ids: dict[int, int] = {}
    completed: set[int] = set()
    if searcher.rungs:
        rows = session.execute(
            select(TrialRow.no, TrialRow.id, TrialRow.state).where(
                TrialRow.experiment_id == experiment_id
            )
        ).all()
        ids = {row.no: row.id for row in rows}
        completed = {row.no for row in rows if row.state == TrialState.COMPLETED}

    def outran(entry: RungEntry) -> bool:
        return entry.goes_on is False and entry.trial_no in completed

    return SearchOut.from_row(
        spec,
        finish_reason=searcher.finish_reason,
        metric_name=spec.metric,
        metric_goal=spec.goal if spec.metric else None,
        num_trials_planned=spec.trials,
        num_trials_created=searcher.num_created,
        finished=searcher.is_finished,
        rungs=[
            RungOut(
                bracket=searcher.standings.place(index)[0],
                index=searcher.standings.place(index)[1],
                units=spec.rungs[index],
                cutoff=searcher.cutoff(index),
                num_trials=len(searcher.rungs[index]),
                num_promoted=sum(entry.goes_on is True for entry in searcher.rungs[index]),
                num_outran=sum(map(outran, searcher.rungs[index])),
                trials=[
                    RungTrial(
                        trial_id=ids[entry.trial_no],
                        trial_no=entry.trial_no,
                        metric=entry.value,
                        promoted=entry.goes_on is True,
                        stopped=entry.goes_on is False and not outran(entry),
                        outran=outran(entry),
                    )
                    for entry in thinned(searcher.standings.ranking(index))
                    if entry.trial_no in ids
                ],
            )
            for index in range(len(searcher.rungs))
        ],
    )


def thinned(ranked: Sequence[RungEntry]) -> list[RungEntry]:
    """At most RUNG_TRIALS_MAX of these, in their order: the first RUNG_BEST, and of the others the
    first, the last and what lies evenly between them."""
    if len(ranked) <= RUNG_TRIALS_MAX:
        return list(ranked)
    rest, num = ranked[RUNG_BEST:], RUNG_TRIALS_MAX - RUNG_BEST
    return [*ranked[:RUNG_BEST], *(rest[i * (len(rest) - 1) // (num - 1)] for i in range(num))]


Found = Row[ExperimentRow, str, str]


def _query() -> Select[ExperimentRow, str, str]:
    return (
        select(ExperimentRow, ProjectRow.name, UserRow.username)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id, isouter=True)
    )


def _one(session: Session, experiment_id: int) -> Found:
    query = _query().where(ExperimentRow.id == experiment_id, ExperimentRow.deleting_at.is_(None))
    found = session.execute(query).one_or_none()
    if found is None:
        raise NotFound("experiments.not_found", f"There is no experiment {experiment_id}.")
    return found


@dataclass
class _Trials:
    """What is counted over the trials of one experiment."""

    by_state: dict[str, int] = field(default_factory=dict)
    first_id: int | None = None
    done: float = 0.0
    """Trials' worth of finished work; a trial that ended counts whole, however it ended."""
    worked: float = 0.0
    """Trials' worth of finished work, where failed and canceled trials count only for the steps
    they took."""
    num_measurable: int = 0
    """Trials that have ended or say how many steps they plan."""


def _fields(session: Session, rows: Sequence[Found], now: dt.datetime) -> list[dict[str, Any]]:
    trials = _count_trials(session, [row[0].id for row in rows])
    shown = _shown_trials(session, [row[0].id for row in rows])
    held = held_slots.of_experiments(session, [row[0].id for row in rows])
    silent = quiet.quiet_experiments(session, [row[0].id for row in rows])
    still = {
        row[0].id: _notice_out(notice)
        for row in rows
        if row[0].id in trials
        and (notice := standstill(session, row[0], trials[row[0].id].by_state, now)) is not None
    }
    return [
        {
            **_experiment(*row, trials.get(row[0].id, _Trials()), shown.get(row[0].id)),
            "num_slots_held": held.get(row[0].id, 0),
            "standstill": still.get(row[0].id),
            "is_quiet": row[0].id in silent,
        }
        for row in rows
    ]


@dataclass(frozen=True)
class _Shown:
    """The trial that stands for an experiment: its best one, or its first."""

    id: int
    state: TrialState
    summary: Mapping[str, Any]
    child_runs: Sequence[str]


def _shown_trials(session: Session, experiment_ids: Sequence[int]) -> dict[int, _Shown]:
    """Return, by experiment ID, the trial that stands for it. Experiments without one are left out."""
    shown = experiment_columns.Shown
    query = (
        select(ExperimentRow.id, shown.id, shown.state, shown.summary)
        .join(shown, experiment_columns.shown_trial())
        .where(ExperimentRow.id.in_(experiment_ids))
    )
    found = session.execute(query).all()
    child_runs = tracked_runs.child_labels(session, [id for _, id, _, _ in found])
    return {
        experiment_id: _Shown(id, TrialState(state), summary, child_runs.get(id, ()))
        for experiment_id, id, state, summary in found
    }


def _headline(row: ExperimentRow, shown: _Shown | None) -> HeadlineOut | None:
    if shown is None:
        return None
    steps = {name: entry["step"] for name, entry in shown.summary.items()}
    name = headline_of(steps, row.metric_name, shown.child_runs)
    if name is None:
        return None
    entry = shown.summary[name]
    is_greatest = name == row.metric_name and row.metric_goal == "max"
    return HeadlineOut(
        name=name,
        trial_id=shown.id,
        last=entry["last"],
        best=entry["max" if is_greatest else "min"],
        step=entry["step"],
    )


def _non_finite_metric(row: ExperimentRow, shown: _Shown | None) -> str | None:
    """Return a metric of the single running trial whose last value is NaN or infinite.

    Of several such metrics it returns a loss if there is one, else the first by name.
    """
    if shown is None or row.config.search.trials != 1 or shown.state != TrialState.RUNNING:
        return None
    # Numbers that JSON cannot hold are stored as text.
    names = [name for name, entry in shown.summary.items() if isinstance(entry["last"], str)]
    return min(names, key=lambda name: (not name.endswith("loss"), name), default=None)


def _experiment(
    row: ExperimentRow,
    project: str,
    owner: str | None,
    trials: _Trials,
    shown: _Shown | None,
) -> dict[str, Any]:
    search, resources = row.config.search, row.config.resources
    planned = search.trials
    return {
        "id": row.id,
        "name": row.name,
        "project": project,
        "owner": owner,
        "purpose": row.purpose,
        "unmanaged": row.unmanaged,
        "labels": row.labels,
        "notes": row.notes,
        "state": row.state,
        "desired": row.desired,
        "reason": row.reason,
        "is_doubtful": row.state == ExperimentState.COMPLETED and DOUBTFUL in (row.reason or ""),
        "termination": row.termination,
        "searcher": search.method,
        "metric_name": row.metric_name,
        "metric_goal": row.metric_goal,
        "best_metric": row.best_metric,
        "best_trial_id": row.best_trial_id,
        "headline": _headline(row, shown),
        "non_finite_metric": _non_finite_metric(row, shown),
        "num_trials": sum(trials.by_state.values()),
        "num_trials_by_state": trials.by_state,
        "num_trials_planned": planned,
        "slots_per_trial": row.slots_per_trial,
        "slot_type": resources.slot_type,
        "pool": resources.pool,
        "priority": row.priority,
        "progress": _progress(row.state, planned, trials),
        "only_trial_id": _only_trial_id(row, trials),
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "archived_at": row.archived_at,
    }


def _only_trial_id(row: ExperimentRow, trials: _Trials) -> int | None:
    return trials.first_id if row.config.search.trials == 1 else None


def _progress(state: str, planned: int | None, trials: _Trials) -> float | None:
    if state == ExperimentState.COMPLETED:
        return 1.0
    if not planned:
        return None
    if state in (ExperimentState.FAILED, ExperimentState.CANCELED):
        return min(trials.worked / planned, 1.0)
    running = sum(
        n for s, n in trials.by_state.items() if s not in (*TERMINAL_TRIAL, TrialState.QUEUED)
    )
    if trials.num_measurable == 0 and running:
        return None
    return min(trials.done / planned, 1.0)


def _count_trials(session: Session, experiment_ids: Sequence[int]) -> dict[int, _Trials]:
    ended = TrialRow.state.in_(TERMINAL_TRIAL)
    finished = TrialRow.state.in_((TrialState.COMPLETED, TrialState.STOPPED_EARLY))
    share = TrialRow.step * 1.0 / TrialRow.num_steps_planned
    worked = case(
        (TrialRow.num_steps_planned > 0, case((share > 1.0, 1.0), else_=share)), else_=0.0
    )
    measurable = case((ended, 1), (TrialRow.num_steps_planned > 0, 1), else_=0)
    query = (
        select(
            TrialRow.experiment_id,
            TrialRow.state,
            func.count(),
            func.min(TrialRow.id),
            func.sum(case((ended, 1.0), else_=worked)),
            func.sum(case((finished, 1.0), else_=worked)),
            func.sum(measurable),
        )
        .where(TrialRow.experiment_id.in_(experiment_ids))
        .group_by(TrialRow.experiment_id, TrialRow.state)
        .order_by(TrialRow.experiment_id, TrialRow.state)
    )
    counted: dict[int, _Trials] = {}
    for experiment_id, state, count, first_id, done, part, num_measurable in session.execute(query):
        trials = counted.setdefault(experiment_id, _Trials())
        trials.by_state[state] = count
        trials.first_id = first_id if trials.first_id is None else min(trials.first_id, first_id)
        trials.done += float(done)
        trials.worked += float(part)
        trials.num_measurable += num_measurable
    return counted
