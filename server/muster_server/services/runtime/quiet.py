"""Trials that run, print nothing and make no step: said once per silence, with their stacks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import String, cast, exists, func, or_, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    EventRow,
    ExperimentRow,
    LogChunkRow,
    LogStreamRow,
    NodeRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.messages import Message
from muster_server.domain.runtime.stuck import QUIET_AFTER_S, is_worth_saying
from muster_server.domain.states import (
    TERMINAL_TRIAL,
    AllocationState,
    AttemptState,
    NodeState,
    TrialState,
)

from ..core.events import add_event
from .progress import ask_for_stacks

QUIET = "QUIET"
"""Flag of a trial that is quiet."""
EVENT = "trial.quiet"
MESSAGE = Message("script.quiet")

_IS_FLAGGED = cast(TrialRow.flags, String).contains(f'"{QUIET}"')


@dataclass(frozen=True, kw_only=True)
class QuietChange:
    """A trial that has become quiet, or has not been so for a while."""

    trial_id: int
    attempt_no: int
    is_quiet: bool


def find_changes(session: Session, *, now: dt.datetime) -> list[QuietChange]:
    """Return the trials whose flag is to be set or removed."""
    limit = now - dt.timedelta(seconds=QUIET_AFTER_S)
    has_moved = exists().where(
        WorkerRow.trial_id == TrialRow.id,
        WorkerRow.attempt_no == TrialRow.attempt_no,
        WorkerRow.moved_at > limit,
    )
    has_printed = exists().where(
        LogStreamRow.trial_id == TrialRow.id,
        LogStreamRow.attempt_no == TrialRow.attempt_no,
        LogChunkRow.stream_id == LogStreamRow.id,
        LogChunkRow.received_at > limit,
    )
    is_silent = (
        (AttemptRow.state == AttemptState.RUNNING)
        & (AttemptRow.started_at <= limit)
        & or_(TrialRow.progress_at.is_(None), TrialRow.progress_at <= limit)
        & ~has_moved
        & ~has_printed
    )
    rows = session.execute(
        select(TrialRow.id, AttemptRow.no, AttemptRow.started_at, _IS_FLAGGED, is_silent)
        .join(
            AttemptRow,
            (AttemptRow.trial_id == TrialRow.id) & (AttemptRow.no == TrialRow.attempt_no),
        )
        .where(TrialRow.state.not_in(TERMINAL_TRIAL), or_(_IS_FLAGGED, is_silent))
    ).all()
    found = []
    for trial_id, attempt_no, started_at, is_flagged, silent in rows:
        if is_flagged and not silent:
            found.append(QuietChange(trial_id=trial_id, attempt_no=attempt_no, is_quiet=False))
        elif not is_flagged and _is_new(session, trial_id, attempt_no, started_at, now):
            found.append(QuietChange(trial_id=trial_id, attempt_no=attempt_no, is_quiet=True))
    return found


def _is_new(
    session: Session,
    trial_id: int,
    attempt_no: int,
    started_at: dt.datetime | None,
    now: dt.datetime,
) -> bool:
    trial = session.get_one(TrialRow, trial_id)
    config = session.get_one(ExperimentRow, trial.experiment_id).config
    if config.serve is not None or config.session is not None:
        return False  # It waits for requests, or for somebody who works in it.
    running = (
        AllocationRow.trial_id == trial_id,
        AllocationRow.attempt_no == attempt_no,
        AllocationRow.observed == AllocationState.RUNNING,
    )
    states = session.scalars(
        select(NodeRow.state)
        .join(AllocationRow, AllocationRow.node_id == NodeRow.id)
        .where(*running)
    ).all()
    if not states or any(state != NodeState.ONLINE for state in states):
        return False  # What is not heard may have printed.
    said = session.scalar(
        select(func.count()).where(
            EventRow.trial_id == trial_id,
            EventRow.attempt_no == attempt_no,
            EventRow.type == EVENT,
        )
    )
    quiet_s = (now - _active_at(session, trial, started_at)).total_seconds()
    return is_worth_saying(quiet_s, num_said=said or 0)


def _active_at(session: Session, trial: TrialRow, started_at: dt.datetime | None) -> dt.datetime:
    """Return when the current attempt last printed something or made a step."""
    newest = (
        select(func.max(LogChunkRow.received_at))
        .where(LogChunkRow.stream_id == LogStreamRow.id)
        .correlate(LogStreamRow)
        .scalar_subquery()
    )
    printed = session.scalars(
        select(newest).where(
            LogStreamRow.trial_id == trial.id, LogStreamRow.attempt_no == trial.attempt_no
        )
    )
    moved = session.scalars(
        select(WorkerRow.moved_at).where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no
        )
    )
    times = [started_at, trial.progress_at, *printed, *moved]
    found: list[dt.datetime] = [at for at in times if at is not None]
    return max(found)


def note(session: Session, change: QuietChange, *, now: dt.datetime) -> bool:
    """Set or remove the flag of a trial; say it and have its stacks taken when it is set. False: it
    was done already."""
    trial = session.get_one(TrialRow, change.trial_id, with_for_update=True)
    others = [flag for flag in trial.flags if flag != QUIET]
    if trial.attempt_no != change.attempt_no or change.is_quiet == (len(others) < len(trial.flags)):
        return False
    trial.flags = [*others, QUIET] if change.is_quiet else others
    if change.is_quiet:
        ask_for_stacks(session, trial)
        add_event(
            session,
            EVENT,
            f"Trial {trial.no}: {MESSAGE.english}",
            now=now,
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no,
        )
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}", "experiments")
    return True


def quiet_experiments(session: Session, experiment_ids: Sequence[int]) -> set[int]:
    """Return those of the experiments of which a trial that runs is quiet."""
    return set(
        session.scalars(
            select(TrialRow.experiment_id)
            .where(
                TrialRow.experiment_id.in_(experiment_ids),
                TrialRow.state == TrialState.RUNNING,
                _IS_FLAGGED,
            )
            .distinct()
        )
    )
