"""Series in numbers: what is stored beside them, without reading their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from muster.wire import encode_number
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_codec import bucketed
from muster_server.domain.metrics import Summary

from .curves import CurveGroup, CurveSegment, groups_of, lowest_ranks
from .loading import UNBOUNDED, entries_of, load


def visible_summary(session: Session, trial_id: int, names: Sequence[str] | None) -> dict[str, Any]:
    """Return the entries that `trials.summary` should have for these names (None: all), computed
    from the stored points."""
    groups = lowest_ranks(groups_of(session, [trial_id], names, None))
    return {group.name: summary_json(s) for group, s in summaries_of(session, groups)}


def summary_json(summary: Summary) -> dict[str, Any]:
    """Return the form in `trials.summary` (schemas.experiments.MetricSummary)."""
    return {
        "last": encode_number(summary.last),
        "min": summary.min,
        "max": summary.max,
        "count": summary.count,
        "step": summary.last_step,
    }


def add_value(before: Any, value: float, step: int) -> dict[str, Any]:
    """Return a summary as `summary_json` writes it, with one more value. before: None for the
    first."""
    known = before or {"min": None, "max": None, "count": 0}
    finite = [value] if math.isfinite(value) else []
    return {
        "last": encode_number(value),
        "min": min([*finite, *(v for v in (known["min"],) if v is not None)], default=None),
        "max": max([*finite, *(v for v in (known["max"],) if v is not None)], default=None),
        "count": known["count"] + 1,
        "step": step,
    }


def summary_columns(summary: Summary) -> dict[str, Any]:
    """Return the form in `metric_series`."""
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
    """Return the summary of one stored series up to `last_step`, from its blocks and batches."""
    segment = CurveSegment(record, 0, last_step)
    (parts,) = load(session, [segment], [UNBOUNDED])
    entries = entries_of(session, parts, UNBOUNDED)
    if len(entries) == 0:
        return None
    whole = bucketed(entries, UNBOUNDED)[0]
    is_any_finite = bool(whole["num_finite"])
    return Summary(
        count=int(whole["count"]),
        num_non_finite=int(whole["count"]) - int(whole["num_finite"]),
        first_step=parts.first_step,
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
        for group in groups_of(session, [trial_id], None, None)
        for record in group.records
        if (limit := group.limits[record.attempt_no]) is not None
        and record.first_step <= limit < record.last_step
    ]


def summaries_of(
    session: Session, groups: Sequence[CurveGroup]
) -> list[tuple[CurveGroup, Summary]]:
    found: list[tuple[CurveGroup, Summary]] = []
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
