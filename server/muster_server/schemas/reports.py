"""Reports: pages of text, charts, tables and media over runs of a project."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster.series_rules import NAME_MAX_CHARS, STEP_MAX
from muster_server.domain.experiments.columns import MAX_COLUMN_CHARS
from muster_server.domain.reports import MAX_DECIMALS, ReportTable

from .accounts.panels import Expressions, RowId, Text
from .base import Identifier, Input, Name, Output, PartOut, SafeStr
from .data import CurvesReply
from .media import MediaItemOut

BLOCKS_MAX = 50
RUNS_MAX = 200
"""Runs of one block."""
COMMENT_CHARS_MAX = 5_000
LINK_DAYS_MAX = 90

Column = Annotated[SafeStr, Field(min_length=1, max_length=MAX_COLUMN_CHARS)]
MetricName = Annotated[SafeStr, Field(min_length=1, max_length=NAME_MAX_CHARS)]
Title = Annotated[SafeStr, Field(max_length=200)]
Version = Annotated[int, Field(ge=1, lt=2**31)]
XAxis = Literal["step", "wall", "relative"]


class RunSet(Input):
    """Runs of the report's project: trials that are named, and trials of experiments that are named
    or that have a label. At most 200."""

    experiments: Annotated[list[RowId], Field(max_length=100)] = []
    """Experiments whose trials are in the set."""
    trials: Annotated[list[RowId], Field(max_length=RUNS_MAX)] = []
    """Trials that are in the set, whatever the other fields say."""
    labels: Annotated[
        list[Annotated[SafeStr, Field(min_length=1, max_length=200)]], Field(max_length=10)
    ] = []
    """Labels, "paper=icml" or "paper": experiments of the project that have them all are in the set.
    Archived ones are left out."""
    only_completed: bool = False
    """Whether trials that have not completed are left out."""


class MarkdownBlock(Input):
    kind: Literal["markdown"]
    text: Text


class ChartBlock(Input):
    """Curves of metrics, or of expressions of them."""

    kind: Literal["chart"]
    title: Title = ""
    runs: RunSet
    metrics: Annotated[list[MetricName], Field(min_length=1, max_length=12)]
    """Metrics whose curves are loaded."""
    expressions: Expressions = []
    """Expressions of these metrics to draw, such as "train/loss - val/loss"; none: the metrics."""
    group_by: Column | None = None
    """Column, such as `hparam.lr`: runs with the same value are drawn as their mean, with a band
    from the least to the greatest. Null: a line for each run."""
    x: XAxis = "step"
    log: bool = False
    """Whether the y axis is logarithmic."""
    smoothing: Annotated[float, Field(ge=0, le=0.99)] = 0.0


class TableBlock(Input):
    """A row for each run; with `group_by` a row for each group, with mean and standard deviation."""

    kind: Literal["table"]
    title: Title = ""
    runs: RunSet
    columns: Annotated[list[Column], Field(min_length=1, max_length=20)]
    """Columns: name, experiment, trial, state, step, seed; hparam.<name>; config.<path>; label.<name>;
    metric.<last|min|max|best>.<name>."""
    group_by: Annotated[list[Column], Field(max_length=4)] = []
    headers: Annotated[dict[Column, Title], Field(max_length=24)] = {}
    """Names of columns in the head of the table; those of others are made from the column."""
    baseline: RowId | None = None
    """Trial: the other rows show their difference from the row that it is in."""
    decimals: Annotated[int, Field(ge=0, le=MAX_DECIMALS)] | None = None
    """Decimals of the numbers; null: two digits of the standard deviation."""


class MediaBlock(Input):
    """Media that the runs have logged."""

    kind: Literal["media"]
    title: Title = ""
    runs: RunSet
    names: Annotated[
        list[Annotated[SafeStr, Field(min_length=1, max_length=200)]],
        Field(min_length=1, max_length=8),
    ]
    step: Annotated[int, Field(ge=0, le=STEP_MAX)] | None = None
    """The last step up to this one that has media; null: the last of all."""


Block = Annotated[MarkdownBlock | ChartBlock | TableBlock | MediaBlock, Field(discriminator="kind")]
Blocks = Annotated[list[Block], Field(max_length=BLOCKS_MAX)]


class ReportIn(Input):
    project: Identifier
    title: Name
    blocks: Blocks = []


class ReportPatch(Input):
    """What is left out stays as it is."""

    version: Version
    """The version that the change is made to. Another one is refused: somebody else has changed the
    report since it was read."""
    title: Name | None = None
    blocks: Blocks | None = None


class ReportOut(Output):
    id: int
    project: str
    title: str
    owner: str | None
    """Who created it; null for an account that was removed."""
    version: int
    created_at: dt.datetime
    changed_at: dt.datetime
    frozen_at: dt.datetime | None
    """Time whose values it shows; null: it shows those of the moment it is read."""


class ReportDetail(ReportOut):
    blocks: list[Block]
    may_change: bool
    """Whether the caller may change, freeze and comment it."""
    may_manage: bool
    """Whether the caller may delete it and make links to it."""
    links_on: bool
    """Whether the server allows links for people without an account."""


class ReportRunOut(Output):
    trial_id: int
    trial_no: int
    experiment_id: int
    name: str
    group: str | None
    """Value of `group_by` of a chart; null without it."""


class ReportMediaOut(Output):
    item: MediaItemOut
    data: str | None
    """Content in base64; null if it is a file that is kept beside the run."""


class BlockContentOut(Output):
    """What a block shows; fields of other kinds are null."""

    kind: Literal["markdown", "chart", "table", "media"]
    title: str
    text: str | None = None
    problem: str | None = None
    """Why it shows nothing, such as more runs than a block may have."""
    problem_parts: list[PartOut] = []
    runs: list[ReportRunOut] = []
    curves: CurvesReply | None = None
    expressions: list[str] = []
    x: XAxis = "step"
    log: bool = False
    smoothing: float = 0.0
    table: ReportTable | None = None
    media: list[ReportMediaOut] | None = None
    num_left_out: int = 0
    """Curves or media items beyond those that a block may have."""


class ReportContentOut(Output):
    at: dt.datetime
    """Time of the values."""
    blocks: list[BlockContentOut]


class ReportCommentIn(Input):
    text: Annotated[SafeStr, Field(min_length=1, max_length=COMMENT_CHARS_MAX)]


class ReportCommentOut(Output):
    id: int
    author: str | None
    """Null for an account that was removed."""
    text: str
    created_at: dt.datetime
    may_delete: bool


class ReportLinkIn(Input):
    days: Annotated[int, Field(ge=1, le=LINK_DAYS_MAX)] = 7
    """How long the link works."""


class ReportLinkOut(Output):
    id: int
    created_by: str
    created_at: dt.datetime
    expires_at: dt.datetime
    last_used_at: dt.datetime | None


class ReportLinkCreated(ReportLinkOut):
    url: str
    """The link. Its secret is shown only now."""


class ReportTokenIn(Input):
    token: Annotated[SafeStr, Field(min_length=1, max_length=256)]


class SharedReportOut(Output):
    """What a link shows."""

    title: str
    frozen_at: dt.datetime | None
    expires_at: dt.datetime
    content: ReportContentOut
