"""Segments of curves from the database: rolled up where that is fine enough, points where not.

The cost follows what is drawn, not what is stored: whole spans of blocks are read where the picture
is coarse, else whole blocks as roll-ups, and points are decoded only where a block is cut by the
window, overlaps with what is not compacted yet, or is drawn finer than its roll-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sqlalchemy.orm import Session

from muster.series_rules import STEP_MAX
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.queries.metrics_blocks import Rollup, StepRange
from muster_server.db.queries.metrics_codec import (
    ENTRY,
    Entries,
    Points,
    as_entries,
    bucketed,
    concat,
    decode_batch,
    decode_rollups,
    in_order,
    is_downsampled,
    rollup_width,
)
from muster_server.domain.metrics import SPAN_MIN_WIDTH

from .cold import decoded
from .curves import CurveSegment

UNBOUNDED = 1 << 62
"""A bucket width that is wider than any: whatever is stored is fine enough."""


@dataclass(frozen=True)
class LoadedSegment:
    """A segment as loaded: whole spans and blocks as roll-ups, everything else as points."""

    rollups: list[Rollup]
    """In step order; spans, where these are fine enough, and blocks, whose roll-ups may be too
    coarse: their points are then read when they are drawn."""
    exact: Points
    """Ordered; no step of it lies within one of the roll-ups."""
    kept_width: int = 0
    """Bucket width for which `exact` was kept, where it has lost points to retention; 0: it has not."""

    @property
    def num_points(self) -> int:
        return len(self.exact) + sum(r.num_points for r in self.rollups)

    @property
    def first_step(self) -> int:
        """First step of the segment, which must have at least one point."""
        firsts = [self.rollups[0].first_step] if self.rollups else []
        return min([*firsts, *([int(self.exact.steps[0])] if len(self.exact) else [])])


def load(
    session: Session, segments: Sequence[CurveSegment], widths: Sequence[int]
) -> list[LoadedSegment]:
    """Return all segments in a few queries, whatever their number.

    widths: of the buckets in which each is drawn (1: points). The points of a block that is too
    coarse for them are left to `entries_of`.
    """
    if not segments:
        return []
    first = min(s.first_step for s in segments)
    last = max(s.last_step for s in segments)
    tails = tails_of(session, segments, first, last)
    # Blocks from the tail's first step on may hold steps that the tail writes again.
    whole_until = [
        min(s.last_step, int(tail.steps.min()) - 1 if len(tail) else STEP_MAX)
        for s, tail in zip(segments, tails, strict=True)
    ]
    spans = _whole_spans(session, segments, widths, whole_until)
    blocks = _other_blocks(session, segments, spans, first, last)
    whole: list[list[Rollup]] = []
    cut: list[list[Rollup]] = []
    for segment, until, mine, of_spans in zip(segments, whole_until, blocks, spans, strict=True):
        is_whole = [b.first_step >= segment.first_step and b.last_step <= until for b in mine]
        whole_blocks = [b for b, w in zip(mine, is_whole, strict=True) if w]
        whole.append(sorted([*of_spans, *whole_blocks]) if of_spans else whole_blocks)
        cut.append([b for b, w in zip(mine, is_whole, strict=True) if not w])
    data = blocks_db.block_data(session, [(b.series_id, b.first_step) for bs in cut for b in bs])
    stored = decoded(session, data)
    loaded = []
    for segment, tail, whole_parts, cut_blocks in zip(segments, tails, whole, cut, strict=True):
        points = [stored[b.series_id, b.first_step] for b in cut_blocks]
        exact = in_order(concat([*points, tail])).between(segment.first_step, segment.last_step)
        kept = [b for b in cut_blocks if is_downsampled(data[b.series_id, b.first_step])]
        kept_width = max((rollup_width(b.rollup) for b in kept), default=0)
        loaded.append(LoadedSegment(whole_parts, exact, kept_width))
    return loaded


@dataclass(frozen=True)
class Drawn:
    """A segment as entries in step order."""

    entries: Entries
    kept_width: int
    """0, or the bucket width that some of it is left at because retention dropped the points that
    a finer picture would need."""


def entries_of(session: Session, parts: LoadedSegment, width: int) -> Entries:
    """Return the segment as entries in step order, none wider than `width` where its points are
    kept."""
    return draw(session, parts, width).entries


def draw(session: Session, parts: LoadedSegment, width: int) -> Drawn:
    """Return the segment in entries no wider than `width`, or as wide as retention has left
    them."""
    kept_width = parts.kept_width if parts.kept_width > width else 0
    fine: list[bytes] = []
    coarse: list[Rollup] = []
    for r in parts.rollups:
        if rollup_width(r.rollup) <= width:
            fine.append(r.rollup)
        else:
            coarse.append(r)
    found = []
    if fine:
        found.append(decode_rollups(fine))
    if coarse:
        data = blocks_db.block_data(session, [(b.series_id, b.first_step) for b in coarse])
        # Their roll-ups tell more than the points that were kept of them: counts and means.
        lost = [b for b in coarse if is_downsampled(data[b.series_id, b.first_step])]
        if lost:
            found.append(decode_rollups([b.rollup for b in lost]))
            kept_width = max(kept_width, *(rollup_width(b.rollup) for b in lost))
        whole = {key: block for key, block in data.items() if not is_downsampled(block)}
        if whole:
            stored = decoded(session, whole)
            points = concat([stored[key] for key in sorted(stored)])
            found.append(bucketed(as_entries(points), width))
    if len(parts.exact):
        found.append(as_entries(parts.exact))
    if len(found) == 1:
        return Drawn(found[0], kept_width)
    entries = joined(found)
    return Drawn(entries[np.argsort(entries["step"], kind="stable")], kept_width)


def joined(entries: Sequence[Entries]) -> Entries:
    return np.concatenate(entries) if entries else np.empty(0, ENTRY)


def points_of(
    session: Session, records: Sequence[SeriesRecord], from_step: int, to_step: int
) -> list[dict[int, float]]:
    """Step → value of each of these stored series within the window, both ends included; finite
    ones only. What a later attempt has overwritten is there too."""
    segments = [CurveSegment(record, from_step, to_step) for record in records]
    found = []
    for parts in load(session, segments, [1] * len(segments)):
        entries = entries_of(session, parts, 1)
        steps, values = entries["step"].tolist(), entries["last"].tolist()
        pairs = zip(steps, values, strict=True)
        found.append({step: value for step, value in pairs if math.isfinite(value)})
    return found


def tails_of(
    session: Session, segments: Sequence[CurveSegment], first: int, last: int
) -> list[Points]:
    """Return the points of each segment that are not compacted yet, in the order they were written:
    all steps of the attempt from `first` to `last`."""
    names: dict[tuple[int, int, int], set[str]] = {}
    for s in segments:
        key = (s.record.trial_id, s.record.attempt_no, s.record.rank)
        names.setdefault(key, set()).add(s.record.name)
    found: dict[tuple[int, int, int, str], list[Points]] = {}
    for batch in blocks_db.find_batches(session, names, first, last):
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


def _whole_spans(
    session: Session,
    segments: Sequence[CurveSegment],
    widths: Sequence[int],
    whole_until: Sequence[int],
) -> list[list[Rollup]]:
    """Return per segment its spans that lie within it and are fine enough to be drawn."""
    coarse = [s for s, width in zip(segments, widths, strict=True) if width >= SPAN_MIN_WIDTH]
    if not coarse:
        return [[] for _ in segments]
    found = blocks_db.find_spans(
        session,
        [s.record.id for s in coarse],
        min(s.first_step for s in coarse),
        max(s.last_step for s in coarse),
        max(widths),
    )
    return [
        [
            span
            for span, bucket_steps in found.get(s.record.id, ())
            if bucket_steps <= width and span.first_step >= s.first_step and span.last_step <= until
        ]
        for s, width, until in zip(segments, widths, whole_until, strict=True)
    ]


def _other_blocks(
    session: Session,
    segments: Sequence[CurveSegment],
    spans: Sequence[Sequence[Rollup]],
    first: int,
    last: int,
) -> list[list[Rollup]]:
    """Return per segment its blocks that no span of it holds, in step order."""
    plain = [s.record.id for s, of_spans in zip(segments, spans, strict=True) if not of_spans]
    found = blocks_db.find_blocks(session, plain, first, last)
    ranges = [r for s, of_spans in zip(segments, spans, strict=True) for r in _gaps(s, of_spans)]
    found |= blocks_db.find_blocks_in(session, ranges)
    return [
        [
            b
            for b in found.get(s.record.id, ())
            if b.first_step <= s.last_step and b.last_step >= s.first_step
        ]
        for s in segments
    ]


def _gaps(segment: CurveSegment, spans: Sequence[Rollup]) -> list[StepRange]:
    """Return the steps of a segment before, between and after its spans; none without spans."""
    if not spans:
        return []
    of = segment.record.id
    gaps = [StepRange(of, segment.first_step, spans[0].first_step - 1, cuts=True)]
    for before, after in pairwise(spans):
        gaps.append(StepRange(of, before.last_step + 1, after.first_step - 1, cuts=False))
    gaps.append(StepRange(of, spans[-1].last_step + 1, segment.last_step, cuts=False))
    return [gap for gap in gaps if gap.first_step <= gap.last_step]
