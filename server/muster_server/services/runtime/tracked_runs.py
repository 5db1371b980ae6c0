"""Runs that a script has started with a tracking client: kept as reported, each under its id."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.tracking import TIME_MIN_MS
from muster.wire import TrackedRunRecord
from muster_server.db.engine import touch
from muster_server.db.models import TrackedRunRow, TrialRow
from muster_server.schemas.base import Page
from muster_server.schemas.tracking import TrackedRunOut
from muster_server.services.core.events import add_event
from muster_server.services.core.lookup import get_trial
from muster_server.services.core.paging import read_page
from muster_server.services.core.texts import storable

RUNS_MAX = 5_000
"""Most runs of one trial."""
PAIRS_MAX = 2_000
"""Most params, and most tags, of one run."""
KEY_MAX_CHARS = 250
VALUE_MAX_CHARS = 8_000
_AT_MAX_MS = 253_402_300_799_000
"""The last second of the year 9999."""


def record(
    session: Session,
    trial: TrialRow,
    attempt_no: int,
    reported: TrackedRunRecord,
    now: dt.datetime,
) -> None:
    """Keep what is new of a run. The first one that is too many is told in the trial's events."""
    run_id = storable(reported.run_id, 64)
    row = session.scalar(
        select(TrackedRunRow).where(
            TrackedRunRow.trial_id == trial.id, TrackedRunRow.run_id == run_id
        )
    )
    if row is None:
        num_runs = session.scalar(select(func.count()).where(TrackedRunRow.trial_id == trial.id))
        if (num_runs or 0) >= RUNS_MAX:
            return
        if num_runs == RUNS_MAX - 1:
            add_event(
                session,
                "trial.message",
                f"The script has started {RUNS_MAX:,} runs: the params and tags of further ones are "
                "not kept.",
                now=now,
                level="warning",
                experiment_id=trial.experiment_id,
                trial_id=trial.id,
                attempt_no=attempt_no,
            )
        row = TrackedRunRow(trial_id=trial.id, run_id=run_id, params={}, tags={})
        session.add(row)
    row.attempt_no = attempt_no
    row.name = storable(reported.name, 500)
    row.label = storable(reported.label, 128)
    row.parent_run_id = storable(reported.parent_id, 64)
    row.folder = storable(reported.folder, 255)
    row.status = storable(reported.status, 16)
    row.started_at = _at(reported.started_ms, now)
    row.ended_at = None if reported.ended_ms is None else _at(reported.ended_ms, now)
    params, tags = ({}, {}) if reported.is_new else (row.params, row.tags)
    row.params = _merged(params, reported.params)
    removed = set(reported.removed_tags)
    row.tags = _merged({k: v for k, v in tags.items() if k not in removed}, reported.tags)
    session.flush()
    touch(session, f"trial:{trial.id}")


def child_labels(session: Session, trial_ids: Collection[int]) -> dict[int, list[str]]:
    """Return what the metrics of trials' further runs begin with, oldest first, by trial; trials
    without such runs are left out."""
    found: dict[int, list[str]] = {}
    query = (
        select(TrackedRunRow.trial_id, TrackedRunRow.label)
        .where(TrackedRunRow.trial_id.in_(trial_ids), TrackedRunRow.label != "")
        .order_by(TrackedRunRow.id)
    )
    for trial_id, label in session.execute(query):
        found.setdefault(trial_id, []).append(label)
    return found


def list_runs(
    session: Session, trial_id: int, *, cursor: str | None, limit: int
) -> Page[TrackedRunOut]:
    """Return the runs of one trial in the order they were first reported. Raises NotFound."""
    get_trial(session, trial_id)
    query = select(TrackedRunRow).where(TrackedRunRow.trial_id == trial_id)
    rows, following = read_page(session, query, TrackedRunRow.id, cursor=cursor, limit=limit)
    return Page(items=[TrackedRunOut.from_row(row) for row in rows], next=following)


def _merged(known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    found = dict(known)
    for key, value in new.items():
        name = storable(key, KEY_MAX_CHARS)
        if name in found or len(found) < PAIRS_MAX:
            found[name] = storable(value, VALUE_MAX_CHARS)
    return found


def _at(unix_ms: int, now: dt.datetime) -> dt.datetime:
    """Return the time; `now` for one that a calendar does not have, or that cannot be right."""
    if not TIME_MIN_MS <= unix_ms <= _AT_MAX_MS:
        return now
    return dt.datetime.fromtimestamp(unix_ms / 1000, dt.UTC)
