"""Media of trials: images, figures, histograms, text, tables, curves, matrices, sound and video."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from muster.wire import MediaKind

from .base import Output


class MediaSeriesOut(Output):
    """All items of one name and kind that are shown; those that a later attempt replaces are not."""

    name: str
    kind: MediaKind
    num_items: int
    ranks: list[int]
    """Ranks that have logged any."""
    steps: list[int]
    """Steps with an item, ascending: at most 2,000, evenly spaced if there are more."""
    num_steps: int
    last_at: dt.datetime


class MediaDropsOut(Output):
    """Items that were left out, of all attempts."""

    reason: str
    """rate, bytes, count, files, too_large, queue, disk, invalid, damaged or trial; docs/guides/media.md
    explains each."""
    num: int


class MediaOverviewOut(Output):
    series: list[MediaSeriesOut]
    """Series in the order of their names."""
    num_series: int
    """Number of series, of which the first 1,000 are listed."""
    dropped: list[MediaDropsOut]


class MediaItemOut(Output):
    id: int
    trial_id: int
    attempt_no: int
    name: str
    kind: MediaKind
    step: int
    rank: int
    at: dt.datetime
    """Time at which it was logged."""
    mime: str
    """Media type of the content."""
    sha256: str
    size_bytes: int
    caption: str
    width: int
    """Width of an image or video in pixels; 0 if unknown."""
    height: int
    file: str
    """Path of the content in the outputs of the trial; empty for small content, which the server
    holds itself."""


class MediaContentOut(Output):
    """Whether the server has the content of an item now."""

    id: int
    state: Literal["ready", "pending", "failed"]
    waits_for: str
    """Node that sends pending content, or why no node can; empty otherwise."""
    message: str
    """Why the content cannot be had; empty otherwise."""
