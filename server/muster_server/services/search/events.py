"""What searchers hear of their trials: their values at rungs, their rests and ends.

Appended to search_events in the transaction that stored the cause. A natural key makes an event that
is delivered twice count once. See `search` for what is decided then.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from muster.document.searching import Unit
from muster.wire import decode_number
from muster_server.db.engine import touch
from muster_server.db.models import EventRow, ExperimentRow, SearchEventRow, TrialRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.search import (
    CARRIERS,
    EXACT,
    Event,
    Rested,
    TrialEnded,
    Validated,
    event_to_json,
)
from muster_server.domain.search.events import Outcome
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import TERMINAL_TRIAL, Termination, TrialState

from ..core.events import add_event
from ..documents import search_spec
from . import notices
from .notices import NotedTrial

_EPSILON = 1e-6
_APPEND_TRIES = 20

_OUTCOMES: dict[str, Outcome] = {
    TrialState.COMPLETED: "completed",
    TrialState.STOPPED_EARLY: "stopped",
    TrialState.FAILED: "failed",
    TrialState.CANCELED: "canceled",
}


class ObservedMetric(Protocol):
    """A new value, as services.metrics.ingest returns it."""

    @property
    def name(self) -> str: ...
    @property
    def step(self) -> int: ...
    @property
    def epoch(self) -> float | None: ...
    @property
    def value(self) -> float: ...
    @property
    def progress(self) -> Mapping[Unit, float]: ...


def on_metrics(
    session: Session, trial: TrialRow, updates: Sequence[ObservedMetric], now: dt.datetime
) -> None:
    """Take note of new values of the search metric (other names are ignored).

    Keeps the best value of the trial and of the experiment. The searcher hears of the first value
    at or after each rung, of the first one past max_length, and of the first that reaches the
    target; not of every value, because a metric may be reported at every step. Samples and seconds
    are a little past max_length when they reach it: past it is then the next report.
    """
    experiment = session.execute(
        select(ExperimentRow.metric_name, ExperimentRow.metric_goal, ExperimentRow.config).where(
            ExperimentRow.id == trial.experiment_id
        )
    ).one()
    mine = [u for u in updates if u.name == experiment.metric_name]
    if not mine:
        return
    note_best(session, trial, [u.value for u in mine], now)
    if trial.state in TERMINAL_TRIAL:
        return
    spec = search_spec(experiment.config)
    if spec.target is not None:
        _hear_target(session, trial, mine, spec.target, spec.goal, now)
    if spec.max_units is None or spec.unit is None:
        return
    is_exact = spec.unit in EXACT
    marks = spec.marks if is_exact else sorted({*spec.marks, spec.max_units})
    heard = _heard_units(session, trial, [*marks, spec.max_units + 1])
    for metric in mine:
        units = _units(metric, spec.unit)
        if units is None:
            _warn_no_units(session, trial, metric.name, spec.unit, now)
            continue
        # One number per thing to hear of: the rung's units, or one more than max_length.
        reached = [mark for mark in marks if units >= mark - _EPSILON]
        if units > spec.max_units + _EPSILON:
            if is_exact or heard >= spec.max_units:
                reached.append(spec.max_units + 1)
            else:
                units = float(spec.max_units)
        if not reached or reached[-1] <= heard:
            continue
        heard = reached[-1]
        key = f"validation:{trial.no}:{heard}"
        event = Validated(trial_no=trial.no, units=units, value=metric.value, key=key)
        append(session, trial.experiment_id, key, event, now)


def _units(metric: ObservedMetric, unit: Unit) -> float | None:
    """Return how far the trial was when it reported the metric; None if it did not say."""
    if unit == "steps":
        return metric.step
    if unit == "epochs" and metric.epoch is not None:
        return metric.epoch
    return metric.progress.get(unit)


def on_trial_terminal(session: Session, trial: NotedTrial | TrialRow, now: dt.datetime) -> None:
    """Take note that a trial has ended for good. Called again, it changes nothing."""
    # One that was continued ends once more.
    key = f"ended:{trial.no}" + (f":{trial.num_continued}" if trial.num_continued else "")
    outcome = _outcome(trial)
    counts = _counts(session, trial)
    event = TrialEnded(
        trial_no=trial.no,
        outcome=outcome,
        value=trial.metric if counts else None,
        values=_objectives(session, trial) if counts else None,
        cause=notices.early_cause(session, trial) if outcome == "failed" else "",
        key=key,
    )
    append(session, trial.experiment_id, key, event, now)
    if trial.metric is None and outcome in ("completed", "stopped", "failed"):
        notices.warn_without_metric(session, trial, now)


def _outcome(trial: NotedTrial | TrialRow) -> Outcome:
    is_invalid = trial.termination == Termination.INVALID_HPARAMS
    return "invalid" if is_invalid else _OUTCOMES[trial.state]


def _counts(session: Session, trial: NotedTrial | TrialRow) -> bool:
    """Return whether the result of a trial counts for its search: it does not when a guard has changed
    its hyperparameters and the document says so."""
    if not trial.hparams_before:
        return True
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    return config is None or config.search.use_guarded


def _objectives(session: Session, trial: NotedTrial | TrialRow) -> tuple[float, ...] | None:
    """Return the last value of each objective, where there are several and all were reported."""
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    names = [o.metric for o in (config.search.objectives if config is not None else None) or ()]
    if not names:
        return None
    summary = session.scalar(select(TrialRow.summary).where(TrialRow.id == trial.id)) or {}
    if any(name not in summary for name in names):
        return None
    return tuple(decode_number(summary[name]["last"]) for name in names)


def on_trial_paused(session: Session, trial: NotedTrial | TrialRow, now: dt.datetime) -> None:
    """Take note that a trial has given up its slots, where a population waits for that.

    Called again, it is heard again: a trial may rest twice without an attempt in between.
    """
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    if config is None or method_of(config.search.method).explore is None:
        return
    kind = f"rested:{trial.no}:"
    before = select(func.count()).where(
        SearchEventRow.experiment_id == trial.experiment_id, SearchEventRow.key.startswith(kind)
    )
    key = f"{kind}{session.scalar(before)}"
    event = Rested(trial_no=trial.no, checkpoint_id=trial.latest_checkpoint_id, key=key)
    append(session, trial.experiment_id, key, event, now)


def _hear_target(
    session: Session,
    trial: TrialRow,
    updates: Sequence[ObservedMetric],
    target: float,
    goal: str,
    now: dt.datetime,
) -> None:
    for metric in updates:
        is_reached = metric.value >= target if goal == "max" else metric.value <= target
        if is_reached and math.isfinite(metric.value):
            key = f"target:{trial.no}"
            # Of no length: it stands on no rung.
            event = Validated(trial_no=trial.no, units=0, value=metric.value, key=key)
            append(session, trial.experiment_id, key, event, now)
            return


def note_best(session: Session, trial: TrialRow, values: Sequence[float], now: dt.datetime) -> None:
    """Store the best visible value of the trial, and that of the experiment. An event says when
    another trial than before has the best value."""
    experiment = session.execute(
        select(ExperimentRow.metric_name, ExperimentRow.metric_goal).where(
            ExperimentRow.id == trial.experiment_id
        )
    ).one()
    goal = experiment.metric_goal or "min"
    if trial.attempt_no > 1:
        # What this attempt says may supersede the best value of an earlier one.
        best = trial.summary[experiment.metric_name]["max" if goal == "max" else "min"]
    else:
        known = [] if trial.metric is None else [trial.metric]
        finite = [*known, *(v for v in values if math.isfinite(v))]
        best = (max if goal == "max" else min)(finite, default=None)
    if best == trial.metric:
        return
    was = trial.metric
    trial.metric = best
    if best is None or (was is not None and (best < was if goal == "max" else best > was)):
        _note_worse(session, trial, goal)
        return
    is_better = (
        ExperimentRow.best_metric < best if goal == "max" else ExperimentRow.best_metric > best
    )
    session.flush()  # the trial before the experiment, always: two locks, one order
    former = session.execute(
        select(ExperimentRow.best_trial_id, ExperimentRow.best_metric).where(
            ExperimentRow.id == trial.experiment_id
        )
    ).one()
    result = session.execute(
        update(ExperimentRow)
        .where(
            ExperimentRow.id == trial.experiment_id,
            or_(ExperimentRow.best_metric.is_(None), is_better),
        )
        .values(best_metric=best, best_trial_id=trial.id)
        .execution_options(synchronize_session=False)
    )
    if not getattr(result, "rowcount", 0):
        return
    touch(session, "experiments", f"experiment:{trial.experiment_id}")
    if former.best_trial_id not in (None, trial.id):
        add_event(
            session,
            "experiment.new_best",
            f"Trial {trial.no} has the best {experiment.metric_name} so far: {best:.6g}, before "
            f"{former.best_metric:.6g}.",
            now=now,
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )


def _note_worse(session: Session, trial: TrialRow, goal: str) -> None:
    """Store which trial of the experiment is the best one now that this one was worse than known."""
    session.flush()
    table = TrialRow
    best = session.execute(
        select(table.id, table.metric)
        .where(table.experiment_id == trial.experiment_id, table.metric.is_not(None))
        .order_by(table.metric.desc() if goal == "max" else table.metric, table.no)
        .limit(1)
    ).first()
    session.execute(
        update(ExperimentRow)
        .where(ExperimentRow.id == trial.experiment_id, ExperimentRow.best_trial_id == trial.id)
        .values(
            best_metric=best.metric if best is not None else None,
            best_trial_id=best.id if best is not None else None,
        )
        .execution_options(synchronize_session=False)
    )
    touch(session, "experiments", f"experiment:{trial.experiment_id}")


def _heard_units(session: Session, trial: TrialRow, marks: Sequence[int]) -> int:
    """Return the largest of `marks` the searcher has heard of for this trial, 0 when there is
    none."""
    marks_by_key = {f"validation:{trial.no}:{mark}": mark for mark in marks}
    keys = session.scalars(
        select(SearchEventRow.key).where(
            SearchEventRow.experiment_id == trial.experiment_id,
            SearchEventRow.key.in_(marks_by_key),
        )
    )
    return max((marks_by_key[key] for key in keys), default=0)


def _warn_no_units(
    session: Session, trial: TrialRow, name: str, unit: Unit, now: dt.datetime
) -> None:
    kind = "search.metric_without_length"
    known = select(EventRow.id).where(EventRow.trial_id == trial.id, EventRow.type == kind).limit(1)
    if session.scalar(known) is not None:
        return
    carrier = CARRIERS[unit]
    what, how = f"{carrier} with it or before", f"Log {carrier}"
    if unit == "epochs":
        what, how = "an epoch", "Report the epoch, or log a metric named epoch"
    add_event(
        session,
        kind,
        f"{name} was reported without {what}, but search.max_length is in {unit}: such values are "
        f"not judged. {how}, or use {{steps: ...}}.",
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no,
    )
    session.flush()


_OF = SearchEventRow.experiment_id == bindparam("of")
_HEARD = select(SearchEventRow.seq).where(_OF, SearchEventRow.key == bindparam("known"))
_LAST_HEARD = select(func.max(SearchEventRow.seq)).where(_OF)


def append(session: Session, experiment_id: int, key: str, event: Event, now: dt.datetime) -> None:
    """Let the searcher of an experiment hear of `event`, once per key."""
    session.flush()
    connection = session.connection()
    for _ in range(_APPEND_TRIES):
        if connection.scalar(_HEARD, {"of": experiment_id, "known": key}):
            return
        last = connection.scalar(_LAST_HEARD, {"of": experiment_id}) or 0
        heard = connection.execute(
            insert_or_ignore(session, SearchEventRow),
            {
                "experiment_id": experiment_id,
                "seq": last + 1,
                "key": key,
                "event": event_to_json(event),
                "actions": [],
                "at": now,
            },
        )
        if heard.rowcount == 0:
            continue  # another trial of the experiment was appended meanwhile
        touch(session, "loops")
        return
    raise RuntimeError(f"experiment {experiment_id}: no free search event number")
