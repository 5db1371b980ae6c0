"""Taking in metrics: one batch row per record, summaries beside it.

What is shown of a trial (its summary, step and epoch) comes from the lowest rank that reports a
name; the other ranks' values are kept and drawn, but do not compete for the one number in a table.
"""

from __future__ import annotations

import datetime as dt
import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from sqlalchemy import CursorResult, select
from sqlalchemy.orm import Session

from muster.document.searching import Unit
from muster.wire import MetricsRecord, decode_number, encode_number
from muster_server.db.engine import touch
from muster_server.db.models import (
    EventRow,
    ExperimentRow,
    MetricBatchRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics_codec import encode_batch
from muster_server.domain.metrics import (
    MEASURED_GROUPS,
    epoch_at,
    headline_name,
    is_headline,
)
from muster_server.domain.search import CARRIERS
from muster_server.services.core.reporters import MetricSource, ReportingAllocation
from muster_server.services.metrics import summaries
from muster_server.services.metrics.columns import Column, Part, read_columns, values_of
from muster_server.settings import get_settings

WORKER_GROUPS = (*MEASURED_GROUPS, "memory/")
"""Names of these groups are kept per worker, to compare ranks without reading series."""

HEADLINE_RESERVE = 1_000
"""Series of losses, errors and Muster's own measurements that an attempt may have beyond its limit."""

_DROPPED_EVENT = "metrics.dropped"
_MAX_SHOWN = 5


@dataclass(frozen=True)
class MetricUpdate:
    """A value of the searcher's metric, from the rank that stands for the trial."""

    name: str
    step: int
    epoch: float | None
    value: float
    progress: Mapping[Unit, float] = field(default_factory=dict)
    """Samples, seconds and epochs trained so far, as metrics reported with it or last before say."""


@dataclass(frozen=True)
class Origin:
    """A reporter without an allocation."""

    id: str
    """At most 32 characters; no allocation has it."""
    trial_id: int
    attempt_no: int


def ingest(
    session: Session,
    *,
    allocation: ReportingAllocation,
    seq: int,
    record: MetricsRecord,
    at: dt.datetime,
    max_series: int | None = None,
) -> list[MetricUpdate]:
    """Store a record and bring every summary up to date, in the caller's transaction.

    A record whose (allocation, seq) is stored already changes nothing. Columns that cannot be
    stored (a bad name, one series too many) are left out and reported as an event of the trial;
    they never make the record fail, because it would be sent again for ever. Records of an
    attempt that is not the trial's current one are kept, but change nothing that is shown.

    max_series: per attempt; None takes it from the settings.
    Returns the values of the experiment's search metric, oldest first.
    """
    return ingest_several(
        session, allocation=allocation, records=[(seq, record)], at=at, max_series=max_series
    )


def ingest_several(
    session: Session,
    *,
    allocation: ReportingAllocation,
    records: Sequence[tuple[int, MetricsRecord]],
    at: dt.datetime,
    max_series: int | None = None,
) -> list[MetricUpdate]:
    """Store consecutive records of one rank, each with its number, oldest first, like `ingest`.

    They are stored as one record under the last number, so that the backlog of an agent that could
    not reach the server costs by its points, not by its records. None of them may be stored
    already: the caller must check this against the number up to which the allocation's stream is
    stored.
    """
    # What earlier records of the request changed is written once, at the commit.
    with session.no_autoflush:
        return _ingest(session, allocation, records, at, max_series)


def _ingest(
    session: Session,
    allocation: ReportingAllocation,
    records: Sequence[tuple[int, MetricsRecord]],
    at: dt.datetime,
    max_series: int | None,
) -> list[MetricUpdate]:
    seq, newest = records[-1]
    found = read_columns(record for _, record in records)
    columns, refused = found.columns, found.refused
    known = _known_series(session, allocation, newest.rank)
    limit = get_settings().series_max_per_trial if max_series is None else max_series
    columns, over = _within_limit(session, allocation, columns, known, limit)
    if refused or over:
        _report_dropped(session, allocation, refused, over, limit, at)
    if not columns:
        return []
    if not store_batch(session, allocation, seq, newest.rank, columns, at):
        return []

    first_of_attempt = not known and (
        queries.lowest_rank(session, allocation.trial_id, allocation.attempt_no) is None
    )
    queries.merge_series(
        session, [series_row(allocation, newest.rank, c) for c in sorted(columns, key=_by_name)]
    )
    new_names = {c.name for c in columns if c.name not in known}
    # From here on these supersede what earlier attempts reported.
    begun = {c.name for c in columns if _begins(c, known.get(c.name))}
    known |= {c.name: c.summary.first_step for c in columns if c.name in begun}
    _update_worker(session, allocation, newest, columns, at)
    is_shown = _update_trial(
        session,
        allocation,
        [r for _, r in records],
        columns,
        new_names,
        begun if allocation.attempt_no > 1 else set(),
        first_of_attempt,
        at,
    )
    trial = f"trial:{allocation.trial_id}"
    touch(session, trial, f"{trial}:metrics")
    metric_name = _seen(session, allocation).metric_name
    if metric_name is None or metric_name not in is_shown:
        return []
    progress = {
        unit: sorted(
            (step, value)
            for part in found.parts.get(name, ())
            for step, value in zip(part[1].steps, values_of(part), strict=True)
        )
        for unit, name in CARRIERS.items()
    }
    for unit, earlier in _seen(session, allocation).progress.items():
        progress[unit].insert(0, earlier)
    return [
        update
        for part in found.parts[metric_name]
        for update in _search_updates(metric_name, part, progress)
    ]


# ---------------------------------------------------------------- what is known already


@dataclass
class _Seen:
    """What a transaction has read already: a request holds up to 1,000 records."""

    series: dict[int, dict[str, int | None]] = field(default_factory=dict)
    """Rank → names that have a series in this attempt → its first step."""
    workers: dict[int, WorkerRow] = field(default_factory=dict)
    trial: TrialRow | None = None
    """Locked by this transaction."""
    metric_name: str | None = None
    compared: frozenset[str] | None = None
    """Metrics by which its search compares; None until they are needed."""
    progress: dict[Unit, tuple[int, float]] = field(default_factory=dict)
    """(step, value) of what the trial's metrics said before what is being stored now."""


def _seen(session: Session, allocation: ReportingAllocation) -> _Seen:
    seen: dict[str, _Seen] = session.info.setdefault("muster_ingest", {})
    return seen.setdefault(allocation.id, _Seen())


def _known_series(
    session: Session, allocation: ReportingAllocation, rank: int
) -> dict[str, int | None]:
    series = _seen(session, allocation).series
    if rank not in series:
        key = (allocation.trial_id, allocation.attempt_no, rank)
        series[rank] = queries.first_steps(session, *key)
    return series[rank]


def _begins(column: Column, first_step: int | None) -> bool:
    """Return whether a column begins before the series that is known; None: there is none."""
    return first_step is None or column.summary.first_step < first_step


def _within_limit(
    session: Session,
    allocation: ReportingAllocation,
    columns: list[Column],
    known: Collection[str],
    limit: int,
) -> tuple[list[Column], list[str]]:
    """Return the columns to store, and the names for which there is no room in the attempt.

    What a search compares its trials by always has room, and what summarizes a training has some
    beyond the limit: a script reports them after its thousands of values per layer.
    """
    new = [c.name for c in columns if c.name not in known]
    if not new:
        return columns, []
    room = limit - queries.num_series(session, allocation.trial_id, allocation.attempt_no)
    if len(new) <= room:
        return columns, []
    compared = _compared_names(session, allocation)
    rooms = (math.inf, room + HEADLINE_RESERVE, room)

    def rank(name: str) -> int:
        if name in compared:
            return 0
        return 1 if is_headline(name) or headline_name([name]) is not None else 2

    over = [name for at, name in enumerate(sorted(new, key=rank)) if at >= rooms[rank(name)]]
    left_out = set(over)
    return [c for c in columns if c.name not in left_out], over


def _compared_names(session: Session, allocation: ReportingAllocation) -> frozenset[str]:
    """Return the metrics by which the search of a trial compares, the objectives if it has
    several."""
    seen = _seen(session, allocation)
    if seen.compared is None:
        config = session.scalars(
            select(ExperimentRow.config)
            .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
            .where(TrialRow.id == allocation.trial_id)
        ).one()
        objectives = (o.metric for o in config.search.objectives or ())
        seen.compared = frozenset({config.search.metric or "", *objectives})
    return seen.compared


def _report_dropped(
    session: Session,
    allocation: ReportingAllocation,
    refused: dict[str, str],
    over: Sequence[str],
    limit: int,
    at: dt.datetime,
) -> None:
    """One event per attempt that says what is being left out; it counts on from there."""
    session.flush()
    event = session.scalars(
        select(EventRow).where(
            EventRow.trial_id == allocation.trial_id,
            EventRow.attempt_no == allocation.attempt_no,
            EventRow.type == _DROPPED_EVENT,
        )
    ).first()
    reasons = {printable(name): reason for name, reason in refused.items()}
    reasons |= {printable(name): f"more than {limit} series in one attempt" for name in over}
    if event is None:
        shown = "; ".join(f"{n!r}: {r}" for n, r in list(reasons.items())[:_MAX_SHOWN])
        more = len(reasons) - _MAX_SHOWN
        event = EventRow(
            at=at,
            level="warning",
            type=_DROPPED_EVENT,
            message=f"Metrics were left out: {shown}" + (f"; and {more} more" if more > 0 else ""),
            experiment_id=session.scalar(
                select(TrialRow.experiment_id).where(TrialRow.id == allocation.trial_id)
            ),
            trial_id=allocation.trial_id,
            attempt_no=allocation.attempt_no,
            node_id=allocation.node_id,
            data={},
        )
        session.add(event)
        touch(session, f"trial:{allocation.trial_id}")
    event.data = {"num_columns": event.data.get("num_columns", 0) + len(reasons)}


def printable(text: str) -> str:
    """`text` fit for a message: what is not printable becomes ?."""
    return "".join(c if c.isprintable() else "?" for c in text)


# ---------------------------------------------------------------- storing


def store_batch(
    session: Session,
    allocation: MetricSource,
    seq: int,
    rank: int,
    columns: Sequence[Column],
    at: dt.datetime,
) -> bool:
    """False when the record is stored already."""
    steps = array("q")
    times = array("q")
    values = array("d")
    for c in columns:
        steps.extend(c.steps)
        times.extend(c.times_ms)
        values.extend(c.values)
    body = encode_batch(
        [(c.name, len(c.steps)) for c in columns],
        np.frombuffer(steps, "<i8"),
        np.frombuffer(times, "<i8"),
        np.frombuffer(values, "<f8"),
    )
    result = session.execute(
        queries.insert_or_ignore(session, MetricBatchRow),
        {
            "allocation_id": allocation.id,
            "seq": seq,
            "trial_id": allocation.trial_id,
            "attempt_no": allocation.attempt_no,
            "rank": rank,
            "num_points": len(steps),
            "first_step": min(c.summary.first_step for c in columns),
            "last_step": max(c.summary.last_step for c in columns),
            "received_at": at,
            "body": body,
        },
    )
    return cast(CursorResult[Any], result).rowcount == 1


def _by_name(column: Column) -> str:
    return column.name


def series_row(allocation: MetricSource, rank: int, column: Column) -> dict[str, Any]:
    return {
        "trial_id": allocation.trial_id,
        "attempt_no": allocation.attempt_no,
        "rank": rank,
        "name": column.name,
        **summaries.summary_columns(column.summary),
    }


def _update_worker(
    session: Session,
    allocation: ReportingAllocation,
    record: MetricsRecord,
    columns: Sequence[Column],
    at: dt.datetime,
) -> None:
    workers = _seen(session, allocation).workers
    worker = workers.get(record.local_rank)
    if worker is None:
        worker = session.scalars(
            select(WorkerRow).where(
                WorkerRow.allocation_id == allocation.id, WorkerRow.local_rank == record.local_rank
            )
        ).first()
        if worker is None:
            return
        workers[record.local_rank] = worker
    latest = {
        c.name: encode_number(c.summary.last) for c in columns if c.name.startswith(WORKER_GROUPS)
    }
    if latest:
        worker.latest = {**worker.latest, **latest}
    worker.step = max(worker.step, record.step, *(c.summary.last_step for c in columns))
    worker.last_report_at = at


def _update_trial(
    session: Session,
    allocation: ReportingAllocation,
    records: Sequence[MetricsRecord],
    columns: Sequence[Column],
    new_names: set[str],
    superseding: set[str],
    first_of_attempt: bool,
    at: dt.datetime,
) -> set[str]:
    """Bring what is shown of the trial up to date; the names for which this rank stands for it.

    superseding: names of which less of an earlier attempt is visible than before.
    """
    key = (allocation.trial_id, allocation.attempt_no)
    newest = records[-1]
    mine = list(columns)
    is_lowest = newest.rank == 0
    if not is_lowest:
        # Only what no lower rank reports; for most records of most ranks that is nothing, and
        # then the trial's row, which all ranks share, is not written.
        others = queries.names_of_lower_ranks(session, *key, newest.rank, [c.name for c in columns])
        mine = [c for c in columns if c.name not in others]
        is_lowest = queries.lowest_rank(session, *key) == newest.rank
    if not mine and not is_lowest:
        return set()
    trial = _locked_trial(session, allocation)
    if trial.attempt_no != allocation.attempt_no:
        return set()
    _seen(session, allocation).progress = {
        unit: (before["step"], decode_number(before["last"]))
        for unit, name in CARRIERS.items()
        if (before := trial.summary.get(name)) is not None
    }

    going_on = [c for c in mine if c.name not in superseding]
    summary = merged_summary(trial.summary, going_on, new_names=new_names)
    if len(going_on) < len(mine):
        names = sorted(superseding & {c.name for c in mine})
        summary |= summaries.visible_summary(session, trial.id, names)
    trial.summary = summary

    if is_lowest:
        step = max(*(r.step for r in records), *(c.summary.last_step for c in columns))
        trial.step = step if first_of_attempt else max(trial.step, step)
        trial.progress_at = at
        for record in records:
            if record.epoch is not None and math.isfinite(record.epoch):
                trial.epoch = record.epoch
            if record.num_steps_planned is not None:
                trial.num_steps_planned = record.num_steps_planned
    return {c.name for c in mine}


def merged_summary(
    summary: dict[str, Any], columns: Sequence[Column], *, new_names: set[str]
) -> dict[str, Any]:
    """`summary` with these columns added. A name whose series is new starts afresh: until now a
    higher rank may have stood for it."""
    merged = dict(summary)
    for c in columns:
        before = merged.get(c.name) if c.name not in new_names else None
        added = summaries.summary_json(c.summary)
        if before is not None:
            added["count"] += before["count"]
            for key, choose in (("min", min), ("max", max)):
                both = [v for v in (before[key], added[key]) if v is not None]
                added[key] = choose(both) if both else None
            if before["step"] > added["step"]:
                added["last"], added["step"] = before["last"], before["step"]
        merged[c.name] = added
    return merged


def _locked_trial(session: Session, allocation: ReportingAllocation) -> TrialRow:
    """Return the trial as it is now, locked against the other allocations' ingests until the
    commit."""
    seen = _seen(session, allocation)
    if seen.trial is None:
        session.flush()
        seen.trial = session.scalars(
            select(TrialRow)
            .where(TrialRow.id == allocation.trial_id)
            .with_for_update()
            .execution_options(populate_existing=True)
        ).one()
        seen.metric_name = session.scalar(
            select(ExperimentRow.metric_name).where(ExperimentRow.id == seen.trial.experiment_id)
        )
    return seen.trial


def _search_updates(
    name: str, part: Part, progress: Mapping[Unit, Sequence[tuple[int, float]]]
) -> list[MetricUpdate]:
    record, points = part
    return [
        MetricUpdate(
            name=name,
            step=step,
            epoch=epoch_at(step, record_step=record.step, record_epoch=record.epoch),
            value=value,
            progress={
                unit: known[-1]
                for unit, reported in progress.items()
                if (known := [v for at, v in reported if at <= step and math.isfinite(v)])
            },
        )
        for step, value in zip(points.steps, values_of(part), strict=True)
    ]
