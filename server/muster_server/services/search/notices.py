"""What has to be said loudly of a search: trials that failed, and a metric that nobody reported."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import EventRow, ExperimentRow, TrialRow
from muster_server.domain.messages import AnyMessage, Message, sentences, shortened
from muster_server.domain.search.failures import (
    CAUSE_CHARS,
    NAMES_LISTED,
    common_cause,
    nearest_metric,
    own_metrics,
)
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import TrialState

from ..core.events import add_event

METRIC_MISSING = "search.metric_missing"
"""Type of the event, once per search."""
READ_MAX = 1_000
"""Trials that are looked at for what they have in common."""
_WELL = (TrialState.COMPLETED, TrialState.STOPPED_EARLY)


@dataclass(frozen=True)
class NotedTrial:
    """The columns of a trial that its search takes note of when the trial pauses or ends."""

    id: int
    no: int
    experiment_id: int
    attempt_no: int
    state: TrialState
    reason: str
    termination: str | None
    metric: float | None
    num_continued: int
    latest_checkpoint_id: int | None
    hparams_before: dict[str, Any] | None


def metrics_compared(config: ExperimentConfig) -> list[str]:
    """Return the names of the metrics that a search compares its trials by; [] of a single
    training."""
    search = config.search
    if not method_of(search.method).is_search:
        return []
    if search.objectives:
        return [objective.metric for objective in search.objectives]
    return [search.metric] if search.metric else []


def early_cause(session: Session, trial: NotedTrial | TrialRow) -> str:
    """Return why a trial failed, as long as no trial of its experiment has reported anything; else
    ""."""
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    if config is None or config.search.runner == "external":
        return ""
    if has_report(session, trial.experiment_id):
        return ""
    return trial.reason[: 2 * CAUSE_CHARS]


def has_report(session: Session, experiment_id: int) -> bool:
    """Return whether any trial of an experiment has reported anything."""
    reported = (TrialRow.step > 0) | TrialRow.metric.is_not(None)
    anybody = select(TrialRow.id).where(TrialRow.experiment_id == experiment_id, reported).limit(1)
    return session.scalar(anybody) is not None


def warn_without_metric(session: Session, trial: NotedTrial | TrialRow, now: dt.datetime) -> None:
    """Say once per search that a trial ended without a metric that trials are compared by.

    One that failed or was stopped before it reported anything says nothing of the metric's name.
    """
    found = session.execute(
        select(ExperimentRow.config, TrialRow.summary)
        .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
        .where(TrialRow.id == trial.id)
    ).one()
    names = metrics_compared(found.config)
    reported = own_metrics(found.summary or {})
    missing = [name for name in names if name not in (found.summary or {})]
    if not missing or (trial.state != TrialState.COMPLETED and not reported):
        return
    known = select(EventRow.id).where(
        EventRow.experiment_id == trial.experiment_id, EventRow.type == METRIC_MISSING
    )
    if session.scalar(known.limit(1)) is not None:
        return
    metric = missing[0]
    add_event(
        session,
        METRIC_MISSING,
        f"Trial {trial.no} ended without {metric}, by which this search compares trials. "
        f"{what_was_reported(metric, reported).english}",
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no or None,
        data={"metric": metric, "trial_no": trial.no, "reported": list(reported)},
    )


def what_was_reported(metric: str, reported: Sequence[str]) -> Message:
    """Return what a trial reported in place of a metric, and what to do about it."""
    near = nearest_metric(metric, reported)
    if near is not None:
        return Message("search.reported_near", near=near)
    if not reported:
        return Message("search.reported_nothing", metric=metric)
    return Message(
        "search.reported_others", listed=shortened(reported, NAMES_LISTED), metric=metric
    )


def notices(session: Session, experiment: ExperimentRow) -> list[AnyMessage]:
    """Return the notices to show at the top of a search, most serious first; [] for a single
    training."""
    if not method_of(experiment.config.search.method).is_search:
        return []
    found = (_without_metric(session, experiment), _failed(session, experiment))
    return [notice for notice in found if notice is not None]


def _failed(session: Session, experiment: ExperimentRow) -> Message | None:
    states = _count(session, experiment.id)
    num_failed = states.get(TrialState.FAILED, 0)
    if not num_failed:
        return None
    read = session.execute(
        select(TrialRow.no, TrialRow.reason)
        .where(TrialRow.experiment_id == experiment.id, TrialRow.state == TrialState.FAILED)
        .order_by(TrialRow.no)
        .limit(READ_MAX)
    ).all()
    cause = common_cause((row.no, row.reason) for row in read)
    assert cause is not None, "one of them failed"
    total = sum(states.values())
    num_alike, first, reason = len(cause.numbers), cause.numbers[0], cause.reason
    if num_failed == 1:
        return Message(
            "search.one_failed",
            total=total,
            first=first,
            reason=reason,
        )
    if num_alike == num_failed:
        return Message(
            "search.all_failed_alike",
            num=num_failed,
            total=total,
            reason=reason,
        )
    return Message(
        "search.some_failed_alike",
        num=num_failed,
        total=total,
        read=len(read),
        alike=num_alike,
        first=first,
        reason=reason,
    )


def _without_metric(session: Session, experiment: ExperimentRow) -> AnyMessage | None:
    event = session.execute(
        select(EventRow.data)
        .where(EventRow.experiment_id == experiment.id, EventRow.type == METRIC_MISSING)
        .limit(1)
    ).scalar_one_or_none()
    if event is None:
        return None
    has_ended = (TrialRow.state == TrialState.COMPLETED) | (
        (TrialRow.state == TrialState.STOPPED_EARLY) & (TrialRow.step > 0)
    )
    ended = select(func.count(), func.count(TrialRow.metric)).where(
        TrialRow.experiment_id == experiment.id, has_ended
    )
    num_ended, num_valued = session.execute(ended).one()
    metric, reported = event["metric"], event["reported"]
    first = Message(
        "search.without_metric",
        num=num_ended - num_valued,
        total=num_ended,
        metric=metric,
        first=event["trial_no"],
    )
    return sentences(first, what_was_reported(metric, reported))


def unjudged(session: Session, experiment_id: int, finish_reason: str) -> str:
    """Return why a finished search found nothing although trials completed; "" if at least one
    trial reported the metric that they are compared by.

    finish_reason: the searcher's reason, used if trials failed before any had reported.
    """
    config = session.scalar(select(ExperimentRow.config).where(ExperimentRow.id == experiment_id))
    if config is None or not method_of(config.search.method).is_search:
        return ""
    if _count(session, experiment_id).get(TrialState.FAILED) and not has_report(
        session, experiment_id
    ):
        return _capital(finish_reason)
    names = metrics_compared(config)
    if not names:
        return ""
    with session.execute(
        select(TrialRow.no, TrialRow.summary)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.state.in_(_WELL))
        .order_by(TrialRow.no)
        .execution_options(yield_per=READ_MAX)
    ) as rows:  # which ends the database's cursor, also where not every row is read
        first: Mapping[str, Any] | None = None
        first_no = 0
        for row in rows:
            if all(name in (row.summary or {}) for name in names):
                return ""
            if first is None:
                first, first_no = row.summary or {}, row.no
    if first is None:
        return ""
    missing = next((name for name in names if name not in first), names[0])
    reported = what_was_reported(missing, own_metrics(first))
    return (
        f"No trial reported {missing}, by which this search compares trials. Trial {first_no}: "
        f"{reported.english}"
    ).rstrip(".")


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _count(session: Session, experiment_id: int) -> dict[str, int]:
    query = (
        select(TrialRow.state, func.count())
        .where(TrialRow.experiment_id == experiment_id)
        .group_by(TrialRow.state)
    )
    return dict(session.execute(query).all())
