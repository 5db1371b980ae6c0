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


class CurveAttempt(Output):
    """An attempt whose values are part of a curve."""

    no: int
    first_step: int
    """Its first step in this series; from here on it supersedes earlier attempts."""


class Series(Output):
    """Points or buckets of one series in a window of steps, oldest first, columns of equal length.

    raw: one entry per point, `min`=`max`=`mean`=`last`=value, `count`=1.
    Otherwise buckets of `bucket_steps` steps whose borders are multiples of it, so that new points
    only ever change the last one; the window's least and greatest value are always among them.
    """

    name: str
    rank: int
    attempts: list[CurveAttempt]
    """The attempts that the whole curve, not only the window, is made of, oldest first."""
    raw: bool
    bucket_steps: int
    num_points: int
    """Points in the window behind these entries."""
    num_steps: int | None = None
    """Number of steps from the first point to the last, for raw series that Muster itself measures.
    When steps are fast, a point is the mean of several, so there are more steps than points. Null
    for what a script reports."""
    downsampled: bool = False
    """Whether retention dropped points of this window; the buckets are then as wide as retention
    left them."""
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
    """Whether more series matched than the limit allows; `num_matching` is their number."""
    num_matching: int


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
    """Values along the x axis for `x=epoch` and `x=metric`, one per entry of the series, null where
    unknown; null for the whole trial if none is known. Null for other axes, whose values are in the
    series."""


class CurvesReply(Output):
    items: list[Curve]
    """Series by the trials in the order requested, then by name, then by rank."""
    max_points: int
    """Number of entries per curve; smaller than requested if many curves would make the answer too
    long."""
    num_matching: int
    """Number of matching curves; more than len(items) if the answer was cut."""
    missing: list[int]
    """Requested trials that do not exist or have none of the metrics."""


class LogLine(Output):
    stream_id: int
    trial_id: int
    trial_no: int
    rank: int
    """Rank of the worker; -1 for the launcher."""
    member: str = ""
    """Worker of a gang of roles as people name it, "rollout/0"; "" for any other."""
    local_rank: int
    node_name: str
    attempt_no: int
    stream: str
    no: int
    """Line number from 0 within its stream."""
    time_ms: int
    """Time when the server received the line."""
    text: str
    """Text without its line end. A line of more than 16,384 characters is cut, with `cut` true.
    Text overwritten by carriage returns is left out; a download includes it."""
    level: Literal["debug", "info", "warning", "error", "critical"] | None
    """Level named in the line; null if the line names none."""
    cut: bool
    partial: bool = False
    """Whether the end of the line has not arrived yet. A line with the same (stream_id, no) follows
    once there is more text; it replaces this one."""


class LogSearched(Output):
    """Progress of one page of a filtered search through the log, in the direction of reading; the
    next page continues there."""

    num_lines: int
    num_bytes: int
    left_lines: int
    left_bytes: int


class LogLeft(Output):
    """Streams of an experiment that a page leaves out, because one request reads only a limited
    number."""

    num_streams: int
    until: dt.datetime
    """All lines of these streams are older than this time, and only newer lines of the others are
    shown. To continue, send it as `until`."""


class LogPage(Output):
    lines: list[LogLine]
    older: str | None
    """Cursor for lines before these; null at the very beginning."""
    newer: str | None
    """Cursor for lines after these; always given, so that you can follow a log by asking again."""
    at_end: bool
    """Whether no later lines have arrived yet."""
    complete: bool
    """No more lines will come (the trial is terminal and its tail arrived)."""
    num_lines: int
    """Total number of lines in the matching streams."""
    truncated_streams: list[str]
    """Streams cut at the log limit, such as "rank 0 stdout"."""
    search_stopped: bool = False
    """Whether the search ran out of time. The matches so far are returned; continue from the cursor
    (`older` if you read from the end, `newer` otherwise)."""
    searched: LogSearched | None = None
    """Progress of a filtered search; null without a filter on lines."""
    left: LogLeft | None = None
    """Streams left out; null if every stream was read, and always for one trial."""


class LogStreamOut(Output):
    stream_id: int
    attempt_no: int
    rank: int
    member: str = ""
    """Worker of a gang of roles as people name it, "rollout/0"; "" for any other."""
    local_rank: int
    node_name: str
    stream: str
    size_bytes: int
    num_lines: int
    is_complete: bool


class MetricRetentionOut(Output):
    days: int | None
    """Days after the end of a trial until its series are downsampled; null for never."""
    num_trials: int
    """Number of trials of that age with series still to be downsampled."""
    num_points: int
    """Number of points in these series."""
    size_bytes: int
    """Stored size of the points in bytes."""
    freed_bytes: int
    """Number of these bytes that downsampling would free, estimated from `num_sampled` blocks."""
    num_sampled: int


class LogRetentionOut(Output):
    days: int | None
    """Days after the end of a trial until its logs are deleted; null for never."""
    num_trials: int
    """Number of trials of that age with logs."""
    size_bytes: int
    """Size of the log text in bytes, uncompressed."""
    freed_bytes: int
    """Number of bytes that deletion would free, which is the compressed size of the text."""


class RetentionOut(Output):
    """What is deleted by age, and how much that would free now."""

    is_set: bool
    """Whether these ages are the server's settings; false if the request named them."""
    num_projects_apart: int
    """Number of projects that have ages of their own, which count here, too."""
    metrics: MetricRetentionOut
    logs: LogRetentionOut


GrowthKind = Literal[
    "metrics", "system_metrics", "logs", "events", "audit", "cold_metrics", "checkpoints", "outputs"
]
GrowthPlace = Literal["database", "storage"]


class GrowthOut(Output):
    kind: GrowthKind
    place: GrowthPlace
    size_bytes: int
    """Size of what is stored, without indexes and other overhead of the database."""
    bytes_per_day: int | None
    """Bytes per day that were added in the last seven days and are still there; null after less than two
    days of history."""
    history_days: float
    """Age of the oldest of it, in days."""
    freed_bytes: int | None
    """Bytes that retention would free now; null where each experiment's document says what goes."""


class RetentionForecastOut(Output):
    """How much is stored, and how long the disk lasts."""

    items: list[GrowthOut]
    free_bytes: int | None
    """Free bytes on the disk of a SQLite database; null for PostgreSQL, whose disk the server does not see."""
    history_days: float
    """Age of the oldest data in the database, in days; the forecast is from the last seven."""
    days_left: int | None
    """Days until the disk is full if the database goes on to grow like this and nothing is deleted; null
    if that cannot be said."""
    reason: Literal["", "not_enough_history", "no_growth", "unknown_disk"]
    """Why it cannot be said; empty if it can."""


class LogValueOut(Output):
    """A value that a pattern finds in a log."""

    name: str
    step: int
    epoch: float | None
    value: WireFloat
    rank: int
    """Rank of the log; -1 for the launcher's."""
    line: str
    """Line that holds it, cut to 300 characters."""


class LogValueName(Output):
    """The values of one metric that a pattern finds."""

    name: str
    num_values: int
    last_step: int
    last: WireFloat


class LogValuesOut(Output):
    """What a pattern finds in a log."""

    num_values: int
    num_lines: int
    """Number of lines that hold a value."""
    num_names: int
    names: list[LogValueName]
    """The first 50 names, sorted."""
    first: list[LogValueOut]
    """The first 10 values."""
    num_refused: int
    """Number of matches that are left out because they are no numbers, or have too many names."""
    refused: str
    """The first of them and why; empty if there is none."""
    searched_bytes: int
    left_bytes: int
    """Number of bytes that were not searched because the time was over; 0 if all were."""


class LogHistogram(Output):
    """Number of finished lines by the time they were received: one entry per bucket, oldest
    first."""

    edges_ms: list[int]
    """Bucket boundaries, one more than there are buckets; empty if there are no lines."""
    num_lines: list[int]
    levels: dict[Level, list[int]]
    """Number of lines in each bucket, by level; lines that name no level are not counted."""
    num_left: int
    """Number of streams left out because there are too many."""
