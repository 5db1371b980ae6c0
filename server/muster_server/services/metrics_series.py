"""Reading metrics: the visible curve of a trial as points or as buckets, and its summaries.

The cost follows what is drawn, not what is stored: whole blocks are read as roll-ups, and points
are decoded only where a block is cut by the window, overlaps with what is not compacted yet, or is
drawn finer than its roll-up.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import encode_number
from muster_server.db.engine import Database
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import BlockMeta, ReportedAttempt, SeriesRecord
from muster_server.db.queries.metrics_codec import (
    ENTRY,
    Entries,
    Points,
    as_entries,
    bucketed,
    concat,
    decode_batch,
    decode_block,
    decode_rollups,
    in_order,
    means,
    rollup_width,
)
from muster_server.domain.metrics import (
    STEP_MAX,
    AttemptPart,
    Summary,
    bucket_width,
    visible_limits,
)
from muster_server.errors import NotFound
from muster_server.schemas.data import (
    ExperimentSeriesReply,
    Series,
    SeriesInfo,
    SeriesList,
    SeriesReply,
    TrialSeries,
)

SERIES_MAX = 200
"""Series in one answer; more are cut, and the answer says so."""

CSV_FIELDS = ("name", "rank", "attempt_no", "step", "time_ms", "value")


# ---------------------------------------------------------------- what routes call


def list_series(session: Session, trial_id: int) -> SeriesList:
    """Every series of a trial with its summary over the visible curve.

    Reads summaries only, except for series that a restart has cut and that no compaction has
    visited since. Raises NotFound.
    """
    get_trial(session, trial_id)
    groups = _groups(session, [trial_id], None, None)
    summaries = _summaries(session, groups)
    return SeriesList(
        items=[
            SeriesInfo(
                name=group.name,
                rank=group.rank,
                count=s.count,
                num_non_finite=s.num_non_finite,
                first_step=s.first_step,
                last_step=s.last_step,
                last=s.last,
                min=s.min,
                max=s.max,
            )
            for group, s in summaries
        ],
        names=sorted({group.name for group, _ in summaries}),
        ranks=sorted({group.rank for group, _ in summaries}),
    )


def series(
    session: Session,
    trial_id: int,
    *,
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
    from_step: int | None = None,
    to_step: int | None = None,
    max_points: int = 1000,
) -> SeriesReply:
    """The visible curve of these names (None: all) and ranks (None: all) in a window of steps.

    Raises NotFound for an unknown trial; a name nobody reports is simply not in the answer.
    The models in the answer are made without validation: see `schemas.data.Series`.
    """
    trial = get_trial(session, trial_id)
    groups = _groups(session, [trial_id], names, ranks)
    shown = groups[:SERIES_MAX]
    attempts = queries.reported_attempts(session, [trial_id]).get(trial_id, [])
    return SeriesReply.model_construct(
        trial_id=trial_id,
        attempt_no=trial.attempt_no,
        series=_read_groups(session, shown, from_step, to_step, max_points),
        truncated=len(groups) > len(shown),
        num_matching=len(groups),
        restarts=[a.resume_step for a in attempts[1:]],
    )


def experiment_series(
    session: Session, experiment_id: int, *, name: str, max_points: int, max_trials: int
) -> ExperimentSeriesReply:
    """One metric over the trials of an experiment, each by the lowest rank that reports it.

    When there are more than max_trials, those with the best search metric are shown, then the
    newest. Raises NotFound.
    """
    experiment = session.get(ExperimentRow, experiment_id)
    if experiment is None:
        raise NotFound("experiments.not_found", f"There is no experiment {experiment_id}.")
    trials = session.execute(
        select(TrialRow.id, TrialRow.no, TrialRow.metric).where(
            TrialRow.experiment_id == experiment_id
        )
    ).all()
    groups = _lowest_ranks(_groups(session, [t.id for t in trials], [name], None))
    having = {group.trial_id: group for group in groups}
    sign = -1.0 if experiment.metric_goal == "max" else 1.0

    def preference(trial: Any) -> tuple[bool, float, int]:
        return (trial.metric is None, sign * (trial.metric or 0.0), -trial.no)

    chosen = sorted((t for t in trials if t.id in having), key=preference)[:max_trials]
    chosen.sort(key=lambda t: t.no)
    read = _read_groups(session, [having[t.id] for t in chosen], None, None, max_points)
    return ExperimentSeriesReply.model_construct(
        experiment_id=experiment_id,
        name=name,
        items=[
            TrialSeries.model_construct(trial_id=t.id, trial_no=t.no, series=s)
            for t, s in zip(chosen, read, strict=True)
        ],
        num_trials=len(having),
    )


def export_csv(
    database: Database,
    trial_id: int,
    *,
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
    from_step: int | None,
    to_step: int | None,
) -> Iterator[bytes]:
    """The visible points as CSV, one line per point, series after series.

    Each series is read in a short session of its own, so that a slow reader holds no transaction.
    """
    with database.read() as session:
        queries.begin_snapshot(session)
        groups = _groups(session, [trial_id], names, ranks)
    yield _csv_lines([CSV_FIELDS])
    for group in groups:
        for segment in _segments(group, from_step, to_step):
            yield from _export_segment(database, segment)


def get_trial(session: Session, trial_id: int) -> TrialRow:
    trial = session.get(TrialRow, trial_id)
    if trial is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return trial


def points_of(
    session: Session, records: Sequence[SeriesRecord], from_step: int, to_step: int
) -> list[dict[int, float]]:
    """Step → value of each of these stored series within the window, both ends included; finite
    ones only. What a later attempt has overwritten is there too."""
    segments = [_Segment(record, from_step, to_step) for record in records]
    found = []
    for segment, parts in zip(segments, _load(session, segments), strict=True):
        entries = _entries(session, segment, parts, width=1)
        steps, values = entries["step"].tolist(), entries["last"].tolist()
        pairs = zip(steps, values, strict=True)
        found.append({step: value for step, value in pairs if math.isfinite(value)})
    return found


# ---------------------------------------------------------------- summaries


def visible_summary(session: Session, trial_id: int, names: Sequence[str] | None) -> dict[str, Any]:
    """What `trials.summary` should hold for these names (None: all), computed from what is stored."""
    groups = _lowest_ranks(_groups(session, [trial_id], names, None))
    return {group.name: summary_json(s) for group, s in _summaries(session, groups)}


def summary_json(summary: Summary) -> dict[str, Any]:
    """The form in `trials.summary` (schemas.experiments.MetricSummary)."""
    return {
        "last": encode_number(summary.last),
        "min": summary.min,
        "max": summary.max,
        "count": summary.count,
        "step": summary.last_step,
    }


def summary_columns(summary: Summary) -> dict[str, Any]:
    """The form in `metric_series`."""
    is_finite = math.isfinite(summary.last)
    return {
        "count": summary.count,
        "num_non_finite": summary.num_non_finite,
        "first_step": summary.first_step,
        "last_step": summary.last_step,
        "last_time_ms": summary.last_time_ms,
        "last_value": summary.last if is_finite else None,
        "last_text": "" if is_finite else str(encode_number(summary.last)),
        "min_value": summary.min,
        "max_value": summary.max,
    }


def scan_summary(session: Session, record: SeriesRecord, last_step: int) -> Summary | None:
    """The summary of one stored series up to `last_step`, from its blocks and batches."""
    segment = _Segment(record, 0, last_step)
    (parts,) = _load(session, [segment])
    entries = _entries(session, segment, parts, width=None)
    if len(entries) == 0:
        return None
    whole = bucketed(entries, 1 << 62)[0]
    is_any_finite = bool(whole["num_finite"])
    return Summary(
        count=int(whole["count"]),
        num_non_finite=int(whole["count"]) - int(whole["num_finite"]),
        first_step=_first_step_of(parts),
        last_step=int(whole["step"]),
        last_time_ms=int(whole["time_ms"]),
        last=float(whole["last"]),
        min=float(whole["min"]) if is_any_finite else None,
        max=float(whole["max"]) if is_any_finite else None,
    )


def cut_series(session: Session, trial_id: int) -> list[tuple[SeriesRecord, int]]:
    """Series of earlier attempts whose stored summary tells of more than is visible, each with
    its last visible step."""
    return [
        (record, limit)
        for group in _groups(session, [trial_id], None, None)
        for record in group.records
        if (limit := group.limits[record.attempt_no]) is not None
        and record.first_step <= limit < record.last_step
    ]


def _summaries(session: Session, groups: Sequence[_Group]) -> list[tuple[_Group, Summary]]:
    found: list[tuple[_Group, Summary]] = []
    for group in groups:
        total: Summary | None = None
        for record in group.records:
            limit = group.limits[record.attempt_no]
            part: Summary | None
            if limit is None or record.last_step <= limit:
                part = _stored_summary(record)
            else:
                part = scan_summary(session, record, limit)
            if part is not None:
                total = part if total is None else total.merge(part)
        if total is not None:
            found.append((group, total))
    return found


def _stored_summary(record: SeriesRecord) -> Summary:
    return Summary(
        count=record.count,
        num_non_finite=record.num_non_finite,
        first_step=record.first_step,
        last_step=record.last_step,
        last_time_ms=record.last_time_ms,
        last=record.last,
        min=record.min_value,
        max=record.max_value,
    )


# ---------------------------------------------------------------- which points


@dataclass(frozen=True)
class _Group:
    """One curve: a name of a rank of a trial, over the attempts of which something is visible,
    oldest first."""

    trial_id: int
    name: str
    rank: int
    records: tuple[SeriesRecord, ...]
    limits: dict[int, int | None]
    """Attempt → last visible step; see domain.metrics.visible_limits."""


@dataclass(frozen=True)
class _Segment:
    """The visible part of one attempt's series within the window; both ends included."""

    record: SeriesRecord
    first_step: int
    last_step: int


@dataclass(frozen=True)
class _Parts:
    """A segment as loaded: whole blocks as roll-ups, everything else as points."""

    blocks: list[BlockMeta]
    exact: Points
    """Ordered; no step of it lies within one of the blocks."""


def _groups(
    session: Session,
    trial_ids: Sequence[int],
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
) -> list[_Group]:
    records = queries.find_series(session, trial_ids, names=names, ranks=ranks)
    attempts = queries.reported_attempts(session, trial_ids)
    grouped: dict[tuple[int, str, int], list[SeriesRecord]] = {}
    for record in records:
        grouped.setdefault((record.trial_id, record.name, record.rank), []).append(record)
    groups = []
    for (trial_id, name, rank), members in grouped.items():
        limits = _limits(attempts.get(trial_id, []), members)
        visible = tuple(
            r for r in members if (limit := limits[r.attempt_no]) is None or r.first_step <= limit
        )
        if visible:
            groups.append(_Group(trial_id, name, rank, visible, limits))
    return groups


def _limits(
    attempts: Sequence[ReportedAttempt], records: Sequence[SeriesRecord]
) -> dict[int, int | None]:
    if len(attempts) <= 1:
        return {r.attempt_no: None for r in records}
    first_steps = {r.attempt_no: r.first_step for r in records}
    return visible_limits(
        [
            AttemptPart(no=a.no, resume_step=a.resume_step, first_step=first_steps.get(a.no))
            for a in attempts
        ]
    )


def _lowest_ranks(groups: Sequence[_Group]) -> list[_Group]:
    lowest: dict[tuple[int, str], _Group] = {}
    for group in groups:
        key = (group.trial_id, group.name)
        if key not in lowest or group.rank < lowest[key].rank:
            lowest[key] = group
    return list(lowest.values())


def _segments(group: _Group, from_step: int | None, to_step: int | None) -> list[_Segment]:
    segments = []
    for record in group.records:
        limit = group.limits[record.attempt_no]
        # Not bounded by record.last_step: after a restart it tells of the visible part only.
        last = STEP_MAX if limit is None else limit
        if to_step is not None:
            last = min(last, to_step)
        first = max(record.first_step, from_step or 0)
        if first <= last:
            segments.append(_Segment(record, first, last))
    return segments


# ---------------------------------------------------------------- loading and bucketing


def _read_groups(
    session: Session,
    groups: Sequence[_Group],
    from_step: int | None,
    to_step: int | None,
    max_points: int,
) -> list[Series]:
    by_group = [_segments(group, from_step, to_step) for group in groups]
    segments = [segment for members in by_group for segment in members]
    loaded = iter(_load(session, segments))
    return [
        _read_group(session, group, [(s, next(loaded)) for s in members], max_points)
        for group, members in zip(groups, by_group, strict=True)
    ]


def _read_group(
    session: Session, group: _Group, parts: Sequence[tuple[_Segment, _Parts]], max_points: int
) -> Series:
    parts = [(s, p) for s, p in parts if p.blocks or len(p.exact)]
    num_points = sum(len(p.exact) + sum(b.num_points for b in p.blocks) for _, p in parts)
    if num_points <= max_points:
        entries = _joined([_entries(session, s, p, width=1) for s, p in parts])
        return _to_series(group, entries, raw=True, width=1, num_points=num_points)
    first = _first_step_of(parts[0][1])
    last = _last_step_of(parts[-1][1])
    width = bucket_width(first, last, max_points)
    entries = _joined([_entries(session, s, p, width=width) for s, p in parts])
    return _to_series(
        group, bucketed(entries, width), raw=False, width=width, num_points=num_points
    )


def _load(session: Session, segments: Sequence[_Segment]) -> list[_Parts]:
    """Batches and block roll-ups of all segments in two queries, cut blocks in a third."""
    if not segments:
        return []
    first = min(s.first_step for s in segments)
    last = max(s.last_step for s in segments)
    tails = _tails(session, segments, first, last)
    blocks = queries.find_blocks(session, [s.record.id for s in segments], first, last)
    whole: list[list[BlockMeta]] = []
    cut: list[list[BlockMeta]] = []
    for segment, tail in zip(segments, tails, strict=True):
        # Blocks from the tail's first step on may hold steps that the tail writes again.
        tail_first = int(tail.steps.min()) if len(tail) else STEP_MAX + 1
        mine = [
            b
            for b in blocks.get(segment.record.id, ())
            if b.first_step <= segment.last_step and b.last_step >= segment.first_step
        ]
        is_whole = [
            b.first_step >= segment.first_step
            and b.last_step <= segment.last_step
            and b.last_step < tail_first
            for b in mine
        ]
        whole.append([b for b, w in zip(mine, is_whole, strict=True) if w])
        cut.append([b for b, w in zip(mine, is_whole, strict=True) if not w])
    data = queries.block_data(session, [(b.series_id, b.first_step) for bs in cut for b in bs])
    loaded = []
    for segment, tail, whole_blocks, cut_blocks in zip(segments, tails, whole, cut, strict=True):
        points = [decode_block(data[b.series_id, b.first_step]) for b in cut_blocks]
        exact = in_order(concat([*points, tail])).between(segment.first_step, segment.last_step)
        loaded.append(_Parts(whole_blocks, exact))
    return loaded


def _tails(session: Session, segments: Sequence[_Segment], first: int, last: int) -> list[Points]:
    """What is not compacted yet, per segment, in the order written (all steps of the attempt from
    `first` to `last`)."""
    names: dict[tuple[int, int, int], set[str]] = {}
    for s in segments:
        key = (s.record.trial_id, s.record.attempt_no, s.record.rank)
        names.setdefault(key, set()).add(s.record.name)
    found: dict[tuple[int, int, int, str], list[Points]] = {}
    for batch in queries.find_batches(session, names, first, last):
        key = (batch.trial_id, batch.attempt_no, batch.rank)
        for name, points in decode_batch(batch.body, names[key]).items():
            found.setdefault((*key, name), []).append(points)
    empty: list[Points] = []
    return [
        concat(
            found.get((s.record.trial_id, s.record.attempt_no, s.record.rank, s.record.name), empty)
        ).between(s.first_step, s.last_step)
        for s in segments
    ]


def _entries(session: Session, segment: _Segment, parts: _Parts, *, width: int | None) -> Entries:
    """The segment as entries in step order, none wider than `width` (None: as wide as they come)."""
    as_rollup = [b for b in parts.blocks if width is None or rollup_width(b.rollup) <= width]
    coarse = [b for b in parts.blocks if width is not None and rollup_width(b.rollup) > width]
    found = []
    if as_rollup:
        found.append(decode_rollups(b.rollup for b in as_rollup))
    if coarse:
        data = queries.block_data(session, [(b.series_id, b.first_step) for b in coarse])
        found.extend(
            bucketed(as_entries(decode_block(block)), width or 1)
            for _, block in sorted(data.items())
        )
    if len(parts.exact):
        found.append(as_entries(parts.exact))
    if len(found) == 1:
        return found[0]
    entries = _joined(found)
    return entries[np.argsort(entries["step"], kind="stable")]


def _joined(entries: Sequence[Entries]) -> Entries:
    return np.concatenate(entries) if entries else np.empty(0, ENTRY)


def _first_step_of(parts: _Parts) -> int:
    firsts = [parts.blocks[0].first_step] if parts.blocks else []
    return min([*firsts, *([int(parts.exact.steps[0])] if len(parts.exact) else [])])


def _last_step_of(parts: _Parts) -> int:
    lasts = [parts.blocks[-1].last_step] if parts.blocks else []
    return max([*lasts, *([int(parts.exact.steps[-1])] if len(parts.exact) else [])])


def _to_series(
    group: _Group, entries: Entries, *, raw: bool, width: int, num_points: int
) -> Series:
    last = _floats(entries["last"])
    if raw:
        low = high = mean = cast("list[float | None]", last)
    else:
        low, high, mean = (
            _or_none(entries["min"]),
            _or_none(entries["max"]),
            _or_none(means(entries)),
        )
    return Series.model_construct(
        name=group.name,
        rank=group.rank,
        raw=raw,
        bucket_steps=width,
        num_points=num_points,
        step=entries["step"].tolist(),
        time_ms=entries["time_ms"].tolist(),
        min=low,
        max=high,
        mean=mean,
        last=last,
        count=entries["count"].tolist(),
    )


def _floats(column: Any) -> list[float]:
    return cast("list[float]", column.tolist())


def _or_none(column: Any) -> list[float | None]:
    values = cast("list[float | None]", column.tolist())
    for at in np.flatnonzero(np.isnan(column)).tolist():
        values[at] = None
    return values


# ---------------------------------------------------------------- export


def _export_segment(database: Database, segment: _Segment) -> Iterator[bytes]:
    """Block by block: memory stays bounded whatever the series' length."""
    position = segment.first_step
    while position <= segment.last_step:
        with database.read() as session:
            queries.begin_snapshot(session)
            tail = _tails(session, [segment], position, segment.last_step)[0]
            tail = tail.between(position, segment.last_step)
            blocks = queries.find_blocks(
                session, [segment.record.id], position, segment.last_step
            ).get(segment.record.id, [])[:8]
            data = queries.block_data(session, [(b.series_id, b.first_step) for b in blocks])
        if blocks and len(blocks) == 8:
            end = min(segment.last_step, blocks[-1].last_step)
        else:
            end = segment.last_step
        points = in_order(
            concat([*(decode_block(d) for _, d in sorted(data.items())), tail])
        ).between(position, end)
        r = segment.record
        prefix = (r.name, r.rank, r.attempt_no)
        yield _csv_lines(
            (*prefix, step, time_ms, encode_number(value))
            for step, time_ms, value in zip(
                points.steps.tolist(), points.times_ms.tolist(), points.values.tolist(), strict=True
            )
        )
        position = end + 1


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
