"""Panels of one's own beside the charts of an experiment or a project."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from ..base import Input, Name, Output, SafeStr

PanelKind = Literal["line", "bar", "scatter", "histogram", "table", "markdown", "images", "mark"]
"""A `mark` is no chart of its own: its title stands at a step of every chart."""
MAX_EXPRESSIONS = 12
MAX_EXPRESSION_CHARS = 500
MAX_TEXT_CHARS = 20_000

Expression = Annotated[SafeStr, Field(min_length=1, max_length=MAX_EXPRESSION_CHARS)]
Expressions = Annotated[list[Expression], Field(max_length=MAX_EXPRESSIONS)]
Text = Annotated[SafeStr, Field(max_length=MAX_TEXT_CHARS)]
RowId = Annotated[int, Field(ge=1, lt=2**31)]
Place = Annotated[int, Field(ge=0, le=10_000)]


class PanelIn(Input):
    """What a panel shows, and where: on one experiment or on every experiment of a project."""

    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    """Project whose experiments show the panel. Needed if there is no `experiment_id`."""
    experiment_id: RowId | None = None
    """Experiment that shows the panel, and no other one does."""
    title: Name
    kind: PanelKind
    expressions: Expressions = []
    """Names of metrics and expressions of them, such as "train/loss - val/loss". For `images`: names
    of media. The dashboard reads them; a name that a run does not report is not drawn."""
    x: Expression | None = None
    """Metric or expression along the x axis of a `scatter`; null for the step. Of a `mark`: its step."""
    text: Text = ""
    """Text of a `markdown` panel."""


class PanelPatch(Input):
    """What is left out stays as it is."""

    title: Name | None = None
    kind: PanelKind | None = None
    expressions: Expressions | None = None
    x: Expression | None = None
    """Null for the step. Of a `mark`: its step."""
    text: Text | None = None
    position: Place | None = None
    """New place among the panels of the same experiment or project, from 0; a place beyond the last
    one is the last one."""


class PanelOut(Output):
    id: int
    project: str
    experiment_id: int | None
    """Null: every experiment of the project shows it."""
    position: int
    title: str
    kind: PanelKind
    expressions: list[str]
    x: str | None
    text: str
    owner: str | None
    """User who added it; null if that user was removed."""
    may_change: bool
    """Whether the caller may change and delete it."""
    changed_at: dt.datetime
