"""Metric series and logs."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from muster_server.domain.logs.lines import Level

from .base import Output, WireFloat


class SeriesInfo(Output):
    """One metric of one rank; numbers are over the visible curve (superseded points hidden)."""

    name: str
    rank: int
    count: int
    num_non_finite: int
    first_step: int
    last_step: int
    last: WireFloat
    min: float | None
    max: float | None


class SeriesList(Output):
    items: list[SeriesInfo]
    names: list[str]
    """All distinct names, sorted."""
    ranks: list[int]


class Series(Output):
    """Points or buckets of one series in a window of steps, oldest first, columns of equal length.

    raw: one entry per point, `min`=`max`=`mean`=`last`=value, `count`=1.
    Otherwise buckets of `bucket_steps` steps whose borders are multiples of it, so that new points
    only ever change the last one; the window's least and greatest value are always among them.
    """

    name: str
    rank: int
    raw: bool
    bucket_steps: int
    num_points: int
    """Points in the window behind these entries."""
    num_steps: int | None = None
    """Of what Muster measures, raw: steps from the first point to the last. Where steps are fast a point
    is the mean of several, and there are more of them than points. Null for what a script reports."""
    downsampled: bool = False
    """Retention dropped points that this window would show; the buckets are as wide as it left them."""
    step: list[int]
    """Step of the point, or of the last point of the bucket."""
    time_ms: list[int]
    min: list[WireFloat | None]
    max: list[WireFloat | None]
    mean: list[WireFloat | None]
    last: list[WireFloat]
    count: list[int]


class SeriesReply(Output):
    trial_id: int
    attempt_no: int
    series: list[Series]
    truncated: bool
    """More series matched than the limit; `num_matching` says how many."""
    num_matching: int
    restarts: list[int]
    """Steps at which an attempt resumed."""


class TrialSeries(Output):
    trial_id: int
    trial_no: int
    series: Series


class ExperimentSeriesReply(Output):
    """One metric over the trials of an experiment."""

    experiment_id: int
    name: str
    items: list[TrialSeries]
    num_trials: int
    """Trials that have the metric; more than len(items) when the limit cut them."""


class Curve(Output):
    """One series of one of several trials, with what lies along its x axis."""

    trial_id: int
    trial_no: int
    experiment_id: int
    start_ms: int | None
    """When the trial's first attempt began to run; subtract it from `series.time_ms` for the time
    since then. None before that."""
    series: Series
    x: list[WireFloat | None] | None
    """For `x=epoch` and `x=metric`, one per entry of the series; None where it is not known, and
    for the trial where nothing is. Steps and times are in the series anyway: then it is None."""


class CurvesReply(Output):
    items: list[Curve]
    """In the order of the trials asked for, then of names, then of ranks."""
    max_points: int
    """Entries per curve: fewer than asked for when many curves would make the answer too long."""
    num_matching: int
    """Curves that matched; more than len(items) when their number was cut."""
    missing: list[int]
    """Trials asked for that do not exist, or have none of the names."""


class LogLine(Output):
    stream_id: int
    trial_id: int
    trial_no: int
    rank: int
    """-1: the launcher."""
    local_rank: int
    node_name: str
    attempt_no: int
    stream: str
    no: int
    """Line number from 0 within its stream."""
    time_ms: int
    """When the server received it."""
    text: str
    """Without line end; at most 16,384 characters, then cut with `cut` true. What carriage returns
    wrote over is left out; a download has it."""
    level: Literal["debug", "info", "warning", "error", "critical"] | None
    """As its text says; null when that names none."""
    cut: bool
    partial: bool = False
    """Its end has not arrived yet: the same (stream_id, no) comes again when one follows, with
    more text; replace it then."""


class LogSearched(Output):
    """How much of the log a page with a filter on lines has looked at, from where it began towards
    where it was going; the rest is for the next page."""

    num_lines: int
    num_bytes: int
    left_lines: int
    left_bytes: int


class LogLeft(Output):
    """Streams of an experiment that a page leaves out, as it has more than one request reads."""

    num_streams: int
    until: dt.datetime
    """All their lines are older than this, and of the others only newer ones are shown. Ask again
    with it as `until` to go on."""


class LogPage(Output):
    lines: list[LogLine]
    older: str | None
    """Cursor for lines before these; null at the very beginning."""
    newer: str | None
    """Cursor for lines after these; always given, so that following is asking again."""
    at_end: bool
    """Nothing comes after these by now."""
    complete: bool
    """No more lines will come (the trial is terminal and its tail arrived)."""
    num_lines: int
    """Lines in the matching streams, all in all."""
    truncated_streams: list[str]
    """Streams cut at the log limit ("rank 0 stdout")."""
    search_stopped: bool = False
    """The search ran out of time: these are the matches so far, and the cursor (`older` when
    reading from the tail, else `newer`) goes on from there."""
    searched: LogSearched | None = None
    """Null without a filter on lines."""
    left: LogLeft | None = None
    """Null when every stream was read; always for one trial."""


class LogStreamOut(Output):
    stream_id: int
    attempt_no: int
    rank: int
    local_rank: int
    node_name: str
    stream: str
    size_bytes: int
    num_lines: int
    is_complete: bool


class MetricRetentionOut(Output):
    days: int | None
    """Trials that ended longer ago; null: never."""
    num_trials: int
    """Trials of that age with series that would be downsampled; they have not been yet."""
    num_points: int
    """Of these series."""
    size_bytes: int
    """What the points take now."""
    freed_bytes: int
    """Of that, as estimated from `num_sampled` blocks."""
    num_sampled: int


class LogRetentionOut(Output):
    days: int | None
    """Trials that ended longer ago; null: never."""
    num_trials: int
    """Trials of that age with logs."""
    size_bytes: int
    """Of log text."""
    freed_bytes: int
    """What it takes, compressed."""


class RetentionOut(Output):
    """What is deleted by age, and what that would free now."""

    is_set: bool
    """These ages are the server's settings; false: they were asked about."""
    metrics: MetricRetentionOut
    logs: LogRetentionOut


class LogHistogram(Output):
    """How many finished lines were received when: one entry per bucket of time, oldest first."""

    edges_ms: list[int]
    """Borders of the buckets, one more than there are; empty when there is no line."""
    num_lines: list[int]
    levels: dict[Level, list[int]]
    """Level → lines that name it; the rest names none."""
    num_left: int
    """Streams that were left out because there are too many."""
