"""Saved views of the dashboard's pages."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from ..base import Input, Name, Output, SafeStr

ViewPage = Literal["experiments", "compare"]
MAX_QUERY_CHARS = 4000
Query = Annotated[SafeStr, Field(max_length=MAX_QUERY_CHARS, pattern=r"^[^?#\s]*$")]


class SavedViewIn(Input):
    page: ViewPage
    name: Name
    query: Query
    """The page's address after the question mark: "sort=-best&state=RUNNING"."""
    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    """The project that it is shared with; without one it is yours alone."""
    is_default: bool = False
    """The page opens with it, for you."""


class SavedViewPatch(Input):
    """What is left out stays as it is."""

    name: Name | None = None
    query: Query | None = None
    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    """Project to share the view with; null to stop sharing it."""
    is_default: bool | None = None


class SavedViewOut(Output):
    id: int
    page: ViewPage
    name: str
    query: str
    project: str | None
    owner: str
    is_mine: bool
    is_default: bool
    """Whether it is its owner's default view."""
    changed_at: dt.datetime
