"""Which points make up a curve: of which attempts' series, up to which steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from muster.series_rules import STEP_MAX
from muster_server.db.models import TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.domain.metrics import bucket_width, visible_limits


@dataclass(frozen=True)
class CurveGroup:
    """One curve: a name of a rank of a trial, over the attempts of which something is visible,
    oldest first."""

    trial_id: int
    name: str
    rank: int
    records: tuple[SeriesRecord, ...]
    limits: dict[int, int | None]
    """Attempt → last visible step; see domain.metrics.visible_limits."""

    def last_visible_step(self) -> int:
        """Return the last step at which there may be a point."""
        return max(
            r.last_step if (limit := self.limits[r.attempt_no]) is None else min(r.last_step, limit)
            for r in self.records
        )


@dataclass(frozen=True)
class CurveSegment:
    """The visible part of one attempt's series within the window; both ends included."""

    record: SeriesRecord
    first_step: int
    last_step: int


def groups_of(
    session: Session,
    trial_ids: Sequence[int],
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
) -> list[CurveGroup]:
    records = queries.find_series(session, trial_ids, names=names, ranks=ranks)
    grouped: dict[tuple[int, str, int], list[SeriesRecord]] = {}
    for record in records:
        grouped.setdefault((record.trial_id, record.name, record.rank), []).append(record)
    groups = []
    for (trial_id, name, rank), members in grouped.items():
        limits = visible_limits({r.attempt_no: r.first_step for r in members})
        visible = tuple(
            r for r in members if (limit := limits[r.attempt_no]) is None or r.first_step <= limit
        )
        if visible:
            groups.append(CurveGroup(trial_id, name, rank, visible, limits))
    return groups


def shown_groups(
    session: Session,
    trial_ids: Sequence[int],
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
) -> list[CurveGroup]:
    """Return the curves to show of these trials: also those of the trial whose result one of them takes,
    as far as the caller sees it."""
    source = aliased(TrialRow)
    query = select(TrialRow.id, source.id).join(source, source.id == TrialRow.reused_from)
    links = {
        trial_id: source_id
        for chunk in queries.chunked(trial_ids)
        for trial_id, source_id in session.execute(query.where(TrialRow.id.in_(chunk)))
    }
    if not links:
        return groups_of(session, trial_ids, names, ranks)
    ids = list(dict.fromkeys(links.get(trial_id, trial_id) for trial_id in trial_ids))
    found: dict[int, list[CurveGroup]] = {}
    for group in groups_of(session, ids, names, ranks):
        found.setdefault(group.trial_id, []).append(group)
    return [
        replace(group, trial_id=trial_id)
        for trial_id in trial_ids
        for group in found.get(links.get(trial_id, trial_id), ())
    ]


def lowest_ranks(groups: Sequence[CurveGroup]) -> list[CurveGroup]:
    lowest: dict[tuple[int, str], CurveGroup] = {}
    for group in groups:
        key = (group.trial_id, group.name)
        if key not in lowest or group.rank < lowest[key].rank:
            lowest[key] = group
    return list(lowest.values())


def segments_of(
    group: CurveGroup, from_step: int | None, to_step: int | None
) -> list[CurveSegment]:
    segments = []
    for record in group.records:
        limit = group.limits[record.attempt_no]
        # Not bounded by record.last_step: after a restart it tells of the visible part only.
        last = STEP_MAX if limit is None else limit
        if to_step is not None:
            last = min(last, to_step)
        first = max(record.first_step, from_step or 0)
        if first <= last:
            segments.append(CurveSegment(record, first, last))
    return segments


def width_for(
    group: CurveGroup, from_step: int | None, to_step: int | None, max_points: int
) -> int:
    """Return the bucket width that draws what is visible of the window with at most `max_points`
    buckets.

    From the bounds of series and window alone, so it is known before anything is read.
    """
    first = max(group.records[0].first_step, from_step or 0)
    last = group.last_visible_step()
    if to_step is not None:
        last = min(last, to_step)
    return bucket_width(first, max(first, last), max_points)
