"""Between trials and their searcher: what it hears, and carrying out what it decides.

Hearing (`on_metrics`, `on_trial_terminal`) appends to search_events in the transaction that stored
the cause; deciding (`run_search`) consumes them in order, in one transaction with its effects. A
natural key makes an event that is delivered twice count once.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import ScalarResult, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_server.db.engine import touch
from muster_server.db.models import EventRow, ExperimentRow, SearchEventRow, TrialRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.search import (
    EXACT,
    PROGRESS,
    Action,
    ContinueTrial,
    CreateTrial,
    Event,
    Finish,
    PauseTrial,
    Rested,
    ResumeTrial,
    Searcher,
    StopTrial,
    TrialEnded,
    Unit,
    Validated,
    action_to_json,
    event_from_json,
    event_to_json,
)
from muster_server.domain.search.events import Outcome
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL, TrialState

from .documents import search_spec
from .events import add_event

EVENTS_PER_RUN = 1_000
_EPSILON = 1e-6
_APPEND_TRIES = 20

_OUTCOMES: dict[str, Outcome] = {
    TrialState.COMPLETED: "completed",
    TrialState.STOPPED_EARLY: "stopped",
    TrialState.FAILED: "failed",
    TrialState.CANCELED: "canceled",
}


class MetricUpdate(Protocol):
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


# ---------------------------------------------------------------- hearing


def on_metrics(
    session: Session, trial: TrialRow, updates: Sequence[MetricUpdate], now: dt.datetime
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
    _note_best(session, trial, [u.value for u in mine], experiment.metric_goal or "min")
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


def _units(metric: MetricUpdate, unit: Unit) -> float | None:
    """How far the trial was when it reported this; None: it did not say."""
    if unit == "steps":
        return metric.step
    return metric.epoch if unit == "epochs" else metric.progress.get(unit)


def on_trial_terminal(session: Session, trial: TrialRow, now: dt.datetime) -> None:
    """Take note that a trial has ended for good. Called again, it changes nothing."""
    # One that was continued ends once more.
    key = f"ended:{trial.no}" + (f":{trial.num_continued}" if trial.num_continued else "")
    event = TrialEnded(
        trial_no=trial.no,
        outcome=_OUTCOMES[trial.state],
        value=trial.metric,
        values=_objectives(session, trial),
        key=key,
    )
    append(session, trial.experiment_id, key, event, now)


def _objectives(session: Session, trial: TrialRow) -> tuple[float, ...] | None:
    """The last value of each objective, where there are several and all were reported."""
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    names = [o["metric"] for o in (config or {})["search"].get("objectives") or ()]
    if not names:
        return None
    summary = session.scalar(select(TrialRow.summary).where(TrialRow.id == trial.id)) or {}
    if any(name not in summary for name in names):
        return None
    return tuple(decode_number(summary[name]["last"]) for name in names)


def on_trial_paused(
    session: Session, trial: TrialRow, now: dt.datetime, *, again: str = ""
) -> None:
    """Take note that a trial has given up its slots, where a population waits for that.

    again: makes it another event of the same attempt.
    """
    config = session.scalar(
        select(ExperimentRow.config).where(ExperimentRow.id == trial.experiment_id)
    )
    if config is None or config["search"]["method"] != "pbt":
        return
    key = f"rested:{trial.no}:{trial.attempt_no}{again}"
    event = Rested(trial_no=trial.no, checkpoint_id=trial.latest_checkpoint_id, key=key)
    append(session, trial.experiment_id, key, event, now)


def _hear_target(
    session: Session,
    trial: TrialRow,
    updates: Sequence[MetricUpdate],
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


def _note_best(session: Session, trial: TrialRow, values: Sequence[float], goal: str) -> None:
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return
    best = max(finite) if goal == "max" else min(finite)
    if trial.metric is not None and (
        best <= trial.metric if goal == "max" else best >= trial.metric
    ):
        return
    trial.metric = best
    is_better = (
        ExperimentRow.best_metric < best if goal == "max" else ExperimentRow.best_metric > best
    )
    session.flush()  # the trial before the experiment, always: two locks, one order
    result = session.execute(
        update(ExperimentRow)
        .where(
            ExperimentRow.id == trial.experiment_id,
            or_(ExperimentRow.best_metric.is_(None), is_better),
        )
        .values(best_metric=best, best_trial_id=trial.id)
        .execution_options(synchronize_session=False)
    )
    if getattr(result, "rowcount", 0):
        touch(session, "experiments", f"experiment:{trial.experiment_id}")


def _heard_units(session: Session, trial: TrialRow, marks: Sequence[int]) -> int:
    """The largest of `marks` the searcher has heard of for this trial, 0 when there is none."""
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
    carrier = PROGRESS.get(unit)
    what, how = "an epoch", "Report the epoch"
    if carrier is not None:
        what, how = f"{carrier} with it or before", f"Log {carrier}"
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


# ---------------------------------------------------------------- deciding


class Raced(Exception):
    """Somebody else changed the search meanwhile: roll back, the next pass starts afresh."""


def waiting_experiments(session: Session, limit: int) -> list[int]:
    """Experiments with events their searcher has not consumed."""
    query = (
        select(ExperimentRow.id)
        .where(
            ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
            select(SearchEventRow.seq)
            .where(
                SearchEventRow.experiment_id == ExperimentRow.id,
                SearchEventRow.seq > ExperimentRow.search_seq,
            )
            .exists(),
        )
        .order_by(ExperimentRow.id)
        .limit(limit)
    )
    return list(session.scalars(query))


def run_search(session: Session, experiment_id: int, now: dt.datetime) -> list[str]:
    """Let one searcher consume its events; the reasons of what it decided, for the log.

    Raises Raced when the experiment changed while deciding; the transaction must be rolled back.
    """
    experiment = session.get(ExperimentRow, experiment_id, populate_existing=True)
    if experiment is None or experiment.search_state is None:
        return []
    rows = session.scalars(
        select(SearchEventRow)
        .where(
            SearchEventRow.experiment_id == experiment_id,
            SearchEventRow.seq > experiment.search_seq,
        )
        .order_by(SearchEventRow.seq)
        .limit(EVENTS_PER_RUN)
    ).all()
    if not rows:
        return []
    searcher = Searcher.from_state(experiment.search_state)
    decided: list[Action] = []
    if experiment.desired in ("stop", "kill"):
        decided += searcher.close("stopped by a user")
    elif experiment.exhausted_reason:
        decided += searcher.close(experiment.exhausted_reason)
    for row in rows:
        actions = searcher.apply(event_from_json(row.event))
        row.actions = [action_to_json(action) for action in actions]
        decided += actions
    carry_out(session, experiment, decided, now)
    save_search(session, experiment, searcher, rows[-1].seq)
    return [f"experiment {experiment_id}: {describe(action)}" for action in decided]


def carry_out(
    session: Session, experiment: ExperimentRow, actions: Sequence[Action], now: dt.datetime
) -> None:
    """Make trials and stop requests of a searcher's decisions. Trials are locked first."""
    stops = {a.no: a.reason for a in actions if isinstance(a, StopTrial)}
    if stops:
        _stop_early(session, experiment, stops, now)
    pauses = {a.no: a.reason for a in actions if isinstance(a, PauseTrial)}
    resumes = {a.no: a.reason for a in actions if isinstance(a, ResumeTrial)}
    if pauses or resumes:
        _pause_and_resume(session, experiment, pauses, resumes, now)
    again = {a.no: a.reason for a in actions if isinstance(a, ContinueTrial)}
    if again:
        _continue(session, experiment, again, now)
    new = [_trial_row(experiment, a, now) for a in actions if isinstance(a, CreateTrial)]
    session.add_all(new)
    session.flush()
    for trial in new:
        add_event(
            session,
            "trial.created",
            f"Trial {trial.no} is queued."
            if trial.parent_no is None
            else f"Trial {trial.no} is queued: a clone of trial {trial.parent_no}.",
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
        )
    for action in actions:
        if isinstance(action, Finish):
            add_event(
                session,
                "search.finished",
                f"The search is finished: {action.reason}.",
                now=now,
                experiment_id=experiment.id,
            )
    if actions:
        touch(session, "experiments", f"experiment:{experiment.id}", "cluster", "loops")


def save_search(
    session: Session, experiment: ExperimentRow, searcher: Searcher, search_seq: int
) -> None:
    """Store what a searcher knows now. Raises Raced when the stored search is not the one read."""
    session.flush()
    result = session.execute(
        update(ExperimentRow)
        .where(
            ExperimentRow.id == experiment.id,
            ExperimentRow.search_seq == experiment.search_seq,
            ExperimentRow.desired == experiment.desired,
            ExperimentRow.exhausted_reason == experiment.exhausted_reason,
        )
        .values(search_state=searcher.state(), search_seq=search_seq)
        .execution_options(synchronize_session=False)
    )
    if getattr(result, "rowcount", 0) != 1:
        raise Raced


def describe(action: Action) -> str:
    if isinstance(action, CreateTrial):
        return f"create {action.reason}"
    if isinstance(action, StopTrial):
        return f"stop trial {action.no}: {action.reason}"
    if isinstance(action, PauseTrial):
        return f"pause trial {action.no}: {action.reason}"
    if isinstance(action, ResumeTrial):
        return f"send trial {action.no} on: {action.reason}"
    if isinstance(action, ContinueTrial):
        return f"continue trial {action.no}: {action.reason}"
    return f"finish: {action.reason}"


def _locked(
    session: Session, experiment: ExperimentRow, numbers: Iterable[int]
) -> ScalarResult[TrialRow]:
    """These trials as they are now, kept so until the transaction ends."""
    return session.scalars(
        select(TrialRow)
        .where(TrialRow.experiment_id == experiment.id, TrialRow.no.in_(numbers))
        .order_by(TrialRow.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def _stop_early(
    session: Session, experiment: ExperimentRow, stops: dict[int, str], now: dt.datetime
) -> None:
    for trial in _locked(session, experiment, stops):
        if trial.state in TERMINAL_TRIAL or trial.desired not in ("run", "pause"):
            continue
        trial.desired = "early"
        trial.reason = f"Stopped early: {stops[trial.no]}."
        add_event(
            session,
            "trial.stopped_early",
            trial.reason,
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )
        touch(session, f"trial:{trial.id}")


def _pause_and_resume(
    session: Session,
    experiment: ExperimentRow,
    pauses: dict[int, str],
    resumes: dict[int, str],
    now: dt.datetime,
) -> None:
    """Let trials wait at their rung without slots, or go on from it."""
    ended: dict[int, str] = {}
    for trial in _locked(session, experiment, {*pauses, *resumes}):
        is_resumed = trial.no in resumes
        if trial.state in TERMINAL_TRIAL:
            # Stopped together with the search, which goes on.
            if is_resumed and trial.state == TrialState.CANCELED:
                ended[trial.no] = resumes[trial.no]
            continue
        if trial.desired != ("pause" if is_resumed else "run"):
            continue
        trial.desired = "run" if is_resumed else "pause"
        if not is_resumed and trial.state == TrialState.PAUSED:
            # By a user, before its last reports arrived: there is nothing left to wait for.
            on_trial_paused(session, trial, now, again=":already")
        if is_resumed:
            trial.reason = f"Sent on: {resumes[trial.no]}."
        else:
            trial.reason = f"Paused: {pauses[trial.no]}."
        add_event(
            session,
            "trial.sent_on" if is_resumed else "trial.paused_at_rung",
            trial.reason,
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )
        touch(session, f"trial:{trial.id}")
    if ended:
        _continue(session, experiment, ended, now)


def _continue(
    session: Session, experiment: ExperimentRow, again: dict[int, str], now: dt.datetime
) -> None:
    """Put ended trials back into the queue, behind those that wait already, with fresh restarts."""
    for trial in _locked(session, experiment, again):
        if trial.state not in TERMINAL_TRIAL:
            continue
        before = trial.state
        trial.state, trial.desired = TrialState.QUEUED, "run"
        trial.waiting_since, trial.queue_no = now, now.timestamp()
        trial.num_continued += 1
        trial.failures_user = trial.failures_infra = trial.no_progress = 0
        trial.not_before = trial.ended_at = trial.termination = None
        trial.pending_reason, trial.logs_complete, trial.flags = "", False, []
        trial.reason = f"continued after it was {before}"
        add_event(
            session,
            "trial.state",
            f"Trial {trial.no} is QUEUED: {trial.reason}.",
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
            data={"before": before, "after": "QUEUED"},
        )
        touch(session, f"trial:{trial.id}")


def _trial_row(experiment: ExperimentRow, action: CreateTrial, now: dt.datetime) -> TrialRow:
    values: dict[str, Any] = {
        "experiment_id": experiment.id,
        "source_checkpoint_id": action.checkpoint_id
        or (experiment.source or {}).get("checkpoint_id"),
        "parent_no": action.parent_no,
        "point": action.point,
        "generation": action.generation,
        "no": action.no,
        "hparams": action.hparams,
        "seed": action.seed,
        "state": TrialState.QUEUED,
        "queued_at": now,
        "created_at": now,
    }
    if experiment.config["search"].get("runner") == "external":
        values["is_external"] = True
        values["pending_reason"] = "Waits until somebody asks for it."
    return TrialRow(**values)
