"""Guards of running trials: the values they have not judged yet, and carrying out what they decide."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session, load_only

from muster.document.guards import GuardAction, GuardSection
from muster.series_rules import STEP_MAX
from muster.wire import encode_number
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    GuardStatesRow,
    NodeRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.queries.metrics import SeriesRecord, chunked, find_series, insert_or_ignore
from muster_server.domain.checkpoints.continuation import samples_after
from muster_server.domain.guards.changes import change
from muster_server.domain.guards.deciding import GuardDecision, TrialGuards
from muster_server.domain.guards.judging import (
    Firing,
    GuardState,
    GuardValue,
    RankTimes,
    close_attempt,
    from_plain,
    to_plain,
)
from muster_server.domain.guards.late import late_rank
from muster_server.domain.insight.waiting import MIN_SHARE_UNEXPLAINED
from muster_server.domain.lifecycle.avoidance import avoid
from muster_server.domain.lifecycle.avoidance import from_plain as avoided_from_plain
from muster_server.domain.lifecycle.avoidance import to_plain as avoided_to_plain
from muster_server.domain.messages import Message, count, sentences
from muster_server.domain.scheduling.nodes import could_hold
from muster_server.domain.scheduling.resources import request_for
from muster_server.domain.states import (
    TERMINAL_EXPERIMENT,
    AttemptState,
    ExperimentState,
    NodeState,
    TrialState,
    YieldKind,
)

from ..checkpoints import continuation, lookup
from ..core.events import add_event
from ..core.writes import Outdated, require_one
from ..metrics import loading
from ..metrics.curves import CurveSegment
from ..metrics.export import next_points
from ..scheduling.preemption import MAY_YIELD, ask_to_yield
from ..scheduling.snapshot import load_nodes

TRIALS_PER_PASS = 200
LATE_STEPS = 20
"""Steps in which a rank must have held up the others for its node to be the one that is left out."""
EXPOSED, STEP_TIME = "comm/exposed_ms", "time/step_ms"
POINTS_PER_PASS = 10_000
"""Values of a guard that one pass judges; the rest is left to the next one."""

GUARDED = (TrialState.STARTING, TrialState.RUNNING, TrialState.QUEUED, TrialState.RETRY_WAIT)
"""States in which guards act. The last values of an attempt may come when it has ended."""
_IS_GUARDED = (
    TrialRow.state.in_(GUARDED),
    TrialRow.attempt_no > 0,
    ExperimentRow.id == TrialRow.experiment_id,
    ExperimentRow.num_guards > 0,
)
ANY_GUARDED = exists(
    select(ExperimentRow.id).where(
        ExperimentRow.state.in_(set(ExperimentState) - TERMINAL_EXPERIMENT),
        ExperimentRow.num_guards > 0,
    )
)


# ---------------------------------------------------------------- what is new


def load_new(
    session: Session, *, after: int, listening_since: dt.datetime, now: dt.datetime
) -> list[TrialGuards]:
    """Return the guarded trials with an id above `after`, TRIALS_PER_PASS at most, with what is new.

    listening_since: steps before may have been made and not heard of.
    """
    rows = session.execute(
        select(TrialRow, ExperimentRow)
        .options(
            load_only(TrialRow.attempt_no, TrialRow.state, TrialRow.step, TrialRow.progress_at),
            load_only(ExperimentRow.config),
        )
        .where(*_IS_GUARDED, TrialRow.id > after)
        .order_by(TrialRow.id)
        .limit(TRIALS_PER_PASS)
    ).all()
    ids = [trial.id for trial, _ in rows]
    names = {name for _, found in rows for guard in found.config.guards for name in reads(guard)}
    series: dict[tuple[int, str], list[SeriesRecord]] = {}
    if rows:
        for record in find_series(session, ids, names=sorted(names)):
            series.setdefault((record.trial_id, record.name), []).append(record)
    stored = {
        row.trial_id: row
        for some in chunked(ids)
        for row in session.scalars(select(GuardStatesRow).where(GuardStatesRow.trial_id.in_(some)))
    }
    found = []
    for trial, experiment in rows:
        guards, row = experiment.config.guards, stored.get(trial.id)
        states = tuple(from_plain(row.states if row is not None else (), len(guards)))
        # Guards of one metric are mostly equally far.
        read: dict[tuple[tuple[str, ...], int, int], list[GuardValue]] = {}
        points = []
        for guard, state in zip(guards, states, strict=True):
            key = reads(guard), state.attempt_no, state.step
            if key not in read:
                records = [r for name in reads(guard) for r in series.get((trial.id, name), ())]
                read[key] = read_new(session, guard, records, state, POINTS_PER_PASS).points
            points.append(read[key])
        is_timed = any(guard.no_step_for_min is not None for guard in guards)
        quiet = _quiet(session, trial, listening_since, now) if is_timed else None
        found.append(
            TrialGuards(
                trial_id=trial.id,
                attempt_no=trial.attempt_no,
                version=row.version if row is not None else 0,
                guards=guards,
                states=states,
                points=tuple(points),
                step=trial.step,
                quiet_s=quiet.seconds if quiet is not None else None,
                is_starting=quiet is not None and quiet.is_starting,
            )
        )
    return found


@dataclass
class StoredPoints:
    points: list[GuardValue] = field(default_factory=list)
    is_cut: bool = False
    """There are more."""
    missing: str = ""
    """Why nothing can be judged, as the end of a sentence."""


def reads(guard: GuardSection) -> tuple[str, ...]:
    """Return the names of the metrics that a guard is about; () for the time since the last step."""
    if guard.straggler is not None:
        return EXPOSED, STEP_TIME
    return (guard.metric,) if guard.metric is not None else ()


def read_new(
    session: Session,
    guard: GuardSection,
    records: Sequence[SeriesRecord],
    state: GuardState,
    most: int,
) -> StoredPoints:
    """Return the next values of the metrics of a guard that it has not judged, `most` at most."""
    read = _read_ranks if guard.straggler is not None else read_points
    return read(session, records, state, most)


def _read_ranks(
    session: Session, records: Sequence[SeriesRecord], state: GuardState, most: int
) -> StoredPoints:
    """Return what the ranks have measured, attempt by attempt and step by step, up to the last step
    that all of them have reported. An attempt of which a rank has measured nothing is left out."""
    found = StoredPoints(missing="no worker has measured its communication")
    attempts: dict[int, dict[int, dict[str, SeriesRecord]]] = {}
    for record in records:
        of = attempts.setdefault(record.attempt_no, {})
        of.setdefault(record.rank, {})[record.name] = record
    sizes = _world_sizes(session, records[0].trial_id) if records else {}
    for no, of in sorted(attempts.items()):
        if no < state.attempt_no:
            continue
        ranks = sorted(rank for rank, pair in of.items() if len(pair) == 2)
        size = sizes.get(no, len(of))
        if len(ranks) < size or size < 2:
            found.missing = f"{len(ranks)} of {count(size, 'worker')} measured its communication"
            if size < 2:
                found.missing = "the trial has one worker, and nobody waits for it"
            continue
        pairs = [(rank, of[rank][EXPOSED], of[rank][STEP_TIME]) for rank in ranks]
        # Of earlier attempts `last_step` is the last one that is shown.
        last = STEP_MAX
        if no == max(attempts):
            last = min(record.last_step for _, *pair in pairs for record in pair)
        position = state.step + 1 if no == state.attempt_no else 0
        while position <= last:
            room = max(most // len(ranks), 1) - len(found.points)
            if room <= 0:
                found.is_cut = True
                return found
            leading, end = next_points(session, CurveSegment(pairs[0][2], position, last), position)
            if len(leading) > room:
                end = int(leading.steps[room - 1])
            found.points += _by_step(session, no, pairs, position, end)
            position = end + 1
    return found


def _by_step(
    session: Session,
    attempt_no: int,
    pairs: Sequence[tuple[int, SeriesRecord, SeriesRecord]],
    first: int,
    last: int,
) -> list[GuardValue]:
    segments = [CurveSegment(record, first, last) for _, *pair in pairs for record in pair]
    loaded = loading.load(session, segments, [1] * len(segments))
    series = [loading.entries_of(session, parts, 1) for parts in loaded]
    rows: dict[int, list[tuple[int, RankTimes]]] = {}
    for (rank, _, _), exposed, steps in zip(pairs, series[::2], series[1::2], strict=True):
        exposed_ms = dict(zip(exposed["step"].tolist(), exposed["last"].tolist(), strict=True))
        columns = (steps["step"].tolist(), steps["time_ms"].tolist(), steps["last"].tolist())
        for step, time_ms, ms in zip(*columns, strict=True):
            # Rows of steps whose communication was not recorded have no part of it.
            if (of := exposed_ms.get(step)) is not None:
                rows.setdefault(step, []).append((time_ms, RankTimes(rank, of, ms)))
    return [
        GuardValue(attempt_no, step, times[0][0], 0.0, tuple(one for _, one in times))
        for step, times in sorted(rows.items())
    ]


def _world_sizes(session: Session, trial_id: int) -> dict[int, int]:
    """Return the number of workers of each attempt of a trial."""
    found = session.execute(
        select(WorkerRow.attempt_no, func.max(WorkerRow.world_size).label("size"))
        .where(WorkerRow.trial_id == trial_id)
        .group_by(WorkerRow.attempt_no)
    )
    return {row.attempt_no: row.size for row in found}


def read_points(
    session: Session, records: Sequence[SeriesRecord], state: GuardState, most: int
) -> StoredPoints:
    """Return the next values of a metric that were not judged, `most` at most, attempt by attempt, each
    of the lowest rank that reports it. Values that a later attempt has replaced are among them."""
    found = StoredPoints()
    lowest: dict[int, SeriesRecord] = {}
    for record in sorted(records, key=lambda r: (r.attempt_no, r.rank)):
        if record.attempt_no >= state.attempt_no:
            lowest.setdefault(record.attempt_no, record)
    for no, record in lowest.items():
        position = state.step + 1 if no == state.attempt_no else 0
        if no == max(lowest) and record.last_step < position:
            continue  # Of earlier attempts it is the last step that is shown.
        while position <= STEP_MAX:
            if len(found.points) >= most:
                found.is_cut = True
                del found.points[most:]
                return found
            segment = CurveSegment(record, position, STEP_MAX)
            piece, end = next_points(session, segment, position)
            columns = (piece.steps.tolist(), piece.times_ms.tolist(), piece.values.tolist())
            found.points += [GuardValue(no, *values) for values in zip(*columns, strict=True)]
            position = end + 1
    return found


@dataclass(frozen=True)
class _Quiet:
    seconds: float
    is_starting: bool


def _quiet(
    session: Session, trial: TrialRow, listening_since: dt.datetime, now: dt.datetime
) -> _Quiet | None:
    """Return for how long a running attempt has made no step; None if it does not run, is to leave, or
    one of its nodes is not heard, so that nobody knows."""
    if trial.state != TrialState.RUNNING:
        return None
    started_at = session.scalar(
        select(AttemptRow.started_at).where(
            AttemptRow.trial_id == trial.id,
            AttemptRow.no == trial.attempt_no,
            AttemptRow.state == AttemptState.RUNNING,
            AttemptRow.yield_kind.is_(None),
        )
    )
    states = session.scalars(
        select(NodeRow.state)
        .join(AllocationRow, AllocationRow.node_id == NodeRow.id)
        .where(AllocationRow.trial_id == trial.id, AllocationRow.attempt_no == trial.attempt_no)
    ).all()
    if started_at is None or not states or any(state != NodeState.ONLINE for state in states):
        return None
    since = max(filter(None, (started_at, trial.progress_at, listening_since)))
    is_starting = trial.progress_at is None or trial.progress_at < started_at
    return _Quiet((now - since).total_seconds(), is_starting)


# ---------------------------------------------------------------- what is done


@dataclass(frozen=True)
class _Effect:
    says: tuple[Message, ...] = ()
    """What is done, in sentences."""
    ends_attempt: bool = False
    data: dict[str, Any] = field(default_factory=dict)


def carry_out(session: Session, decision: GuardDecision, *, now: dt.datetime) -> None:
    """Store what the guards of a trial have seen, and do what follows from it.

    Raises Outdated, and then nothing must be committed, when another controller has judged the same
    values, or the trial is in another attempt, or has ended.
    """
    of, states = decision.of, list(decision.states)
    trial = session.get_one(TrialRow, of.trial_id, populate_existing=True)
    if trial.attempt_no != of.attempt_no or trial.state not in GUARDED:
        raise Outdated(f"trial {of.trial_id} is not in attempt {of.attempt_no} any more")
    is_ending = False
    for no, firing in decision.firings:
        guard = of.guards[no]
        reason = f"guard {no + 1}: {firing.reason.english}"
        effect = (
            _Effect((Message("guard.ending"),))
            if is_ending
            else _act(session, trial, guard, guard.action, firing, reason, now)
        )
        is_ending = is_ending or effect.ends_attempt
        fired = Message("guard.fired", guard=no + 1, step=firing.step, why=firing.reason)
        add_event(
            session,
            "guard.fired",
            sentences(fired, *effect.says),
            now=now,
            level="warning",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=firing.attempt_no,
            data={
                "guard": no + 1,
                "step": firing.step,
                "value": encode_number(firing.value),
                "limit": firing.limit,
                "action": guard.action,
                **effect.data,
            },
        )
    if is_ending:
        states = [close_attempt(state, of.attempt_no) for state in states]
    session.execute(
        insert_or_ignore(session, GuardStatesRow),
        {"trial_id": trial.id, "version": 0, "states": []},
    )
    require_one(
        session,
        update(GuardStatesRow)
        .where(GuardStatesRow.trial_id == trial.id, GuardStatesRow.version == of.version)
        .values(version=of.version + 1, states=to_plain(states))
        .execution_options(synchronize_session=False),
        f"the values of trial {trial.id} were judged before",
    )
    if decision.firings:
        touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}", "loops")


def _act(
    session: Session,
    trial: TrialRow,
    guard: GuardSection,
    action: GuardAction,
    firing: Firing,
    reason: str,
    now: dt.datetime,
) -> _Effect:
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    if action == "notify":
        return _Effect()
    if trial.desired != "run" or experiment.desired != "run":
        return _Effect((Message("guard.leaving"),))
    act = functools.partial(_act, session, trial, guard, guard.otherwise, firing, reason, now)
    if action == "rollback":
        return _roll_back(session, trial, guard, firing, reason, now) or _instead(
            act(), Message("guard.no_checkpoint")
        )
    if action == "restart_elsewhere":
        return _restart_elsewhere(session, trial, experiment, firing, reason, now) or _instead(
            act(), Message("guard.no_node")
        )
    desired = "kill" if action == "stop" else "stop"
    _change(session, trial, desired=desired, guard_reason=reason)
    return _Effect((Message("guard.stopped"),), ends_attempt=True)


def _instead(effect: _Effect, why: Message) -> _Effect:
    return dataclasses.replace(effect, says=(why, *effect.says))


def _roll_back(
    session: Session,
    trial: TrialRow,
    guard: GuardSection,
    firing: Firing,
    reason: str,
    now: dt.datetime,
) -> _Effect | None:
    """Let the trial start again from a checkpoint from before the trouble; None if there is none."""
    if firing.before_step is None:
        return None
    own = lookup.newest_before(session, trial.id, firing.before_step)
    if own is None and trial.source_checkpoint_id is None:
        return None
    hparams, changed = change(trial.hparams, guard)
    values: dict[str, Any] = {
        "rolled_back_attempt": trial.attempt_no,
        "rolled_back_step": own.step if own is not None else -1,
        "latest_checkpoint_id": own.id if own is not None else None,
    }
    if changed:
        values["hparams"] = hparams
        values["hparams_before"] = trial.hparams_before or trial.hparams
    num_skipped = 0
    if guard.skip_samples and own is not None:
        told = continuation.read(session, trial)
        num_skipped = samples_after(told, own.step, num_steps=firing.step - own.step) or 0
    # Going back there once more, it has skipped some already.
    again = own is not None and trial.rolled_back_attempt and own.step == trial.rolled_back_step
    values["skipped_samples"] = num_skipped + (trial.skipped_samples if again else 0)
    _end_attempt(session, trial, reason, now)
    _change(session, trial, **values)
    back = Message("guard.goes_back", step=own.step) if own else Message("guard.goes_to_source")
    new_values = (
        Message("guard.changed", name=name, new=f"{new}", old=f"{old}")
        for name, (old, new) in changed.items()
    )
    says = [back, *new_values]
    data = {"checkpoint_step": own.step if own else None, "changed": changed}
    if guard.skip_samples and own is not None:
        skips = Message("guard.skips", num=num_skipped) if num_skipped else None
        says.append(skips or Message("guard.skips_none"))
        data["num_skipped"] = num_skipped
    return _Effect(tuple(says), ends_attempt=True, data=data)


def _restart_elsewhere(
    session: Session,
    trial: TrialRow,
    experiment: ExperimentRow,
    firing: Firing,
    reason: str,
    now: dt.datetime,
) -> _Effect | None:
    """Let the trial start again without the node of the rank that the others wait for, or without all
    nodes of its attempt if none is known; None if no others fit."""
    is_current = firing.attempt_no == trial.attempt_no
    late = _late_worker(session, trial, firing.rank if is_current else None)
    here = (
        {late.node_name}
        if late is not None
        else set(
            session.scalars(
                select(AllocationRow.node_name).where(
                    AllocationRow.trial_id == trial.id, AllocationRow.attempt_no == trial.attempt_no
                )
            )
        )
    )
    gone = (NodeState.LOST, NodeState.REMOVED)
    others = [n for n in load_nodes(session) if n.name not in here and n.state not in gone]
    config = experiment.config
    if not could_hold(request_for(config), others):
        return None
    avoided, _ = avoid(
        avoided_from_plain(trial.avoided), sorted(here), reason, now=now, for_long=True
    )
    _end_attempt(session, trial, reason, now)
    _change(session, trial, avoided=avoided_to_plain(avoided))
    nodes = ", ".join(sorted(here))
    says = (
        Message("guard.leaves_late", nodes=nodes, rank=late.rank)
        if late is not None
        else Message("guard.leaves", nodes=nodes)
    )
    return _Effect((says,), ends_attempt=True, data={"nodes": sorted(here)})


def _late_worker(session: Session, trial: TrialRow, rank: int | None) -> WorkerRow | None:
    """Return the worker of a rank; None: of the one that the others have waited for in the last steps,
    if one stands out."""
    no = trial.attempt_no
    if rank is None:
        records = find_series(session, [trial.id], attempt_no=no, names=[EXPOSED, STEP_TIME])
        segments = [CurveSegment(r, r.last_step - LATE_STEPS, STEP_MAX) for r in records]
        loaded = loading.load(session, segments, [1] * len(segments))
        ms: dict[str, dict[int, float]] = {EXPOSED: {}, STEP_TIME: {}}
        for record, parts in zip(records, loaded, strict=True):
            values = loading.entries_of(session, parts, 1)["last"]
            if len(values):
                ms[record.name][record.rank] = float(values.mean())
        found = late_rank(ms[EXPOSED], ms[STEP_TIME])
        if found is None or found[1] < MIN_SHARE_UNEXPLAINED:
            return None
        rank, _ = found
    return session.scalar(
        select(WorkerRow).where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == no, WorkerRow.rank == rank
        )
    )


def _end_attempt(session: Session, trial: TrialRow, reason: str, now: dt.datetime) -> None:
    """Ask the current attempt for its slots, unless it has ended or leaves already."""
    attempt = session.execute(
        select(AttemptRow.id, AttemptRow.state, AttemptRow.yield_kind).where(
            AttemptRow.trial_id == trial.id, AttemptRow.no == trial.attempt_no
        )
    ).one()
    if attempt.state in MAY_YIELD and attempt.yield_kind is None:
        ask_to_yield(session, attempt.id, kind=YieldKind.GUARD, reason=reason, now=now)


def _change(session: Session, trial: TrialRow, **values: Any) -> None:
    require_one(
        session,
        update(TrialRow)
        .where(
            TrialRow.id == trial.id,
            TrialRow.attempt_no == trial.attempt_no,
            TrialRow.state.in_(GUARDED),
            TrialRow.desired == "run",
        )
        .values(values)
        .execution_options(synchronize_session=False),
        f"trial {trial.id} is not as its guards saw it any more",
    )
